//! What a task owes to another node, which gave it to this one.
//!
//! The task is an ordinary one: whoever may claim it does it, in any dialect. Each step of it that its requester is to
//! know becomes an event for that node, in the commit of the step.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::SkillRef;
use crate::id::{AgentId, CorrId, EventId, HUB, NodeId, TaskId};
use crate::limits;
use crate::node::{Gateway, Timings};
use crate::order::Order;
use crate::outbox::{Answer, AnswerKind, Dispatch, FailureClass, News, Standing};
use crate::record::Private;
use crate::skill_review::Mishap;
use crate::task::{Task, TaskState, TaskStatus};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// This node, and the one that gave the task.
    pub here: NodeId,
    pub origin: NodeId,
    /// The event that gave it.
    pub event: EventId,
    pub corr_id: CorrId,
    pub requester: AgentId,
    /// The requester hears of it. At another node that one sees to it.
    #[serde(default)]
    pub response_required: bool,
    /// How long it takes, unless its estimate says so.
    pub eta_seconds: Option<u32>,
    pub deadline_at: Option<Timestamp>,
    pub capability: Option<String>,
    /// What its result is checked against, as JSON.
    #[serde(default)]
    pub schema: Option<Box<str>>,
    /// It is one agent's part of a task for several: the node that gave that one hears of the whole alone.
    #[serde(default)]
    pub part: Option<Part>,
    /// Its last result was none that was asked for.
    #[serde(default)]
    pub is_broken: bool,
    /// When whoever holds it said that it will be done.
    #[serde(default)]
    pub promise: Option<Promise>,
    #[serde(default)]
    pub timings: Timings,
}

/// What an agent is to install, and of which task that is a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub of: TaskId,
    pub skill: SkillRef,
}

/// What a requester of this node has yet to be told of its task: in its own dialect, as if another node had done it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub requester: AgentId,
    pub event: Dispatch,
}

impl Private for Notice {
    fn key(&self) -> Cow<'static, str> {
        self.event.id.to_string().into()
    }

    fn due_at(&self) -> Option<Timestamp> {
        Some(self.event.created_at)
    }
}

/// An ETA that an agent gave, or revised. It holds for its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    pub epoch: u64,
    pub eta_at: Timestamp,
}

/// When a task that another node gave must be done, whether somebody holds it or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub task: TaskId,
    pub at: Timestamp,
}

impl Private for Deadline {
    fn key(&self) -> Cow<'static, str> {
        self.task.to_string().into()
    }

    fn due_at(&self) -> Option<Timestamp> {
        Some(self.at)
    }
}

impl Contract {
    /// It owes nothing but to tell how it goes.
    pub(crate) fn new(
        here: &Gateway,
        origin: &NodeId,
        event: &EventId,
        corr_id: &CorrId,
        requester: &AgentId,
    ) -> Contract {
        Contract {
            here: here.node_id.clone(),
            origin: origin.clone(),
            event: event.clone(),
            corr_id: corr_id.clone(),
            requester: requester.clone(),
            eta_seconds: None,
            deadline_at: None,
            capability: None,
            schema: None,
            part: None,
            is_broken: false,
            response_required: false,
            promise: None,
            timings: here.timings,
        }
    }

    /// What is to be reviewed, if it is told that it failed.
    pub(crate) fn mishap(
        &self,
        (told, _): &(Vec<Dispatch>, Option<Order>),
        published: Option<&Dispatch>,
        now: Timestamp,
    ) -> Option<Mishap> {
        let told = published.into_iter().chain(told);
        let mut news = told.map(|dispatch| &dispatch.news);
        let class = news.find_map(|news| match news {
            News::TaskFailed { class, .. } => Some(*class),
            _ => None,
        });
        Mishap::of(self.capability.as_deref(), class?, &self.corr_id, now)
    }

    /// The same as events, in order, without the first one where whoever took the step published it. Whoever gave the
    /// task is to say that it knows how it ended.
    pub(crate) fn tell(
        &self,
        before: Option<&Task>,
        task: &Task,
        is_published: bool,
        now: Timestamp,
    ) -> (Vec<Dispatch>, Option<Order>) {
        let mut order = None;
        let told = self.told(before, task, now).into_iter();
        let told = told.skip(usize::from(is_published));
        let told = told.map(|news| {
            let salt = format!("{}|{}", task.id, task.rev);
            let mut dispatch = Dispatch::own(&self.here, &salt, self.corr_id.clone(), news, now);
            dispatch.to_node = Some(self.origin.clone());
            if dispatch.news.is_answered() && self.origin != self.here {
                order = Some(Order::to_one(
                    &dispatch,
                    self.origin.clone(),
                    &self.requester,
                    self.timings,
                ));
            }
            dispatch
        });
        (told.collect(), order)
    }

    /// What a requester of this node is to hear of an event.
    pub(crate) fn notice(&self, event: &Dispatch) -> Option<Notice> {
        let is_meant = self.response_required && self.origin == self.here;
        is_meant.then_some(())?;
        event.news.tells_requester()?;
        Some(Notice {
            requester: self.requester.clone(),
            event: event.clone(),
        })
    }

