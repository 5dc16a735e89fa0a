//! What goes on for longer than a call: a connection that stands for an agent, whatever it speaks.
//!
//! A [`Stream`] hears of whatever concerns its agent, stands in the queue for tasks, takes up messages and settles them
//! once they are written. [`outbox`] bounds what is on its way to it, [`standing`] asks the ledger what the agent has,
//! [`ended`] gives back what streams of processes that are gone had. Whether its credential still counts is for
//! [`crate::auth::Vigil`] to say; what is said over it, and in which words, is the door's business.

mod ended;
mod outbox;
mod standing;

use std::time::Duration;

use switchboard_core::verb::{Assign, Claimed, EndStream, Hand, Handed, TakeBack};
use switchboard_core::{Agent, AgentId, MessageId, Received, Task};
use tokio::time::Instant;

pub(crate) use ended::{attend, end_all};
pub(crate) use outbox::{Ended, Frame, Outbox};
pub(crate) use standing::{Standing, what_became};

use crate::hub::{Error, Hub};
use crate::wakeups::{Bell, ClaimWaiter, Wakeups};

/// After a try that may work in a moment.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Messages on their way over one stream at a time.
const HANDED_AT_ONCE: usize = 16;
/// Nobody else hands them out for this long.
const HOLD_FOR: Duration = Duration::from_secs(30);

/// One stream of an agent. There may be any number of them; each is rung.
pub(crate) struct Stream {
    hub: Hub,
    agent: AgentId,
    /// What it is called in the ledger.
    name: String,
    bell: Bell,
    /// In the queue for a task.
    waiter: Option<ClaimWaiter>,
    /// Messages that were taken up and are not written yet.
    on_its_way: Vec<MessageId>,
    /// Something that must be acknowledged was handed over on it.
    owes_receipts: bool,
}

/// What a look into the queue brought.
pub(crate) enum Sought {
    Task(Box<Task>),
    /// It waits, and looks again then if nothing wakes it before.
    Nothing(Option<Instant>),
}

impl Stream {
    /// Under a name of [`Hub::stream_name`].
    pub fn new(hub: &Hub, agent: AgentId, name: String) -> Self {
        Stream {
            bell: hub.shared.wakeups().watch_agent(&agent),
            hub: hub.clone(),
            agent,
            name,
            waiter: None,
            on_its_way: Vec::new(),
            owes_receipts: false,
        }
    }

    /// Whenever the agent's row changes or a message waits for it.
    pub async fn rung(&self) {
        self.bell.rung().await;
    }

    /// Whenever there may be a task for it.
    pub async fn woken(&self) {
        match &self.waiter {
            Some(waiter) => waiter.woken().await,
            None => std::future::pending().await,
        }
    }

    pub fn leave_queue(&mut self) {
        self.waiter = None;
    }

    /// Takes the next task; if there is none, it stands in the queue as what the agent is now.
    pub async fn seek(&mut self, agent: &Agent, assign: Assign) -> Result<Sought, Error> {
        let (shared, filter) = (&self.hub.shared, &assign.claim.filter);
        let wait = || Wakeups::wait_for_task(shared, agent.clone(), filter.clone());
        let waiter = self.waiter.get_or_insert_with(wait);
        // Whatever fails from here on drops it: what it was woken for goes to the next one.
        let errand = waiter.errand();
        match self.hub.run(assign).await? {
            Claimed::Task(task) => {
                let took = errand.filter(|errand| errand.lane().matches(&task));
                took.into_iter().for_each(|errand| errand.settle());
                self.waiter = None;
                Ok(Sought::Task(task))
            }
            Claimed::None(nothing) => {
                let far = Instant::now() + RETRY_AFTER * 8;
                let passed_on = self.hub.pass_on(errand, far).await.ok();
                let turn = self.hub.turn_after_others(waiter, &nothing);
                let sooner = passed_on.filter(|at| *at < far).into_iter();
                Ok(Sought::Nothing(sooner.chain(turn).min()))
            }
        }
    }

    /// Takes up messages that wait, also what an older stream took up; they count as handed over once they are written.
    pub async fn take_up(&mut self) -> Result<Vec<Received>, Error> {
        let hand = Hand {
            agent: self.agent.clone(),
            stream: self.name.clone(),
            limit: HANDED_AT_ONCE,
            hold_for: HOLD_FOR,
        };
        let mut taken = self.hub.run(hand).await?;
        taken.retain(|taken| !self.on_its_way.contains(&taken.message.id));
        for Received { message, .. } in &taken {
            self.on_its_way.push(message.id.clone());
            self.owes_receipts |= message.ack_required;
        }
        Ok(taken)
    }

    /// They were written: the verb to insist on.
    pub fn handed(&mut self, messages: Vec<MessageId>) -> Handed {
        self.on_its_way.retain(|id| !messages.contains(id));
        Handed {
            agent: self.agent.clone(),
            stream: self.name.clone(),
            messages,
        }
    }

    /// It is over. What was never written, and what was not acknowledged, waits for whatever door comes next.
    pub async fn end(self, unsent: Vec<MessageId>) {
        let (agent, stream, messages) = (self.agent, self.name, unsent);
        if !messages.is_empty() {
            let take_back = TakeBack {
                agent: agent.clone(),
                stream: stream.clone(),
                messages,
            };
            if let Err(error) = self.hub.run(take_back).await {
                tracing::debug!(%error, "messages that were not sent could not be queued again; that happens later");
            }
        }
        if self.owes_receipts
            && let Err(error) = self.hub.run(EndStream { agent, stream }).await
        {
            tracing::debug!(%error, "unacknowledged messages were not queued again; they wait for the agent's next connection");
        }
    }
}

/// Tries until it is decided: what was said once must not be lost because the ledger was away.
pub(crate) async fn insist<T, F>(
    run: impl Fn() -> F,
    is_over: impl Fn() -> bool,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match run().await {
            Err(error) if error.may_pass() && !is_over() => tokio::time::sleep(RETRY_AFTER).await,
            decided => return decided,
        }
    }
}
