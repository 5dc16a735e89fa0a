//! What somebody says, over whatever path: one commit, one write for each recipient that is connected here, one answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use switchboard_core::verb::{Heard, Likeness, Refuse, Said, Say, Speaker};
use switchboard_core::{AgentId, Door, MessageId, Priority, Received, Refusal, TELEGRAM, To};
use switchboard_wire::squidrun::frame::{Dedupe, SendAck};
use switchboard_wire::squidrun::{Saying, Status, from_wire, to_wire};
use tokio::sync::{broadcast, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::desk::{Desk, Expected};
use super::restart;
use super::socket::print;
use super::state::Broker;
use super::tasks::Ending;
use crate::hub::Error;
use crate::squidrun::{Says, Told};

/// The answer waits so long for a recipient that is about to have it.
const WAITS_MAX: Duration = Duration::from_secs(1);

impl Says for Broker {
    fn say(&self, saying: Saying) -> BoxFuture<'_, Status> {
        let restart = restart::announced_by(&saying);
        async move {
            let ack = self.said(saying).await;
            self.warn_of(restart, &ack).await;
            ack.status
        }
        .boxed()
    }

    fn begins(&self, session: u32) {
        self.heard_session(session);
    }

    fn told(&self) -> broadcast::Receiver<Told> {
        self.told.subscribe()
    }
}

impl Broker {
    /// The answer to a frame; the same frame within a minute gets the same one.
    pub(super) async fn answer(self: Arc<Self>, saying: Saying, asks: bool) -> SendAck {
        let restart = restart::announced_by(&saying);
        let ack = match saying.id.clone().filter(|_| asks) {
            None => self.said(saying).await,
            Some(id) => {
                let cell = self.acks.of(&id, &saying);
                let ack = cell.get_or_init(|| self.said(saying)).await.clone();
                if !ack.accepted {
                    self.acks.forget(&id, &cell);
                }
                ack
            }
        };
        if restart.is_some() {
            // Nobody waits for git.
            let (broker, ack) = (Arc::clone(&self), ack.clone());
            self.tasks
                .spawn(async move { broker.warn_of(restart, &ack).await });
        }
        ack
    }

    async fn said(&self, saying: Saying) -> SendAck {
        let began = Instant::now();
        let trace = saying.trace.as_ref();
        let parent = trace.and_then(|trace| trace.parent_event_id.clone());
        let ending = Ending::of(&saying);
        let given = saying.id.clone();
        let mut fresh = |kind| self.ids.fresh(kind);
        let said = from_wire::say(saying, self.roles(), self.session(), &mut fresh);
        let mut ack = match said {
            Ok(say) => {
                let speaker = say.from.clone();
                let ack = self.run_say(say).await;
                if let (Some(ending), true) = (ending, ack.accepted) {
                    self.end_task(&speaker, ending).await;
                }
                ack
            }
            Err(refused) => {
                let (id, why) = (given, refused.why.to_string());
                self.record(refused.record).await;
                self.refusal(id, refused.status, why)
            }
        };
        let took = u64::try_from(began.elapsed().as_millis());
        ack.ack_latency_ms = took.unwrap_or(u64::MAX);
        ack.parent_event_id = parent;
        ack
    }

    pub(super) async fn run_say(&self, mut say: Say) -> SendAck {
        let (id, priority, from) = (say.id.clone(), say.priority, say.from.id().clone());
        if let Some(refused) = self.lacks_bot(&say).await {
            return refused;
        }
        let expected = self.expect(&mut say);
        // What the rules refuse is kept; only this can be, that is not known.
        let is_bound = say.bound_to.is_some() || matches!(say.from, Speaker::Slot { .. });
        let bound = is_bound.then(|| from_wire::refuse(&say, Status::OwnerBindingViolation));
        match self.hub.run(say).await {
            Ok(Said::New(heard)) => self.hand_over(*heard, priority, expected).await,
            Ok(Said::Again) => {
                drop(expected);
                self.outcome(&id).await
            }
            Ok(Said::Like { message, by }) => {
                drop(expected);
                self.like(id, message, by, &from).await
            }
            Err(error) => {
                let status = match &error {
                    Error::Refused(Refusal::OwnerBinding { .. }) => {
                        self.record(bound).await;
                        Status::OwnerBindingViolation
                    }
                    Error::Refused(Refusal::MessageAlreadyExists { .. }) => Status::InvalidMessage,
                    Error::Refused(_) => Status::DeliveryFailed,
                    _ => Status::HandlerError,
                };
                self.refusal(Some(id.to_string()), status, error.to_string())
            }
        }
    }

    /// Recipients that are connected here have it in hand with the same commit.
    fn expect(&self, say: &mut Say) -> Vec<Expected> {
        let desks = self.desks.lock();
        let desks: Vec<Arc<Desk>> = match &say.to {
            To::Everyone => desks.values().cloned().collect(),
            named => named
                .named()
                .iter()
                .filter_map(|id| desks.get(id).cloned())
                .collect(),
        };
        let mut expected = Vec::with_capacity(desks.len());
        for desk in desks {
            if let Some(take_up) = desk.takes_up() {
                expected.push(desk.expects(&say.id));
                say.take_up.push(take_up);
            }
        }
        expected
    }

