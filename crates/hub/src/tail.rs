//! Word of what other coordinators write: wakes whoever waits in this process for it.
//!
//! A thread of its own follows the log. What this process writes itself is told by its own writer. Being woken is a
//! hint; whoever is woken looks at the ledger itself. So does the writer, when somebody wrote by hand.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use switchboard_core::{AgentId, Event, MessageId, TaskId, TaskStatus};
use switchboard_store::{Error as StoreError, Foreign, Tail};

use crate::hub::HubState;

/// Batches of others that are looked at in one step.
const BATCHES_PER_PAGE: usize = 32;
/// Ids that are looked up in one question.
const IDS_PER_LOOK: usize = 512;
/// Whoever is further behind than this wakes everyone and goes on from the end.
const BEHIND_MAX: u64 = 16_384;
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The thread that follows the log.
pub(crate) struct Follower {
    /// Dropped to stop it.
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Begins after an event's number.
    pub fn start(
        tail: Box<dyn Tail>,
        shared: Arc<HubState>,
        after: u64,
    ) -> std::io::Result<Follower> {
        let (stop, stopped) = sync_channel(1);
        let follow = Follow {
            tail,
            shared,
            after,
        };
        let thread = std::thread::Builder::new()
            .name("tail".to_owned())
            .spawn(move || follow.run(&stopped))?;
        Ok(Follower { stop, thread })
    }

    /// Blocks until it has ended; not longer than one wait for news.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Follow {
    tail: Box<dyn Tail>,
    shared: Arc<HubState>,
    /// Whoever waits was told of everything up to here.
    after: u64,
}

impl Follow {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut pause = Duration::ZERO;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            match self.turn() {
                Ok(()) if pause.is_zero() => {}
                Ok(()) => {
                    tracing::info!("notifications of other coordinators arrive again");
                    pause = Duration::ZERO;
                }
                Err(error) => {
                    if pause.is_zero() {
                        tracing::warn!(%error, "no notifications of other coordinators; retrying");
                    }
                    pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                }
            }
        }
    }

    fn turn(&mut self) -> Result<(), StoreError> {
        let upto = self.tail.wait()?;
        if self.tail.is_by_hand() {
            self.shared.look();
        }
        self.shared.entered(self.tail.epoch(), upto);
        if upto < self.after {
            // Something was lost, as after a failover: the writer finds out and says so.
            self.after = upto;
            self.shared.look();
        }
        self.shared.reached(upto);
        while self.after < upto {
            let wakeups = self.shared.wakeups();
            let is_awaited = wakeups.has_claims()
                || wakeups.has_inboxes()
                || wakeups.has_credentials()
                || wakeups.has_news();
            if !is_awaited {
                // Misses nobody: who waits registers before it looks, and whoever registers from now on looks at a
                // ledger that has all this.
                self.after = upto;
            } else if upto - self.after > BEHIND_MAX {
                wakeups.wake_all();
                self.after = upto;
            } else {
                let page = self.tail.foreign(self.after, BATCHES_PER_PAGE)?;
                self.tell(&page)?;
                // Nothing more to be had of what was told: it was pruned.
                self.after = if page.upto > self.after {
                    page.upto
                } else {
                    upto
                };
            }
        }
        Ok(())
    }

    fn tell(&mut self, page: &Foreign) -> Result<(), StoreError> {
        let mut news = News::default();
        page.events
            .iter()
            .for_each(|logged| news.add(&logged.event));
        let wakeups = self.shared.wakeups();
        wakeups.logged(&page.events);
        if wakeups.has_claims() {
            let ready: Vec<TaskId> = news.ready.into_iter().collect();
            for tasks in ready.chunks(IDS_PER_LOOK) {
                for lane in self.tail.lanes_of(tasks)? {
                    wakeups.task_is_ready(&lane);
                }
            }
            if news.agents_left || news.work_resumed {
                wakeups.wake_all_claims();
            }
            if news.agents_busied {
                wakeups.others_are_busy();
            }
        }
        if news.agents_steered {
            wakeups.all_agents_changed();
        } else {
            let named: Vec<AgentId> = news.agents.into_iter().collect();
            wakeups.agents_changed(&named);
        }
        if wakeups.has_inboxes() {
            for messages in news.messages.chunks(IDS_PER_LOOK) {
                for agent in self.tail.recipients_of(messages)? {
                    wakeups.message_waits(&agent);
                }
            }
        }
        Ok(())
    }
}

