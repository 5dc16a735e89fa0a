//! Tasks that are delegated and ended by messages.

use std::sync::Arc;

use serde_json::json;
use switchboard_core::query::TaskRef;
use switchboard_core::verb::{Claim, Claimed, Complete, Fail, Filter, ReportError, Speaker};
use switchboard_core::{AgentId, FailureKind, MessageId, Task, TaskId, TaskStatus, limits};
use switchboard_wire::squidrun::frame::Receipt;
use switchboard_wire::squidrun::{End, Saying, header, tags, trigger};

use super::desk::Desk;
use super::state::Broker;
use crate::hub::Error;
use crate::runtime::judged;

/// How often an end is tried while the claim comes and goes.
const TRIES: usize = 4;

/// A task's end, as its holder tells it.
pub(super) struct Ending {
    how: End,
    number: u64,
    text: String,
}

impl Ending {
    pub fn of(saying: &Saying) -> Option<Ending> {
        let body = trigger::read(&saying.content).body;
        let body = header::parse(body).map_or(body, |header| header.body);
        let ends = tags::parse(body).0.ends?;
        Some(Ending {
            how: ends.how,
            number: ends.number,
            text: limits::cut(ends.text, limits::NOTE_BYTES_MAX).to_owned(),
        })
    }
}

impl Broker {
    /// A message that delegates a task is about to be handed to a role: that is the claim. Tells the task's number.
    pub(super) async fn claim(
        &self,
        desk: &Arc<Desk>,
        message: &MessageId,
        task: TaskId,
    ) -> Option<u64> {
        match self.hub.run(claim(&desk.role, task.clone())).await {
            Ok(Claimed::Task(claimed)) => {
                desk.claimed(message, task);
                Some(claimed.number)
            }
            // Another holder of the role was first, or it is over.
            Ok(Claimed::None(_)) | Err(_) => Some(self.task(TaskRef::Id(task)).await?.number),
        }
    }

    pub(super) async fn task(&self, which: TaskRef) -> Option<Task> {
        let read = self.hub.read(move |ledger| ledger.task(&which)).await;
        read.ok().flatten()
    }

    /// What its holder says of a task: that it is done, failed, or waits for a person. Of others it is only text.
    pub(super) async fn end_task(&self, by: &Speaker, ending: Ending) {
        let Speaker::Role(role) = by else { return };
        for _ in 0..TRIES {
            let Some(task) = self.task(TaskRef::Number(ending.number)).await else {
                return;
            };
            let is_for = task.about.audience.contains(role);
            let task_id = task.id.clone();
            let tried = match task.holder() {
                Some(holder) if holder == role => self.end(role, &task, &ending).await,
                // A connection that sends at once is taken for a passing one, and its claim is undone.
                None if task.status() == TaskStatus::Ready && is_for => {
                    let claimed = self.hub.run(claim(role, task.id)).await;
                    match claimed {
                        Ok(_) => continue,
                        Err(error) => Err(error),
                    }
                }
                Some(_) | None => return,
            };
            match tried {
                // Whoever ends it has read the message that made it.
                Ok(()) => return self.has_read(role, &task_id).await,
                Err(error) => {
                    tracing::debug!(%error, "{role} could not end task #{}", ending.number);
                }
            }
        }
    }

    async fn has_read(&self, role: &AgentId, task: &TaskId) {
        if let Some(message) = task.as_str().strip_prefix("sq:") {
            let desk = self.desks.lock().get(role).cloned();
            let trace_id = message.to_owned();
            self.received(role, desk.as_deref(), Receipt { trace_id })
                .await;
        }
    }

    async fn end(&self, role: &AgentId, task: &Task, ending: &Ending) -> Result<(), Error> {
        let (id, text) = (task.id.clone(), ending.text.clone());
        match ending.how {
            End::Done => self.complete(role, id, text).await,
            End::Failed => self.fail(role, id, text).await,
            End::Blocked => {
                let called = (task.number, task.retries + 1);
                let blocked = ReportError::blocked(role, &id, task.epoch, called, text);
                self.hub.run(blocked).await.map(drop)
            }
        }
    }

    async fn complete(&self, role: &AgentId, task: TaskId, summary: String) -> Result<(), Error> {
        let complete = Complete {
            agent: role.clone(),
            task,
            epoch: None,
            result: json!({ "summary": summary }).to_string().into(),
            learnings: Vec::new(),
            metrics: None,
            evidence: Vec::new(),
            policy: Arc::clone(&self.policy),
            finding: None,
        };
        let run = |complete| self.hub.run(complete);
        judged(&self.hub, complete, run).await.map(drop)
    }

    async fn fail(&self, role: &AgentId, task: TaskId, why: String) -> Result<(), Error> {
        let fail = Fail {
            agent: role.clone(),
            task,
            epoch: None,
            kind: FailureKind::TaskError,
            message: why,
            details: None,
            recoverable: false,
            suggested_action: None,
            is_free: false,
        };
        self.hub.run(fail).await.map(drop)
    }
}

/// Of this task and no other.
fn claim(role: &AgentId, task: TaskId) -> Claim {
    Claim {
        agent: role.clone(),
        filter: Filter::default(),
        task: Some(task),
    }
}
