//! Tasks: one row each, a state that carries its data, transitions that return the row with its event.

use std::time::Duration;

use crate::contract::Contract;
use crate::description::Description;
use crate::event::Event;
use crate::id::{AgentId, CorrId, SnapshotId, TaskId};
use crate::lane::LaneId;
use crate::limits;
use crate::time::Timestamp;

mod named;

pub use named::{
    FailureKind, OnDependencyFailure, Phase, Priority, TaskKind, TaskStatus, WhenSpent,
};

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: TaskId,
    /// 1, 2, 3… in commit order; the age that decides within a priority.
    pub number: u64,
    pub about: Description,
    pub state: TaskState,
    pub dependencies: Vec<TaskId>,
    /// Dependencies that are not completed yet.
    pub blockers: Vec<TaskId>,
    pub on_dependency_failure: OnDependencyFailure,
    pub corr_id: CorrId,
    pub retries: u32,
    pub previous_agents: Vec<AgentId>,
    pub last_failure: Option<Failure>,
    /// How often it has been claimed; the claim of an older epoch no longer counts.
    pub epoch: u64,
    /// Its holder was started anew and goes on with it: a report that names no epoch may be the old process's.
    pub epoch_needed: bool,
    pub started_at: Option<Timestamp>,
    pub worked_ms: Option<u64>,
    pub progress: Option<Progress>,
    /// What COMPLETE brought, as JSON.
    pub result: Option<Box<str>>,
    pub snapshot: Option<SnapshotId>,
    /// Tasks that name this one as a dependency.
    pub dependants: u32,
    pub lane: Option<LaneId>,
    /// Set while it is held over the bus.
    pub watch: Option<Watch>,
    /// What it owes to the node that gave it.
    pub contract: Option<Box<Contract>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub rev: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Waits for its dependencies and for nothing else.
    Waiting,
    Ready,
    Claimed {
        by: AgentId,
        at: Timestamp,
    },
    InProgress {
        by: AgentId,
        at: Timestamp,
    },
    RetryWait {
        until: Timestamp,
    },
    NeedsPerson {
        by: AgentId,
        at: Timestamp,
    },
    Completed {
        by: AgentId,
        at: Timestamp,
    },
    Failed {
        at: Timestamp,
    },
    Canceled {
        at: Timestamp,
    },
}

/// How long a claim may last, and how long without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    pub deadline_at: Timestamp,
    pub stale_after: Duration,
    /// When it is next worth a look; progress moves the real instant on, not this one.
    pub look_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub phase: Phase,
    pub percent: u8,
    pub note: String,
    pub files: Vec<String>,
    /// When an event last told the world.
    pub told_at: Timestamp,
    pub told_percent: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

/// A failure with what a person needs to know about it. What nobody said is told from the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub failure: Failure,
    pub error_type: Option<String>,
    pub stage: Option<String>,
    pub remedy: Option<String>,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble {
            failure,
            error_type: None,
            stage: None,
            remedy: None,
        }
    }
}

impl TaskState {
    pub fn status(&self) -> TaskStatus {
        match self {
            TaskState::Waiting => TaskStatus::Waiting,
            TaskState::Ready => TaskStatus::Ready,
            TaskState::Claimed { .. } => TaskStatus::Claimed,
            TaskState::InProgress { .. } => TaskStatus::InProgress,
            TaskState::RetryWait { .. } => TaskStatus::RetryWait,
            TaskState::NeedsPerson { .. } => TaskStatus::NeedsPerson,
            TaskState::Completed { .. } => TaskStatus::Completed,
            TaskState::Failed { .. } => TaskStatus::Failed,
            TaskState::Canceled { .. } => TaskStatus::Canceled,
        }
    }
}

impl Task {
    /// One that nobody has taken, and that waits for nothing.
    pub fn new(
        id: TaskId,
        number: u64,
        about: Description,
        corr_id: CorrId,
        now: Timestamp,
    ) -> Task {
        Task {
            corr_id,
            id,
            number,
            about,
            state: TaskState::Ready,
            dependencies: Vec::new(),
            blockers: Vec::new(),
            on_dependency_failure: OnDependencyFailure::Block,
            retries: 0,
            epoch_needed: false,
            previous_agents: Vec::new(),
            last_failure: None,
            epoch: 0,
            started_at: None,
            worked_ms: None,
            progress: None,
            result: None,
            snapshot: None,
            dependants: 0,
            lane: None,
            watch: None,
            contract: None,
            created_at: now,
            updated_at: now,
            rev: 0,
        }
    }