/// What others wrote that somebody may wait for.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    /// Tasks that entered a lane and were not seen to leave it.
    ready: BTreeSet<TaskId>,
    messages: Vec<MessageId>,
    /// An agent left or fell silent: others may now take what it would have.
    agents_left: bool,
    /// New work may be handed out again.
    work_resumed: bool,
    /// An agent may no longer be idle: it comes first with nothing any more.
    agents_busied: bool,
    /// What an agent holds, or was told, may have changed.
    agents_steered: bool,
    /// The same, where the agent is named: it may have a stream here and another door elsewhere.
    agents: BTreeSet<AgentId>,
}

impl News {
    /// A change counts as ready: it may move a waiting task to a lane that others may take from.
    fn add(&mut self, event: &Event) {
        match event {
            Event::TaskCreated { status, .. } if status != TaskStatus::Ready.as_str() => {}
            Event::TaskCreated { task, .. }
            | Event::TaskReady { task, .. }
            | Event::TaskChanged { task, .. } => {
                self.ready.insert(task.clone());
            }
            Event::TaskRequeued { task, .. } => {
                self.ready.insert(task.clone());
                self.agents_steered = true;
            }
            Event::CommandIssued { .. } | Event::TaskHandedOver { .. } => {
                (self.agents_steered, self.agents_busied) = (true, true);
            }
            Event::TaskNeedsPerson { .. }
            | Event::TaskRetryPlanned { .. }
            | Event::TaskFailed { .. }
            | Event::Newer { .. } => self.agents_steered = true, // It may be about anything.
            Event::TaskClaimed { task, agent, .. } => {
                self.ready.remove(task);
                self.agents.insert(agent.clone());
                self.agents_busied = true;
            }
            Event::AgentStatusChanged { .. } => self.agents_busied = true,
            Event::TaskCompleted { agent, .. } | Event::AgentKeyRotated { agent, .. } => {
                self.agents.insert(agent.clone());
            }
            Event::TaskCanceled { task, .. } => {
                self.ready.remove(task);
                self.agents_steered = true;
            }
            Event::DirectorSteered { .. } => self.work_resumed = true,
            Event::MessageSent { message, .. } | Event::MessageQueuedAgain { message, .. } => {
                self.messages.push(message.clone());
            }
            Event::AgentSilent { .. } | Event::AgentDeregistered { .. } => self.agents_left = true,
            // Nobody waits for these, or is told of them otherwise. What becomes due is asked for by every coordinator's caretaker.
            #[rustfmt::skip]
            Event::AgentRegistered { .. } | Event::AgentReturned { .. } | Event::AgentForgotten { .. }
            | Event::CommandObeyed { .. } | Event::TaskBlocked { .. } | Event::TaskProgressed { .. }
            | Event::TaskForgotten { .. } | Event::DependencyFailed { .. } | Event::MessageDelivered { .. }
            | Event::MessageAcknowledged { .. } | Event::MessageExpired { .. } | Event::MessageRefused { .. }
            | Event::MessageFailed { .. } | Event::LeaseAcquired { .. } | Event::LeaseExtended { .. }
            | Event::LeaseReleased { .. } | Event::LeaseExpired { .. } | Event::BaselineSet { .. }
            | Event::LearningStored { .. } | Event::ErrorReported { .. } | Event::ReleasePublished { .. }
            | Event::MemoryNoted { .. } | Event::EngramKept { .. } | Event::EngramEvicted { .. }
            | Event::BudgetGranted { .. } | Event::BudgetCooled { .. } | Event::TokenCreated { .. }
            | Event::TokenRevoked { .. } | Event::ClaimJudged { .. } | Event::FailureRecurred { .. }
            | Event::AgentInvited { .. } | Event::SessionBegan { .. } | Event::SessionEnded { .. }
            | Event::NodeInvited { .. } | Event::NodeJoined { .. } | Event::NodeLeft { .. }
            | Event::IncidentOpened { .. } | Event::IncidentResolved { .. } | Event::OutageEnded { .. }
            | Event::CapabilityPublished { .. } | Event::CapabilityRejected { .. } | Event::CapabilityWithdrawn { .. }
            | Event::CapabilityMoved { .. } | Event::ReviewOpened { .. } | Event::ReviewResolved { .. }
            | Event::JobCreated { .. } | Event::JobChanged { .. } | Event::JobMoved { .. }
            | Event::JobRunBegan { .. } | Event::JobRunEnded { .. }
            | Event::JobWarned { .. } | Event::JobForgotten { .. }
            | Event::ClockSteppedBack { .. } | Event::EpochBegan { .. } | Event::ClockSteppedForward { .. }
            | Event::WriteUndone { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(task: &str, status: TaskStatus) -> Event {
        Event::TaskCreated {
            task: task.into(),
            number: 1,
            title: task.to_owned(),
            priority: switchboard_core::Priority::Medium,
            status: status.as_str().to_owned(),
        }
    }

    fn news(events: &[Event]) -> News {
        let mut news = News::default();
        events.iter().for_each(|event| news.add(event));
        news
    }

    #[test]
    fn tasks_that_may_be_taken_are_news_and_those_taken_since_are_not() {
        let ready = |task: &str| Event::TaskReady {
            task: task.into(),
            number: 1,
            why: String::new(),
        };
        let claimed = |task: &str| Event::TaskClaimed {
            task: task.into(),
            number: 1,
            agent: "a".into(),
            epoch: 1,
        };
        let requeued = Event::TaskRequeued {
            task: "t2".into(),
            number: 1,
            agent: "a".into(),
            why: String::new(),
        };
        let changed = Event::TaskChanged {
            task: "t5".into(),
            number: 1,
            fields: Vec::new(),
        };
        let heard = news(&[
            created("t1", TaskStatus::Ready),
            created("t2", TaskStatus::Ready),
            created("t3", TaskStatus::Waiting),
            claimed("t1"),
            claimed("t2"),
            requeued,
            ready("t4"),
            changed,
        ]);
        let found: Vec<&str> = heard.ready.iter().map(TaskId::as_str).collect();
        assert_eq!(found, ["t2", "t4", "t5"]);
        let named: Vec<&str> = heard.agents.iter().map(AgentId::as_str).collect();
        assert_eq!(named, ["a"], "it may have a stream here");
        assert!(heard.agents_busied, "whoever took one is not idle");
        assert!(!heard.agents_left && heard.messages.is_empty());
    }

    #[test]
    fn messages_and_agents_that_leave_are_news() {
        let sent = Event::MessageSent {
            message: "m1".into(),
            from: "a".into(),
            to: None,
            to_several: Vec::new(),
            kind: "note".to_owned(),
            recipients: 2,
        };
        assert_eq!(news(&[sent]).messages, ["m1".into()]);
        let agent = || "a".into();
        for (event, left) in [
            (Event::AgentSilent { agent: agent() }, true),
            (Event::AgentDeregistered { agent: agent() }, true),
            (Event::AgentReturned { agent: agent() }, false),
        ] {
            let heard = news(&[event]);
            assert_eq!((heard.agents_left, heard.agents_busied), (left, false));
        }
    }
}
