//! What goes on for longer than a call: a connection that stands for an agent, whatever it speaks.
//!
//! A [`Stream`] hears of whatever concerns its agent, and tells it by the door's [`Voice`]: tasks that are offered to it
//! or taken back ([`offers`]), messages ([`mail`]), orders, and what the ledger says of it ([`standing`]). [`outbox`]
//! bounds what is on its way, [`ended`] gives back what streams of processes that are gone had. Whether its credential
//! still counts is for [`crate::auth::Vigil`] to say; what is said over it, and in which words, is the door's business.

mod ended;
mod mail;
mod offers;
mod outbox;
mod standing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::verb::{Complete, Completed, Deregister, Joined};
use switchboard_core::{Agent, AgentId, Door, MessageId, Received, Task, TaskId, Verb};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use ended::{attend, end_all};
pub(crate) use mail::OnItsWay;
pub(crate) use offers::{Held, Offer};
pub(crate) use outbox::{Ended, Frame, Outbox};
pub(crate) use standing::what_became;

use crate::hub::{Error, Hub};
use crate::runtime::judged;
use crate::wakeups::{Bell, ClaimWaiter};
use offers::Slot;

/// After a try that may work in a moment.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(250);

/// One stream of an agent. There may be any number of them; each is rung.
pub(crate) struct Stream<V> {
    hub: Hub,
    /// What it is called in the ledger.
    name: String,
    /// As it was last seen.
    agent: Box<Agent>,
    pub voice: V,
    terms: Terms,
    bell: Bell,
    /// In the queue for a task.
    waiter: Option<ClaimWaiter>,
    /// What the agent holds, oldest first.
    held: Vec<Held>,
    slot: Slot,
    /// Not to be offered again on this stream.
    declined: VecDeque<TaskId>,
    /// Offers in a row that it did not answer.
    unanswered: u32,
    told_to_stop: bool,
    /// Messages that were taken up and are not settled yet.
    on_its_way: Arc<OnItsWay>,
    /// Something that must be acknowledged was handed over on it.
    owes_receipts: bool,
    /// Look at the ledger again then, whatever is heard.
    look_at: Option<Instant>,
}

/// What a door says over a stream, in its own words.
pub(crate) trait Voice: Send + Sync {
    type Frame: Frame;

    fn outbox(&self) -> &Outbox<Self::Frame>;

    /// A task is its own, and it is to say whether it takes it.
    fn offer(&self, task: &Task, offer: Offer);

    fn revoke(&self, held: &Held, reason: String);

    /// A person wants it to stop.
    fn stop(&self, agent: &AgentId, reason: &str);

    fn mail(&self, mail: Received);
}

/// What a door gives to an agent, and how.
pub(crate) struct Terms {
    pub door: Door,
    pub tasks: bool,
    pub mail: bool,
    /// An offer that is not answered in this time is taken back.
    pub accept_within: Duration,
    /// The whole cycle of one task takes no longer.
    pub cap: Duration,
    /// Without progress for this long a task is given back.
    pub stale_after: Duration,
    /// At most so many agents have a task at a time, if there is a bound.
    pub slots: Option<Arc<Semaphore>>,
    /// Whether work is handed out.
    pub open: watch::Receiver<bool>,
    pub stopping: CancellationToken,
}

/// What there is to do besides reading and writing.
pub(crate) enum Errand {
    /// Its row changed, or a message waits.
    Changed,
    /// A task may be there for it, or work is handed out again, or no longer.
    Work,
    /// It may take one of the slots.
    Slot(OwnedSemaphorePermit),
}

impl<V: Voice> Stream<V> {
    /// Under a name of [`Hub::stream_name`], by which the agent joined.
    pub fn new(hub: &Hub, name: String, joined: Joined, voice: V, terms: Terms) -> Self {
        Stream {
            bell: hub.shared.wakeups().watch_agent(&joined.agent.id),
            hub: hub.clone(),
            name,
            held: joined.holds.iter().map(Held::of).collect(),
            agent: joined.agent,
            voice,
            terms,
            waiter: None,
            slot: Slot::None,
            declined: VecDeque::new(),
            unanswered: 0,
            told_to_stop: false,
            on_its_way: Arc::default(),
            owes_receipts: false,
            look_at: None,
        }
    }

