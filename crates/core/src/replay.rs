//! What the log says of each task, to be compared with its row: both were written by the same commits.
//!
//! A log whose beginning was pruned says nothing of a task until the first event that fixes something about it.

use std::collections::{HashMap, HashSet};

use crate::event::{Event, Logged};
use crate::id::{AgentId, TaskId};
use crate::task::{Task, TaskStatus};

/// The tasks as the events heard so far leave them.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    tasks: HashMap<TaskId, Told>,
}

#[derive(Clone, Debug, Default)]
struct Told {
    /// The last event that said anything.
    seq: u64,
    /// Any of these; claimed and in progress are not always told apart.
    statuses: &'static [TaskStatus],
    holder: Option<AgentId>,
    epoch: Option<u64>,
    is_forgotten: bool,
}

/// Where a row and the log do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub task: TaskId,
    /// `status`, `holder`, `epoch`, or `row` where it should not be, or should.
    pub what: &'static str,
    pub row: String,
    pub log: String,
    /// The last event about the task.
    pub event: u64,
}

const HELD: &[TaskStatus] = &[TaskStatus::Claimed, TaskStatus::InProgress];

impl Replay {
    /// The next event.
    pub fn hear(&mut self, logged: &Logged) {
        let Some((task, statuses, holder, epoch)) = said(&logged.event) else {
            if let Event::TaskForgotten { task, .. } = &logged.event {
                let told = self.tasks.entry(task.clone()).or_default();
                told.is_forgotten = true;
                told.seq = logged.seq;
            }
            return;
        };
        let told = self.tasks.entry(task.clone()).or_default();
        *told = Told {
            seq: logged.seq,
            statuses,
            holder: holder.cloned(),
            epoch: epoch.or(told.epoch.filter(|_| !told.is_forgotten)),
            is_forgotten: false,
        };
    }

    /// Where a row says something else than the log.
    pub fn compare(&self, task: &Task) -> Vec<Contradiction> {
        let Some(told) = self.tasks.get(&task.id) else {
            return Vec::new();
        };
        let found = |what, row: String, log: String| Contradiction {
            task: task.id.clone(),
            what,
            row,
            log,
            event: told.seq,
        };
        if told.is_forgotten {
            return vec![found("row", "is there".to_owned(), "forgotten".to_owned())];
        }
        let mut all = Vec::new();
        if !told.statuses.contains(&task.status()) {
            let words: Vec<&str> = told.statuses.iter().map(|word| word.as_str()).collect();
            let row = task.status().as_str().to_owned();
            all.push(found("status", row, words.join(" or ")));
        } else if task.holder() != told.holder.as_ref() {
            let name = |agent: Option<&AgentId>| match agent {
                Some(agent) => agent.as_str().to_owned(),
                None => "nobody".to_owned(),
            };
            let log = name(told.holder.as_ref());
            all.push(found("holder", name(task.holder()), log));
        }
        if let Some(epoch) = told.epoch.filter(|epoch| *epoch != task.epoch) {
            all.push(found("epoch", task.epoch.to_string(), epoch.to_string()));
        }
        all
    }

    /// Tasks that the log knows and of which there is no row.
    pub fn missing(&self, rows: &HashSet<TaskId>) -> Vec<Contradiction> {
        let told = self.tasks.iter();
        let told = told.filter(|(id, told)| !told.is_forgotten && !rows.contains(*id));
        let mut missing: Vec<Contradiction> = told
            .map(|(id, told)| Contradiction {
                task: id.clone(),
                what: "row",
                row: "is missing".to_owned(),
                log: told
                    .statuses
                    .first()
                    .map_or("", |word| word.as_str())
                    .to_owned(),
                event: told.seq,
            })
            .collect();
        missing.sort_by_key(|found| found.event);
        missing
    }

    /// Whether anything was heard of a task after an event: then a row that was read before may be older.
    pub fn is_newer(&self, task: &TaskId, event: u64) -> bool {
        self.tasks.get(task).is_some_and(|told| told.seq > event)
    }

    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }
}