    pub fn status(&self) -> TaskStatus {
        self.state.status()
    }

    pub fn holder(&self) -> Option<&AgentId> {
        match &self.state {
            TaskState::Claimed { by, .. } | TaskState::InProgress { by, .. } => Some(by),
            TaskState::Waiting
            | TaskState::Ready
            | TaskState::RetryWait { .. }
            | TaskState::NeedsPerson { .. }
            | TaskState::Completed { .. }
            | TaskState::Failed { .. }
            | TaskState::Canceled { .. } => None,
        }
    }

    pub fn claimed_at(&self) -> Option<Timestamp> {
        match &self.state {
            TaskState::Claimed { at, .. } | TaskState::InProgress { at, .. } => Some(*at),
            TaskState::Waiting
            | TaskState::Ready
            | TaskState::RetryWait { .. }
            | TaskState::NeedsPerson { .. }
            | TaskState::Completed { .. }
            | TaskState::Failed { .. }
            | TaskState::Canceled { .. } => None,
        }
    }

    /// About how much text it carries.
    pub fn bytes(&self) -> usize {
        let description = self.about.description.as_ref().map_or(0, String::len);
        let result = self.result.as_ref().map_or(0, |result| result.len());
        let files: usize = self.about.files.iter().map(String::len).sum();
        let contract = self.contract.as_ref();
        let schema = contract.and_then(|contract| contract.schema.as_ref());
        let schema = schema.map_or(0, |schema| schema.len());
        self.about.title.len() + description + result + files + schema
    }

    /// The group of columns that say what it is about.
    pub const DESCRIBED: u8 = 1;
    /// The one of [`Task::is_queued_as`].
    pub const QUEUED: u8 = 2;

    /// Whether it would wait in the same place: what a claim, progress and a completion do not touch.
    pub fn is_queued_as(&self, other: &Task) -> bool {
        let waits_until = |task: &Task| match task.state {
            TaskState::RetryWait { until } => Some(until),
            _ => None,
        };
        self.lane == other.lane
            && self.retries == other.retries
            && self.dependants == other.dependants
            && self.blockers == other.blockers
            && self.previous_agents == other.previous_agents
            && self.last_failure == other.last_failure
            && self.watch == other.watch
            && self.epoch_needed == other.epoch_needed
            && waits_until(self) == waits_until(other)
    }

    /// Ready or waiting, by what it depends on.
    pub fn open_state(&self) -> TaskState {
        if self.blockers.is_empty() {
            TaskState::Ready
        } else {
            TaskState::Waiting
        }
    }

    pub fn claim(mut self, by: &AgentId, now: Timestamp) -> (Task, Event) {
        self.epoch += 1;
        self.epoch_needed = false;
        self.state = TaskState::Claimed {
            by: by.clone(),
            at: now,
        };
        self.progress = None;
        self.watch = None;
        self.updated_at = now;
        let event = Event::TaskClaimed {
            task: self.id.clone(),
            number: self.number,
            agent: by.clone(),
            epoch: self.epoch,
        };
        (self, event)
    }

    /// The claim passes to another agent under a new epoch; what was done stays.
    pub fn hand_over(mut self, to: &AgentId, now: Timestamp) -> (Task, Event) {
        let from = self.holder().cloned();
        self.epoch += 1;
        self.epoch_needed = false;
        self.state = match self.state {
            TaskState::InProgress { .. } => TaskState::InProgress {
                by: to.clone(),
                at: now,
            },
            _ => TaskState::Claimed {
                by: to.clone(),
                at: now,
            },
        };
        self.watch = None;
        self.updated_at = now;
        let event = Event::TaskHandedOver {
            task: self.id.clone(),
            number: self.number,
            from,
            agent: to.clone(),
            epoch: self.epoch,
        };
        (self, event)
    }