    /// Others take messages up for this stream, too: each is in here before it is taken.
    pub fn shares(&mut self, on_its_way: &Arc<OnItsWay>) {
        self.on_its_way = Arc::clone(on_its_way);
    }

    pub fn agent(&self) -> &AgentId {
        &self.agent.id
    }

    /// Whether the ledger knows that its agent is there by this door, as far as was seen.
    pub fn is_open(&self) -> bool {
        self.agent.doors.contains(&self.terms.door) || self.agent.id.is_no_agent()
    }

    /// The tasks in its hands.
    pub fn holds(&self) -> impl Iterator<Item = &TaskId> {
        self.held.iter().map(|held| &held.task)
    }

    /// Waits for something to do.
    pub async fn next(&mut self) -> Errand {
        let (waiter, slot, open) = (&self.waiter, &mut self.slot, &mut self.terms.open);
        let woken = async {
            match waiter {
                Some(waiter) => waiter.woken().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.bell.rung() => Errand::Changed,
            () = woken => Errand::Work,
            Ok(()) = open.changed() => Errand::Work,
            permit = slot.granted() => Errand::Slot(permit),
        }
    }

    pub async fn on(&mut self, errand: Errand) {
        match errand {
            Errand::Changed => return self.refresh().await,
            Errand::Work => {}
            Errand::Slot(permit) => self.slot = Slot::Held(permit),
        }
        self.seek_work().await;
    }

    /// When to call [`Stream::on_time`], if nothing else happens.
    pub fn due_at(&self) -> Option<Instant> {
        let offers = self.held.iter().filter_map(|held| held.answer_by);
        offers.chain(self.look_at).min()
    }

    pub async fn on_time(&mut self) {
        let now = Instant::now();
        if self.due_at().is_some_and(|at| at <= now) {
            self.look_at = None;
            // It may have accepted elsewhere meanwhile.
            self.refresh().await;
        }
        self.take_back_unanswered(now).await;
    }

    /// After a look that failed, if the next one may not.
    fn looks_again_after(&mut self, error: &Error) {
        if error.may_pass() {
            self.look_at = Some(Instant::now() + RETRY_AFTER);
        }
    }

    /// Runs a verb until it is decided: what was said once must not be lost because the ledger was away.
    pub async fn insist<T>(&self, verb: T) -> Result<T::Reply, Error>
    where
        T: Verb + Clone + Send + 'static,
        T::Reply: Send,
    {
        self.until_decided(|| self.hub.run(verb.clone())).await
    }

    /// The same for a completion, which may have to be compared with a contract first.
    pub async fn complete(&self, complete: Complete) -> Result<Completed, Error> {
        judged(&self.hub, complete, |complete| self.insist(complete)).await
    }

    pub async fn until_decided<T, F>(&self, run: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            match run().await {
                Err(error) if error.may_pass() && !self.is_over() => {
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                decided => return decided,
            }
        }
    }

    fn is_over(&self) -> bool {
        self.terms.stopping.is_cancelled() || self.voice.outbox().ended().is_some()
    }

    /// Its agent was signed off elsewhere: what comes on this connection counts for nothing, and it should know.
    pub fn sign_off(&self) {
        self.voice.outbox().end(Ended::Gone);
    }

    /// It goes for good, and has nothing any more.
    pub fn leaves(&mut self) {
        self.held.clear();
        self.waiter = None;
        self.slot = Slot::None;
        self.voice.outbox().end(Ended::Left);
    }

    /// The connection is over; the agent may come back within its time. `is_last` unless a newer one has it.
    pub async fn end(mut self, unsent: Vec<MessageId>, is_last: bool) {
        self.give_mail_back(unsent).await;
        // With a task in its hands it may be back in a moment, to finish it.
        let has_left = self.voice.outbox().ended() == Some(Ended::Left);
        let is_done = self.agent.is_stopping() && self.held.is_empty() && !has_left;
        self.take_back_later();
        if is_last && is_done && !self.terms.stopping.is_cancelled() {
            let agent = self.agent.id.clone();
            if let Err(error) = self.hub.run(Deregister { agent }).await {
                tracing::debug!(%error, "an agent that was asked to shut down was not deregistered; it will time out");
            }
        }
    }
}