type Said<'a> = (
    &'a TaskId,
    &'static [TaskStatus],
    Option<&'a AgentId>,
    Option<u64>,
);

/// What an event fixes of a task: status, holder, and the epoch where it is named.
fn said(event: &Event) -> Option<Said<'_>> {
    let free = |task, status: &'static [TaskStatus]| Some((task, status, None, None));
    match event {
        Event::TaskCreated { task, status, .. } => {
            let status: &'static [TaskStatus] = match TaskStatus::parse(status)? {
                TaskStatus::Waiting => &[TaskStatus::Waiting],
                TaskStatus::Ready => &[TaskStatus::Ready],
                TaskStatus::Failed => &[TaskStatus::Failed],
                TaskStatus::Claimed
                | TaskStatus::InProgress
                | TaskStatus::RetryWait
                | TaskStatus::NeedsPerson
                | TaskStatus::Completed
                | TaskStatus::Canceled => return None,
            };
            Some((task, status, None, Some(0)))
        }
        Event::TaskReady { task, .. } => free(task, &[TaskStatus::Ready]),
        Event::TaskBlocked { task, .. } => free(task, &[TaskStatus::Waiting]),
        Event::TaskClaimed {
            task, agent, epoch, ..
        }
        | Event::TaskHandedOver {
            task, agent, epoch, ..
        } => Some((task, HELD, Some(agent), Some(*epoch))),
        Event::TaskProgressed {
            task, agent, epoch, ..
        } => {
            let agent = agent.as_ref()?;
            let status: &'static [TaskStatus] = &[TaskStatus::InProgress];
            Some((task, status, Some(agent), Some(*epoch)))
        }
        Event::TaskCompleted { task, epoch, .. } => {
            let status: &'static [TaskStatus] = &[TaskStatus::Completed];
            Some((task, status, None, Some(*epoch)))
        }
        Event::TaskNeedsPerson { task, .. } => free(task, &[TaskStatus::NeedsPerson]),
        Event::TaskRetryPlanned { task, .. } => free(task, &[TaskStatus::RetryWait]),
        Event::TaskFailed { task, .. } => free(task, &[TaskStatus::Failed]),
        Event::TaskCanceled { task, .. } => free(task, &[TaskStatus::Canceled]),
        // An event of its own says what became of a task after these.
        Event::TaskChanged { .. }
        | Event::TaskRequeued { .. }
        | Event::TaskForgotten { .. }
        | Event::DependencyFailed { .. }
        | Event::ErrorReported { .. } => None,
        Event::Newer { .. }
        | Event::AgentRegistered { .. }
        | Event::AgentStatusChanged { .. }
        | Event::AgentSilent { .. }
        | Event::AgentReturned { .. }
        | Event::AgentDeregistered { .. }
        | Event::AgentKeyRotated { .. }
        | Event::AgentForgotten { .. }
        | Event::CommandIssued { .. }
        | Event::CommandObeyed { .. }
        | Event::MessageSent { .. }
        | Event::MessageDelivered { .. }
        | Event::MessageAcknowledged { .. }
        | Event::MessageExpired { .. }
        | Event::MessageRefused { .. }
        | Event::MessageFailed { .. }
        | Event::MessageQueuedAgain { .. }
        | Event::ClaimJudged { .. }
        | Event::FailureRecurred { .. }
        | Event::LeaseAcquired { .. }
        | Event::LeaseExtended { .. }
        | Event::LeaseReleased { .. }
        | Event::LeaseExpired { .. }
        | Event::BaselineSet { .. }
        | Event::LearningStored { .. }
        | Event::DirectorSteered { .. }
        | Event::ReleasePublished { .. }
        | Event::MemoryNoted { .. }
        | Event::EngramKept { .. }
        | Event::EngramEvicted { .. }
        | Event::BudgetGranted { .. }
        | Event::BudgetCooled { .. }
        | Event::TokenCreated { .. }
        | Event::TokenRevoked { .. }
        | Event::AgentInvited { .. }
        | Event::SessionBegan { .. }
        | Event::SessionEnded { .. }
        | Event::NodeInvited { .. }
        | Event::NodeJoined { .. }
        | Event::NodeLeft { .. }
        | Event::CapabilityPublished { .. }
        | Event::CapabilityRejected { .. }
        | Event::CapabilityWithdrawn { .. }
        | Event::CapabilityMoved { .. }
        | Event::ReviewOpened { .. }
        | Event::ReviewResolved { .. }
        | Event::IncidentOpened { .. }
        | Event::IncidentResolved { .. }
        | Event::OutageEnded { .. }
        | Event::JobCreated { .. }
        | Event::JobChanged { .. }
        | Event::JobMoved { .. }
        | Event::JobRunBegan { .. }
        | Event::JobRunEnded { .. }
        | Event::JobWarned { .. }
        | Event::JobForgotten { .. }
        | Event::EpochBegan { .. }
        | Event::ClockSteppedBack { .. }
        | Event::ClockSteppedForward { .. }
        | Event::WriteUndone { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Priority;
    use crate::time::Timestamp;
    use crate::verb::NewTask;

    fn log(events: Vec<Event>) -> Replay {
        let mut replay = Replay::default();
        for (seq, event) in (1..).zip(events) {
            let at = Timestamp::ZERO;
            replay.hear(&Logged { seq, at, event });
        }
        replay
    }

    fn created() -> Event {
        Event::TaskCreated {
            task: "t".into(),
            number: 1,
            title: "a title".to_owned(),
            priority: Priority::Medium,
            status: "ready".to_owned(),
        }
    }

    fn task() -> Task {
        NewTask::plain("t", "a title").task(1, Timestamp::ZERO)
    }

    fn whats(replay: &Replay, task: &Task) -> Vec<&'static str> {
        replay
            .compare(task)
            .iter()
            .map(|found| found.what)
            .collect()
    }

    #[test]
    fn a_row_is_what_its_own_events_say() {
        let now = Timestamp::ZERO;
        let (claimed, claim) = task().claim(&"ann".into(), now);
        let (done, complete) = claimed.clone().complete(&"ann".into(), "{}".into(), now);
        assert_eq!(whats(&log(vec![created()]), &task()), [""; 0]);
        assert_eq!(
            whats(&log(vec![created(), claim.clone()]), &claimed),
            [""; 0]
        );
        assert_eq!(
            whats(&log(vec![created(), claim, complete]), &done),
            [""; 0]
        );
    }

    #[test]
    fn status_holder_and_epoch_are_told_apart() {
        let now = Timestamp::ZERO;
        let (claimed, claim) = task().claim(&"ann".into(), now);
        let replay = log(vec![created(), claim]);
        assert_eq!(whats(&replay, &task()), ["status", "epoch"]);
        let (other, _) = task().claim(&"bob".into(), now);
        assert_eq!(whats(&replay, &other), ["holder"]);
        let late = Task {
            epoch: 7,
            ..claimed
        };
        assert_eq!(whats(&replay, &late), ["epoch"]);
    }

    #[test]
    fn what_was_pruned_says_nothing_and_what_was_forgotten_must_be_gone() {
        let (claimed, claim) = task().claim(&"ann".into(), Timestamp::ZERO);
        // The epoch of a task that only became ready again is not known.
        let ready = Event::TaskReady {
            task: "t".into(),
            number: 1,
            why: "released".to_owned(),
        };
        let open = Task {
            state: crate::task::TaskState::Ready,
            ..claimed
        };
        assert_eq!(whats(&log(vec![ready]), &open), [""; 0]);
        let none = HashSet::new();
        assert_eq!(log(vec![claim.clone()]).missing(&none).len(), 1);
        let forgotten = Event::TaskForgotten {
            task: "t".into(),
            number: 1,
        };
        let replay = log(vec![claim, forgotten]);
        assert_eq!(replay.missing(&none), []);
        assert_eq!(whats(&replay, &open), ["row"]);
        assert!(replay.is_newer(&"t".into(), 1) && !replay.is_newer(&"t".into(), 2));
    }
}