    /// A new process of its holder goes on with it; what the old one still says no longer counts.
    pub fn resume(mut self, by: &AgentId, now: Timestamp) -> (Task, Event) {
        self.epoch += 1;
        self.epoch_needed = true;
        self.updated_at = now;
        let event = Event::TaskHandedOver {
            task: self.id.clone(),
            number: self.number,
            from: Some(by.clone()),
            agent: by.clone(),
            epoch: self.epoch,
        };
        (self, event)
    }

    /// Stores progress. The event is left out when the last one was recent and little has changed.
    pub fn advance(mut self, mut progress: Progress, now: Timestamp) -> (Task, Option<Event>) {
        let by = self.holder().cloned();
        let first = self.started_at.is_none();
        self.started_at.get_or_insert(now);
        if let TaskState::Claimed { by, at } = self.state {
            self.state = TaskState::InProgress { by, at };
        }
        let told = self.progress.as_ref();
        let quiet = !first
            && told.is_some_and(|last| {
                last.phase == progress.phase
                    && (now.since(last.told_at) < limits::PROGRESS_EVENT_EVERY
                        || last.told_percent.abs_diff(progress.percent)
                            < limits::PROGRESS_EVENT_POINTS)
            });
        (progress.told_at, progress.told_percent) = match (quiet, told) {
            (true, Some(last)) => (last.told_at, last.told_percent),
            (true, None) | (false, _) => (now, progress.percent),
        };
        let event = (!quiet).then(|| Event::TaskProgressed {
            task: self.id.clone(),
            number: self.number,
            agent: by,
            epoch: self.epoch,
            phase: progress.phase,
            percent: progress.percent,
            note: progress.note.clone(),
        });
        self.progress = Some(progress);
        self.updated_at = now;
        (self, event)
    }

    pub fn complete(mut self, by: &AgentId, result: Box<str>, now: Timestamp) -> (Task, Event) {
        self.worked_ms = self.worked_since_claim(now);
        self.started_at
            .get_or_insert(self.claimed_at().unwrap_or(now));
        self.state = TaskState::Completed {
            by: by.clone(),
            at: now,
        };
        self.result = Some(result);
        self.watch = None;
        self.updated_at = now;
        let event = Event::TaskCompleted {
            task: self.id.clone(),
            number: self.number,
            agent: by.clone(),
            epoch: self.epoch,
        };
        (self, event)
    }

    /// A completion that a person must look at first.
    pub fn ask_person(
        mut self,
        by: &AgentId,
        result: Box<str>,
        why: &str,
        now: Timestamp,
    ) -> (Task, Event) {
        self.worked_ms = self.worked_since_claim(now);
        self.started_at
            .get_or_insert(self.claimed_at().unwrap_or(now));
        self.state = TaskState::NeedsPerson {
            by: by.clone(),
            at: now,
        };
        self.result = Some(result);
        self.watch = None;
        self.updated_at = now;
        let event = Event::TaskNeedsPerson {
            task: self.id.clone(),
            number: self.number,
            agent: by.clone(),
            why: why.to_owned(),
            error_type: None,
            stage: None,
            attempts: None,
            remedy: None,
        };
        (self, event)
    }

    /// It failed and will not be tried again before a person has looked at it.
    pub fn escalate(mut self, by: &AgentId, trouble: &Trouble, now: Timestamp) -> (Task, Event) {
        let phase = self
            .progress
            .as_ref()
            .map(|progress| progress.phase.as_str());
        let stage = trouble.stage.as_deref().or(phase).unwrap_or("not begun");
        let error_type = trouble.error_type.as_deref();
        let error_type = error_type.unwrap_or(trouble.failure.kind.as_str());
        let remedy = trouble.remedy.as_deref();
        let remedy = remedy.unwrap_or(trouble.failure.kind.remedy());
        let failure = Failure {
            kind: trouble.failure.kind,
            message: format!(
                "{error_type} in stage {stage} after {} of {} attempts: {}; what to do: {remedy}",
                self.retries,
                self.about.max_retries + 1,
                trouble.failure.message
            ),
        };
        let event = Event::TaskNeedsPerson {
            task: self.id.clone(),
            number: self.number,
            agent: by.clone(),
            why: failure.message.clone(),
            error_type: Some(error_type.to_owned()),
            stage: Some(stage.to_owned()),
            attempts: Some(self.retries),
            remedy: Some(remedy.to_owned()),
        };
        self.last_failure = Some(failure);
        self.state = TaskState::NeedsPerson {
            by: by.clone(),
            at: now,
        };
        self.watch = None;
        self.updated_at = now;
        (self, event)
    }