    /// What the requester's node is to hear of a step, in order.
    pub fn told(&self, before: Option<&Task>, task: &Task, now: Timestamp) -> Vec<News> {
        if self.part.is_some() {
            return Vec::new();
        }
        let was = before.map(Task::status);
        let is_new_claim = before.is_none_or(|before| before.epoch != task.epoch);
        match &task.state {
            TaskState::Claimed { by, .. } | TaskState::InProgress { by, .. } if is_new_claim => {
                vec![self.accepted(task, by, now)]
            }
            TaskState::Claimed { .. } | TaskState::InProgress { .. } => progress(before, task),
            TaskState::Ready | TaskState::Waiting => match was {
                Some(TaskStatus::Claimed | TaskStatus::InProgress | TaskStatus::NeedsPerson) => {
                    vec![update(
                        task,
                        Standing::Pending,
                        task.last_failure
                            .as_ref()
                            .map(|failure| failure.message.clone()),
                        None,
                    )]
                }
                _ => Vec::new(),
            },
            TaskState::RetryWait { until } if was != Some(TaskStatus::RetryWait) => {
                let note = task
                    .last_failure
                    .as_ref()
                    .map(|failure| failure.message.clone());
                vec![update(
                    task,
                    Standing::Pending,
                    note,
                    Some(self.eta_at(task, *until)),
                )]
            }
            TaskState::NeedsPerson { .. } if was != Some(TaskStatus::NeedsPerson) => {
                let note = task
                    .last_failure
                    .as_ref()
                    .map(|failure| failure.message.clone());
                vec![update(task, Standing::Blocked, note, None)]
            }
            TaskState::RetryWait { .. } | TaskState::NeedsPerson { .. } => Vec::new(),
            TaskState::Completed { by, at } if was != Some(TaskStatus::Completed) => {
                let complete = News::TaskComplete {
                    task: task.id.clone(),
                    by: by.clone(),
                    result: task.result.clone(),
                    at: *at,
                };
                vec![complete, self.processed(by, now)]
            }
            TaskState::Failed { at } if was != Some(TaskStatus::Failed) => {
                let failure = task.last_failure.as_ref();
                let class = failure.map_or(FailureClass::Unknown, |failure| failure.kind.into());
                let error = failure
                    .map(|failure| failure.message.clone())
                    .unwrap_or_default();
                self.failed(before, task, class, error, *at)
            }
            TaskState::Canceled { at } if was != Some(TaskStatus::Canceled) => {
                let error = "the task was canceled".to_owned();
                self.failed(before, task, FailureClass::PolicyBlocked, error, *at)
            }
            TaskState::Completed { .. } | TaskState::Failed { .. } | TaskState::Canceled { .. } => {
                Vec::new()
            }
        }
    }

    fn accepted(&self, task: &Task, by: &AgentId, now: Timestamp) -> News {
        News::TaskAccept {
            task: task.id.clone(),
            by: by.clone(),
            eta_at: self.eta_at(task, now),
            plan: None,
        }
    }

    /// Whether a result counts only once it was compared with what was asked for.
    pub fn is_judged(&self) -> bool {
        self.schema.is_some() || self.part.is_some()
    }

    /// When it should be done, if it begins then.
    pub fn eta_at(&self, task: &Task, begins_at: Timestamp) -> Timestamp {
        let estimate = task
            .about
            .estimated_minutes
            .map(|minutes| minutes.saturating_mul(60));
        let seconds = estimate.or(self.eta_seconds).map(u64::from);
        let span = seconds.map_or(limits::OUTCOME_WITHIN, Duration::from_secs);
        begins_at + span
    }

    fn failed(
        &self,
        before: Option<&Task>,
        task: &Task,
        class: FailureClass,
        error: String,
        at: Timestamp,
    ) -> Vec<News> {
        let by = before
            .and_then(Task::holder)
            .or(task.previous_agents.last());
        let by = by.cloned().unwrap_or_else(|| HUB.into());
        let failed = News::TaskFailed {
            task: task.id.clone(),
            by: by.clone(),
            class,
            error,
            at,
        };
        vec![failed, self.processed(&by, at)]
    }

    /// The last answer to the event that gave it.
    fn processed(&self, by: &AgentId, now: Timestamp) -> News {
        News::Ack(Answer {
            to: self.event.clone(),
            kind: "task_create".to_owned(),
            answer: AnswerKind::Processed,
            by: vec![by.clone()],
            at: now,
            eta_at: None,
            reason: None,
            accepts: None,
        })
    }
}

fn progress(before: Option<&Task>, task: &Task) -> Vec<News> {
    let told = |task: &Task| task.progress.as_ref().map(|progress| progress.told_at);
    let is_told = told(task).is_some() && before.and_then(told) != told(task);
    let began = before.is_some_and(|before| before.status() == TaskStatus::Claimed)
        && task.status() == TaskStatus::InProgress;
    if !is_told && !began {
        return Vec::new();
    }
    let note = task.progress.as_ref().map(|progress| progress.note.clone());
    vec![update(task, Standing::InProgress, note, None)]
}

fn update(
    task: &Task,
    status: Standing,
    note: Option<String>,
    revised_eta_at: Option<Timestamp>,
) -> News {
    News::TaskUpdate {
        task: task.id.clone(),
        status,
        percent: task.progress.as_ref().map(|progress| progress.percent),
        note,
        revised_eta_at,
    }
}
