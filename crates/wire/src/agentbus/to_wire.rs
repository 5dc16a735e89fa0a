//! From rows and replies to frames: what a worker is told, without what looks like a secret.

use switchboard_core::{AgentId, Received, Task};

use super::message::{
    AgentMessage, AgentMessageAck, MailState, OperatorCommand, TaskAssigned, TaskResult,
    TaskResultAck, TaskRevoked,
};
use super::redact;
use super::utc::UtcTime;
use super::words::OperatorOrder;
use crate::Json;
use crate::jetpack::Priority;

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
        part: 1,
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
pub fn result_ack(said: &TaskResult, counts: Result<String, String>) -> TaskResultAck {
    let accepted = counts.is_ok();
    let (Ok(reason) | Err(reason)) = counts;
    TaskResultAck {
        issue_number: said.issue_number,
        epoch: said.epoch,
        accepted,
        reason: Some(reason).filter(|reason| !reason.is_empty()),
        corr_id: said.corr_id.clone(),
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
        part: 1,
        parts: 1,
    }
}

/// What became of a worker's own message, or of its acknowledgement.
pub fn mail_ack(
    message_id: String,
    corr_id: Option<String>,
    outcome: Result<(), String>,
) -> AgentMessageAck {
    AgentMessageAck {
        message_id,
        state: Some(match outcome {
            Ok(()) => MailState::Accepted,
            Err(_) => MailState::Failed,
        }),
        reason: outcome.err(),
        corr_id,
    }
}