    /// Watched from now on: it must be done by `cap`, and show progress every `stale_after`.
    pub fn watched(mut self, cap: Duration, stale_after: Duration, now: Timestamp) -> Task {
        self.watch = Some(Watch {
            deadline_at: now + cap,
            stale_after,
            look_at: now + cap.min(stale_after),
        });
        self
    }

    /// Whether a person is asked once the retries are used up: by the wish of whoever made it, and on the bus.
    pub fn asks_person_when_spent(&self) -> bool {
        self.about.when_spent == WhenSpent::AskPerson || self.watch.is_some()
    }

    /// A person accepts what waited for them.
    pub fn approve(mut self, by: AgentId, now: Timestamp) -> (Task, Event) {
        self.state = TaskState::Completed {
            by: by.clone(),
            at: now,
        };
        self.updated_at = now;
        let event = Event::TaskCompleted {
            task: self.id.clone(),
            number: self.number,
            agent: by,
            epoch: self.epoch,
        };
        (self, event)
    }

    pub fn fail(mut self, failure: Failure, now: Timestamp) -> (Task, Event) {
        let event = Event::TaskFailed {
            task: self.id.clone(),
            number: self.number,
            kind: failure.kind,
            message: failure.message.clone(),
        };
        self.last_failure = Some(failure);
        self.state = TaskState::Failed { at: now };
        self.watch = None;
        self.updated_at = now;
        (self, event)
    }

    /// Waits before it is tried again, by another agent if there is one.
    pub fn retry_later(
        mut self,
        failure: Failure,
        until: Timestamp,
        now: Timestamp,
    ) -> (Task, Event) {
        let event = Event::TaskRetryPlanned {
            task: self.id.clone(),
            number: self.number,
            kind: failure.kind,
            message: failure.message.clone(),
            retries: self.retries,
            until,
        };
        self.last_failure = Some(failure);
        self.state = TaskState::RetryWait { until };
        self.watch = None;
        self.updated_at = now;
        (self, event)
    }

    /// Back into the queue (or to waiting, if a dependency is open again).
    pub fn reopen(mut self, why: &str, now: Timestamp) -> (Task, Event) {
        self.state = self.open_state();
        self.watch = None;
        self.updated_at = now;
        let event = match self.state {
            TaskState::Ready => Event::TaskReady {
                task: self.id.clone(),
                number: self.number,
                why: why.to_owned(),
            },
            _ => Event::TaskBlocked {
                task: self.id.clone(),
                number: self.number,
            },
        };
        (self, event)
    }

    pub fn cancel(mut self, why: &str, now: Timestamp) -> (Task, Event) {
        self.state = TaskState::Canceled { at: now };
        self.watch = None;
        self.updated_at = now;
        let event = Event::TaskCanceled {
            task: self.id.clone(),
            number: self.number,
            why: why.to_owned(),
        };
        (self, event)
    }

    /// While it waits: until when whoever failed it lets others go first.
    pub fn others_first_until(&self) -> Timestamp {
        self.updated_at + limits::OTHERS_FIRST_FOR
    }

    /// The wait after the failure that was just counted: 60, 120, 240, 300 s.
    pub fn backoff(&self) -> Duration {
        let factor = 2_u32.checked_pow(self.retries).unwrap_or(u32::MAX);
        limits::RETRY_BASE
            .saturating_mul(factor)
            .min(limits::RETRY_MAX)
    }

    pub fn remember_previous(&mut self, agent: &AgentId) {
        if !self.previous_agents.contains(agent) {
            self.previous_agents.push(agent.clone());
            self.previous_agents.sort();
        }
    }

    fn worked_since_claim(&self, now: Timestamp) -> Option<u64> {
        let span = now.since(self.claimed_at()?);
        u64::try_from(span.as_millis()).ok()
    }
}
