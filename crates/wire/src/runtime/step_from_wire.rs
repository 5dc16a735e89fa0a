//! What an agent publishes of its work, read as the verbs by which it would do it by any other door.

use serde_json::{Map, json};
use switchboard_core::outbox::FailureClass;
use switchboard_core::verb::{PublishStep, Step};
use switchboard_core::{AgentId, CorrId, EventId, Timestamp, limits};

use super::event_from_wire::{eta_at, id_of_task, percent, read};
use super::{
    PublishKind, PublishRequest, ReplyPayload, TaskAcceptPayload, TaskCompletePayload,
    TaskFailedPayload, TaskUpdatePayload, TaskUpdateStatus,
};
use crate::jetpack::CompleteRequest;
use crate::jetpack::from_wire::check::{self, agent_id};
use crate::jetpack::from_wire::{self, Context};
use crate::{IsoTime, Json, Malformed};

/// What an agent does, and under which id it answers.
pub(super) fn step(
    request: &PublishRequest,
    now: Timestamp,
    context: &mut Context<'_>,
) -> Result<PublishStep, Malformed> {
    let kind = request.kind;
    let needed = |field: &str, given: &Option<String>| {
        let message =
            format!("is required: a {kind} is an agent's, and has that of what it answers");
        given
            .clone()
            .ok_or_else(|| Malformed::field(field, message))
    };
    let agent = needed("sourceAgentId", &request.source_agent_id)?;
    let agent = agent_id("sourceAgentId", &agent)?;
    let corr_id = needed("corrId", &request.corr_id)?;
    let step = match kind {
        PublishKind::Message | PublishKind::TaskCreate => {
            return Err(Malformed::field("kind", "is no step of an agent"));
        }
        PublishKind::Reply => {
            let said: ReplyPayload = read(&request.payload)?;
            check::maybe_text("payload.status", said.status.as_ref(), limits::ID_BYTES_MAX)?;
            Step::Reply {
                to: EventId::from(check::id("payload.refEventId", &said.ref_event_id)?),
                body: said.body.get().into(),
                status: said.status.clone(),
                payload: Json::of(&said).unwrap_or_default().get().into(),
            }
        }
        PublishKind::TaskAccept => {
            let said: TaskAcceptPayload = read(&request.payload)?;
            is_sender("acceptedByAgentId", &said.accepted_by_agent_id, &agent)?;
            let plan = said.plan_summary.as_ref();
            check::maybe_text("payload.planSummary", plan, limits::NOTE_BYTES_MAX)?;
            Step::Accept {
                task: id_of_task(&said.task_id)?,
                eta_at: eta_at(&said, now)?,
                plan: said.plan_summary,
            }
        }
        PublishKind::TaskUpdate => doing(read(&request.payload)?)?,
        PublishKind::TaskComplete => {
            let said: TaskCompletePayload = read(&request.payload)?;
            is_sender("completedByAgentId", &said.completed_by_agent_id, &agent)?;
            let verb = from_wire::complete(None, completion(said)?, context);
            Step::Complete(Box::new(verb.map_err(in_payload)?))
        }
        PublishKind::TaskFailed => {
            let said: TaskFailedPayload = read(&request.payload)?;
            is_sender("failedByAgentId", &said.failed_by_agent_id, &agent)?;
            let class = FailureClass::parse(&said.failure_class).ok_or_else(|| {
                let words = FailureClass::WORDS.join(", ");
                Malformed::field("payload.failureClass", format!("must be one of {words}"))
            })?;
            check::text(
                "payload.errorSummary",
                &said.error_summary,
                limits::NOTE_BYTES_MAX,
            )?;
            Step::Fail {
                task: id_of_task(&said.task_id)?,
                class,
                error: said.error_summary,
            }
        }
    };
    Ok(PublishStep {
        event: EventId::from(""),
        agent,
        corr_id: CorrId::from(check::id("corrId", &corr_id)?),
        expires_in: None,
        step,
        sum: 0,
    })
}

/// What is progress. Where else a task is follows from what the hub does with it.
fn doing(said: TaskUpdatePayload) -> Result<Step, Malformed> {
    match said.status {
        TaskUpdateStatus::InProgress => {}
        TaskUpdateStatus::Pending | TaskUpdateStatus::Blocked => {
            let status = said.status;
            let message = format!("must be in_progress: the hub says when a task is {status}");
            return Err(Malformed::field("payload.status", message));
        }
    }
    let note = said.note.as_ref();
    check::maybe_text("payload.note", note, limits::NOTE_BYTES_MAX)?;
    Ok(Step::Update {
        percent: percent(&said)?,
        task: id_of_task(&said.task_id)?,
        note: said.note,
        revised_eta_at: said.revised_eta_at.map(|IsoTime(at)| Timestamp(at)),
    })
}

/// The same as COMPLETE has it.
fn completion(said: TaskCompletePayload) -> Result<CompleteRequest, Malformed> {
    let wrong = || Malformed::field("payload.result", "must be an object");
    let mut result = match said.result.is_null() {
        true => Map::new(),
        false => said.result.read().map_err(|_| wrong())?,
    };
    for list in ["filesCreated", "filesModified", "filesDeleted"] {
        result.entry(list).or_insert_with(|| json!([]));
    }
    result.insert("summary".to_owned(), said.result_summary.into());
    if let Some(at) = said.result_ref {
        result.insert("resultRef".to_owned(), at.into());
    }
    let result = serde_json::from_value(result.into());
    Ok(CompleteRequest {
        agent_id: said.completed_by_agent_id,
        task_id: Some(said.task_id),
        result: result.map_err(|error| {
            Malformed::field("payload.result", crate::in_words(&error.to_string()))
        })?,
        quality_metrics: None,
        epoch: None,
        evidence: Vec::new(),
    })
}

fn in_payload(wrong: Malformed) -> Malformed {
    Malformed {
        field: wrong.field.map(|field| format!("payload.{field}")),
        ..wrong
    }
}

fn is_sender(member: &str, named: &str, sender: &AgentId) -> Result<(), Malformed> {
    if named == sender.as_str() {
        return Ok(());
    }
    let message = format!("must be the sourceAgentId, {sender}");
    Err(Malformed::field(format!("payload.{member}"), message))
}