    async fn hand_over(
        &self,
        heard: Heard,
        priority: Priority,
        expected: Vec<Expected>,
    ) -> SendAck {
        let until = Instant::now() + WAITS_MAX;
        self.heard_session(heard.session);
        let received = Received {
            message: heard.message,
            priority,
            redelivered: false,
        };
        let id = &received.message.id;
        let mut frame = to_wire::message(&received, heard.session);
        if let Some(task) = &heard.task {
            frame = to_wire::with_task(frame, task.number);
        }
        let text = print(&frame);
        let mut words = FuturesUnordered::new();
        for expected in expected {
            if !heard.taken_up.contains(&expected.desk.role) {
                continue;
            }
            if let Some(task) = &heard.task {
                self.claim(&expected.desk, id, task.id.clone()).await;
            }
            expected.desk.note_trace(&received.message);
            words.push(expected.deliver(&text));
        }
        for role in &heard.waiting {
            // Behind others, or about to sit down.
            let desk = self.desks.lock().get(role).cloned();
            words.extend(desk.and_then(|desk| desk.word_to_come(id)));
        }
        self.nobody_runs(&heard.waiting).await;
        if words.is_empty() {
            self.wait_for_others(id, &heard.waiting, until).await;
        }
        let count = written(words, until).await;
        let written = to_wire::written_ack(&received.message, count, self.hub.wall());
        let has_copy = heard.waiting.iter().any(|it| it.as_str() == TELEGRAM);
        let known = match written.is_none() || has_copy {
            true => Some(self.outcome(id).await),
            false => None,
        };
        let acks = written.into_iter().chain(known);
        let count = acks.clone().map(|ack| ack.ws_delivery_count).max();
        let furthest = acks.min_by_key(|ack| ack.status);
        SendAck {
            ws_delivery_count: count.unwrap_or(0),
            ..furthest.expect("what was not written is looked up")
        }
    }

    /// If a recipient is connected to another coordinator, that one may be about to hand it over.
    async fn wait_for_others(&self, id: &MessageId, waiting: &[AgentId], until: Instant) {
        if !self.hub.is_shared() {
            return;
        }
        let named = waiting.to_vec();
        let look = self.hub.read(move |ledger| {
            for id in &named {
                let agent = ledger.agent(id)?;
                if agent.is_some_and(|agent| agent.doors.contains(&Door::Squidrun)) {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        if !look.await.unwrap_or(false) {
            return;
        }
        let mut latest = self.hub.latest();
        loop {
            latest.borrow_and_update();
            if self.as_it_is(id).await.verified {
                return;
            }
            if timeout_at(until, latest.changed()).await.is_err() {
                return;
            }
        }
    }

    /// A message as the ledger has it now.
    pub(super) async fn as_it_is(&self, id: &MessageId) -> SendAck {
        let wanted = id.clone();
        let read = self.hub.read(move |ledger| ledger.message(&wanted)).await;
        match read {
            Ok(Some((message, deliveries))) => SendAck {
                timestamp: self.hub.wall().0,
                ..to_wire::ack(&message, &deliveries, self.hub.time())
            },
            // It was committed, whether it can be read now or not.
            Ok(None) | Err(_) => self.ack(Some(id.to_string()), Status::AcceptedUnverified),
        }
    }

    async fn like(
        &self,
        id: MessageId,
        source: MessageId,
        by: Likeness,
        from: &AgentId,
    ) -> SendAck {
        // The first one may still be on its way.
        let first = self.acks.known(source.as_str()).unwrap_or_default();
        let made = first.get_or_init(|| self.outcome(&source));
        let ack = match timeout(WAITS_MAX, made).await {
            Ok(ack) => ack.clone(),
            Err(_) => self.outcome(&source).await,
        };
        SendAck {
            message_id: Some(id.to_string()),
            dedupe: Some(Dedupe {
                mode: match by {
                    Likeness::Signature => "signature_cache",
                    Likeness::Sequence => "sequence",
                },
                key: format!("{from}:{source}"),
                source_message_id: source.to_string(),
            }),
            ..ack
        }
    }

    pub(super) async fn record(&self, refuse: Option<Refuse>) {
        if let Some(refuse) = refuse
            && let Err(error) = self.hub.run(refuse).await
        {
            tracing::debug!(%error, "a message that was refused is not on record");
        }
    }

    pub(super) fn refusal(&self, id: Option<String>, status: Status, why: String) -> SendAck {
        SendAck {
            error: Some(why),
            ..self.ack(id, status)
        }
    }

    pub(super) fn ack(&self, id: Option<String>, status: Status) -> SendAck {
        to_wire::send_ack(id, status, self.hub.wall())
    }
}

/// How many connections have it, as far as is known in time.
async fn written(mut words: FuturesUnordered<oneshot::Receiver<u32>>, until: Instant) -> u32 {
    let mut count = 0_u32;
    while let Ok(Some(word)) = timeout_at(until, words.next()).await {
        count = count.saturating_add(word.unwrap_or(0));
    }
    count
}
