//! From rows and replies to frames: what a worker is told, without what looks like a secret.

use switchboard_core::query::HeldTask;
use switchboard_core::{Agent, AgentId, MessageId, Received, Task, Timestamp};

use super::message::{
    AgentMessage, AgentMessageAck, MailState, OperatorCommand, StepProgress, TaskAssigned,
    TaskResultAck, TaskRevoked, WorkerEntry, WorkerState,
};
use super::text::Text;
use super::utc::UtcTime;
use super::words::{OperatorOrder, Stage};
use crate::Json;
use crate::jetpack::Priority;
use crate::redact;

/// A task that is a worker's own; `resumed` if it accepted it on an earlier connection.
pub fn assigned(task: &Task, resumed: bool) -> TaskAssigned {
    // Other doors take what they are given.
    let said = |text: &str| redact::said(text).into_owned();
    let about = &task.about;
    let title = said(&about.title);
    let description = said(about.description.as_deref().unwrap_or_default());
    let files: Vec<String> = about.files.iter().map(|file| said(file)).collect();
    let branch = about.branch.as_deref().map(said);
    let texts = files.iter().chain(&branch).chain([&title, &description]);
    TaskAssigned {
        issue_number: task.number,
        task_id: task.id.to_string(),
        epoch: task.epoch,
        attempt: task.retries + 1,
        redacted: texts.map(|text| redact::count(text)).sum(),
        title,
        description,
        files,
        branch,
        deadline: task.watch.map(|watch| UtcTime(watch.deadline_at.0)),
        corr_id: Some(task.corr_id.to_string()),
        resumed,
        part: 0,
        parts: 1,
    }
}

/// A task that is no longer a worker's own.
pub fn revoked(
    (issue_number, epoch): (u64, u64),
    mut reason: String,
    corr_id: Option<String>,
) -> TaskRevoked {
    redact::clean(&mut reason);
    TaskRevoked {
        issue_number,
        epoch,
        reason,
        corr_id: corr_id.filter(|id| !id.is_empty()),
    }
}

/// Whether a result counts, and what there is to say about it.
pub fn result_ack(
    (issue_number, epoch): (u64, u64),
    corr_id: Option<String>,
    counts: Result<String, String>,
) -> TaskResultAck {
    let accepted = counts.is_ok();
    let (Ok(reason) | Err(reason)) = counts;
    TaskResultAck {
        issue_number,
        epoch,
        accepted,
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        corr_id,
    }
}

/// The order to stop.
pub fn stop(agent: &AgentId, reason: &str) -> OperatorCommand {
    let reason = redact::text(reason).into_owned();
    OperatorCommand {
        target: Some(agent.to_string()),
        ..OperatorCommand::plain(OperatorOrder::ShutdownWorker, reason)
    }
}

/// A message for a worker.
pub fn mail(received: Received) -> AgentMessage {
    let message = received.message;
    let body = Json::stored(&redact::said_json(&message.payload));
    AgentMessage {
        message_id: message.id.to_string(),
        from: message.from.to_string(),
        to: None,
        kind: message.kind,
        redacted: redact::count(body.get()),
        body,
        ack_required: message.ack_required,
        priority: Some(received.priority.into()).filter(|it| *it != Priority::Medium),
        redelivered: received.redelivered,
        corr_id: Some(message.corr_id.to_string()),
        part: 0,
        parts: 1,
    }
}

/// What became of a worker's own message, or of its acknowledgement.
pub fn mail_ack(
    message_id: String,
    corr_id: Option<String>,
    outcome: Result<MailState, String>,
) -> AgentMessageAck {
    AgentMessageAck {
        message_id,
        state: Some(*outcome.as_ref().unwrap_or(&MailState::Failed)),
        reason: outcome.err(),
        by: None,
        corr_id,
    }
}

/// Its recipient, or one of them, acknowledged a worker's own message.
pub fn mail_acknowledged(message: &MessageId, by: &AgentId) -> AgentMessageAck {
    AgentMessageAck {
        by: Some(by.to_string()),
        ..mail_ack(message.to_string(), None, Ok(MailState::Acknowledged))
    }
}

/// What was heard of a worker on the bus.
#[derive(Default)]
pub struct Heard {
    pub connected: bool,
    /// By the director's clock.
    pub at: Option<Timestamp>,
    pub state: Option<WorkerState<'static>>,
    /// The number it named was none that it held.
    pub foreign: bool,
}

/// A worker in a snapshot: what it last said, as it said it; of an agent that says nothing on the bus, what the ledger
/// knows. `holds` are its tasks, the oldest claim first.
pub fn worker_entry(
    agent: &Agent,
    heard: Heard,
    holds: &[HeldTask],
    now: Timestamp,
) -> WorkerEntry {
    let id = agent.id.to_string();
    let numbers: Vec<u64> = holds.iter().map(|task| task.number).collect();
    let mut entry = match heard.state {
        Some(mut state) => {
            if let Some(progress) = &mut state.progress {
                progress.step = Text::from(redact::text(&progress.step).into_owned());
            }
            WorkerEntry::heard(id, state)
        }
        None => unheard(id, agent, holds),
    };
    if heard.foreign && !numbers.contains(&entry.issue_number) {
        entry.external = Some(format!("external #{}", entry.issue_number));
    }
    let seen_at = heard.at.unwrap_or(agent.seen_at).max(agent.seen_at);
    entry.connected = heard.connected;
    entry.last_heartbeat_age_seconds = Some(now.since(seen_at).as_secs_f64());
    entry.doors = agent.doors.iter().map(ToString::to_string).collect();
    entry.holds = numbers;
    entry
}

fn unheard(id: String, agent: &Agent, holds: &[HeldTask]) -> WorkerEntry {
    let mut entry = WorkerEntry::unheard(id);
    let current = agent.current.as_ref();
    let is_at = |task: &&HeldTask| current.is_some_and(|current| current.task == task.id);
    let Some(task) = holds.iter().find(is_at).or(holds.last()) else {
        return entry;
    };
    (entry.issue_number, entry.attempt) = (task.number, task.retries + 1);
    entry.stage = Stage::of_task(task.status, task.phase);
    let percent = current.and_then(|current| current.percent);
    entry.progress = percent.map(|percent| StepProgress {
        step: Text::from(agent.status()),
        percent: f64::from(percent),
    });
    entry
}
