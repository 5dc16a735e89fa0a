//! Events as they come, checked: those that somebody publishes here, and those of another node's outbox.

use std::time::Duration;

use aws_lc_rs::digest;
use serde::Deserialize;
use serde_json::Map;
use switchboard_core::outbox::{
    Answer, AnswerKind, Commission, Control, Dispatch, FailureClass, Installs, Letter, News,
    PolicyVersions, Route, Standing,
};
use switchboard_core::verb::{Publication, Publish, PublishStep, Targets};
use switchboard_core::{
    AgentId, CorrId, EventId, NodeId, Priority, STEWARD, Sender, TaskId, Timestamp, limits,
};

use super::capability_from_wire::{self, capability_id, skill, version};
use super::from_wire as nodes;
use super::step_from_wire::step;
use super::{
    AckPayload, AckType, AgentRecord, DeadLetterPayload, Event, EventPriority, MessagePayload,
    NodeRecord, PublishKind, PublishRequest, ReplyPayload, SignalPayload, SkillDistributionPayload,
    TaskAcceptPayload, TaskCompletePayload, TaskCreatePayload, TaskFailedPayload,
    TaskUpdatePayload, TaskUpdateStatus, Trace,
};
use crate::jetpack::from_wire::Context;
use crate::jetpack::from_wire::check::{self, agent_id, task_id};
use crate::malformed::too_deep;
use crate::words::mirror;
use crate::{IsoTime, Json, Malformed, canonical};

/// What somebody publishes at this node.
#[derive(Clone, Debug, PartialEq)]
pub enum Publishing {
    New(Publish),
    Step(PublishStep),
}

/// Reads it, by the ledger's time. No payload may be longer than the node allows.
pub fn publish(
    request: &PublishRequest,
    now: Timestamp,
    payload_bytes_max: usize,
    context: &mut Context<'_>,
) -> Result<Publishing, Malformed> {
    let event = match &request.event_id {
        Some(given) => EventId::from(check::id("eventId", given)?),
        None => EventId::from((context.fresh)("evt")),
    };
    check::text("payload", request.payload.get(), payload_bytes_max)?;
    if !fits_in_a_page(&request.payload) {
        return Err(Malformed::field("payload", "is nested too deeply"));
    }
    let expires_in = request
        .expires_at
        .map(|IsoTime(at)| match Timestamp(at) > now {
            true => Ok(Timestamp(at).since(now)),
            false => Err(Malformed::field("expiresAt", "must be in the future")),
        })
        .transpose()?;
    let payload = &request.payload;
    let what = match request.kind {
        PublishKind::Message => message(payload)?,
        PublishKind::TaskCreate => Publication::Task(Box::new(own_task(payload)?)),
        PublishKind::Reply
        | PublishKind::TaskAccept
        | PublishKind::TaskUpdate
        | PublishKind::TaskComplete
        | PublishKind::TaskFailed => {
            return Ok(Publishing::Step(PublishStep {
                sum: sum(request)?,
                event,
                expires_in,
                ..step(request, now, context)?
            }));
        }
    };
    let from = match request.source_agent_id.as_deref() {
        None | Some(STEWARD) => Sender::Person(STEWARD.into()),
        Some(given) => Sender::Agent(agent_id("sourceAgentId", given)?),
    };
    let corr_id = match &request.corr_id {
        Some(given) => CorrId::from(check::id("corrId", given)?),
        None => CorrId::from(format!("corr_{event}")),
    };
    Ok(Publishing::New(Publish {
        sum: sum(request)?,
        event,
        from,
        corr_id,
        expires_in,
        what,
    }))
}

/// Whether it can still be read inside a page of events.
pub(super) fn fits_in_a_page(payload: &Json) -> bool {
    let page = format!("[[[[[{}]]]]]", payload.get());
    !too_deep(page.as_bytes())
}

/// The same publication has the same, however its JSON is spaced and ordered.
fn sum(request: &PublishRequest) -> Result<u64, Malformed> {
    let said = serde_json::to_value((
        request.kind,
        &request.payload,
        &request.corr_id,
        &request.expires_at,
    ));
    let said = said.map_err(|_| Malformed::field("payload", "must be JSON"))?;
    let hash = digest::digest(&digest::SHA256, canonical(&said).as_bytes());
    let first = hash.as_ref().first_chunk::<8>();
    Ok(first.map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}

fn message(payload: &Json) -> Result<Publication, Malformed> {
    let payload: MessagePayload = read(payload)?;
    if payload.to_agents.is_empty() {
        let message = "must name at least one agent, or all";
        return Err(Malformed::field("payload.toAgents", message));
    }
    let to = match &payload.to_agents[..] {
        [all] if all == ALL => Targets::All,
        named => Targets::Named(agents("payload.toAgents", named)?),
    };
    Ok(Publication::Message {
        to,
        payload: shown(&payload),
        priority: payload.priority.into(),
        expects_reply: payload.expects_reply,
    })
}

const ALL: &str = "all";

/// What recipients are handed of it.
fn shown(payload: &MessagePayload) -> Box<str> {
    let value = serde_json::json!({ "subject": payload.subject, "body": payload.body });
    value.to_string().into()
}

fn agents(field: &str, named: &[String]) -> Result<Vec<AgentId>, Malformed> {
    if named.len() > limits::EVENT_RECIPIENTS_MAX {
        let max = limits::EVENT_RECIPIENTS_MAX;
        return Err(Malformed::field(
            field,
            format!("must name at most {max} agents"),
        ));
    }
    let each = named.iter().enumerate();
    each.map(|(at, id)| agent_id(&format!("{field}[{at}]"), id))
        .collect()
}

/// A task that somebody publishes; those to install a skill the hub makes itself.
fn own_task(payload: &Json) -> Result<Commission, Malformed> {
    let task = task(payload)?;
    if task.installs.is_none() {
        return Ok(task);
    }
    let message =
        "must not be skill_distribution: publish the capability, and its skill is distributed";
    Err(Malformed::field("payload.taskType", message))
}

fn task(payload: &Json) -> Result<Commission, Malformed> {
    let payload: TaskCreatePayload = read(payload)?;
    check::filled("payload.title", &payload.title, limits::TITLE_BYTES_MAX)?;
    if let Some(text) = &payload.description {
        check::text("payload.description", text, limits::DESCRIPTION_BYTES_MAX)?;
    }
    let installs = payload.distribution.as_ref().map(installs).transpose()?;
    let max = match installs {
        Some(_) => limits::SKILL_TARGETS_MAX,
        None => limits::AUDIENCE_MAX,
    };
    if payload.to_agents.len() > max {
        let message = format!("must name at most {max} agents");
        return Err(Malformed::field("payload.toAgents", message));
    }
    check::skills(
        "payload.requiredCapabilities",
        &payload.required_capabilities,
    )?;
    Ok(Commission {
        task: task_id("payload.taskId", &payload.task_id)?,
        title: payload.title,
        description: payload.description,
        to: agents("payload.toAgents", &payload.to_agents)?,
        required: payload.required_capabilities,
        priority: payload.priority.into(),
        requester: agent_id("payload.requesterAgentId", &payload.requester_agent_id)?,
        response_required: payload.response_required,
        deadline_at: payload.deadline_at.map(|IsoTime(at)| Timestamp(at)),
        installs: installs.map(Box::new),
    })
}

fn installs(payload: &SkillDistributionPayload) -> Result<Installs, Malformed> {
    Ok(Installs {
        capability: capability_id("payload.capabilityId", &payload.capability_id)?,
        skill: skill("payload.delegationSkillRef", &payload.delegation_skill_ref)?,
        required_by: Timestamp(payload.required_by.0),
    })
}

/// What a completion says was installed, for tasks that ask for it: a skill's name and its version.
pub fn installed(event: &Event) -> Option<(String, String)> {
    if event.kind != "task_complete" {
        return None;
    }
    let said: serde_json::Value = event.payload.read().ok()?;
    let named = said
        .get("installed")
        .or_else(|| said.get("result")?.get("installed"))?;
    let text = |name: &str| named.get(name)?.as_str().map(str::to_owned);
    Some((text("name")?, text("version")?))
}

/// An event of another node's outbox.
pub fn event(event: &Event) -> Result<Dispatch, Malformed> {
    check::text("payload", event.payload.get(), limits::NODE_EVENT_BYTES_MAX)?;
    let id = EventId::from(check::id("eventId", &event.event_id)?);
    let corr_id = CorrId::from(check::id("corrId", &event.corr_id)?);
    if event.seq == 0 || event.seq > limits::EVENT_SEQ_MAX {
        let message = format!("must be 1 to {}", limits::EVENT_SEQ_MAX);
        return Err(Malformed::field("seq", message));
    }
    if event.trace.attempt == 0 {
        return Err(Malformed::field("trace.attempt", "must be at least 1"));
    }
    let to = event.to_agent_id.as_deref();
    let to_node = event.trace.to_node_id.as_deref();
    Ok(Dispatch {
        id,
        from: AgentId::from(check::id("sourceAgentId", &event.source_agent_id)?),
        to: to.map(|id| agent_id("toAgentId", id)).transpose()?,
        to_node: to_node
            .map(|id| check::id("trace.toNodeId", id).map(NodeId::from))
            .transpose()?,
        corr_id,
        created_at: Timestamp(event.created_at.0),
        expires_at: Timestamp(event.expires_at.0),
        attempt: event.trace.attempt,
        policies: policies(&event.trace)?,
        news: match news(event)? {
            News::Message(letter) => News::Message(Letter {
                routes: routes(event)?,
                ..letter
            }),
            other => other,
        },
    })
}

fn policies(trace: &Trace) -> Result<Option<Box<PolicyVersions>>, Malformed> {
    let (routing, capability) = (
        &trace.routing_policy_version,
        &trace.capability_policy_version,
    );
    let Some(capability) = capability else {
        return Ok(None);
    };
    let routing = routing.as_deref().unwrap_or_default();
    Ok(Some(Box::new(PolicyVersions {
        routing: version("trace.routingPolicyVersion", routing)?,
        capability: version("trace.capabilityPolicyVersion", capability)?,
    })))
}

fn routes(event: &Event) -> Result<Vec<Route>, Malformed> {
    let nodes = event.trace.to_nodes.iter();
    let each = nodes.map(|(node, named)| {
        Ok(Route {
            node: NodeId::from(check::id("trace.toNodes", node)?),
            agents: agents("trace.toNodes", named)?,
        })
    });
    each.collect()
}

fn news(event: &Event) -> Result<News, Malformed> {
    let (payload, said_at) = (&event.payload, Timestamp(event.created_at.0));
    Ok(match event.kind.as_str() {
        "message" => {
            let payload: MessagePayload = read(payload)?;
            News::Message(Letter {
                to: agents("payload.toAgents", &payload.to_agents)?,
                routes: Vec::new(),
                payload: shown(&payload),
                priority: payload.priority.into(),
                expects_reply: payload.expects_reply,
            })
        }
        "reply" => {
            let payload: ReplyPayload = read(payload)?;
            News::Reply {
                to: EventId::from(check::id("payload.refEventId", &payload.ref_event_id)?),
                body: payload.body.get().into(),
                status: payload.status,
            }
        }
        "task_create" => News::TaskCreate(Box::new(task(payload)?)),
        "task_accept" => accept(read(payload)?, said_at)?,
        "task_update" => update(read(payload)?)?,
        "task_complete" => {
            let payload: TaskCompletePayload = read(payload)?;
            News::TaskComplete {
                task: id_of_task(&payload.task_id)?,
                by: agent_id("payload.completedByAgentId", &payload.completed_by_agent_id)?,
                result: (!payload.result.is_null()).then(|| payload.result.get().into()),
                at: Timestamp(payload.completed_at.0),
            }
        }
        "task_failed" => failed(read(payload)?)?,
        "ack" => News::Ack(ack(read(payload)?)?),
        "signal" => signal(read(payload)?, &event.source_node_id)?,
        "dead_letter" => {
            let payload: DeadLetterPayload = read(payload)?;
            News::DeadLetter {
                event: EventId::from(check::id("payload.refEventId", &payload.ref_event_id)?),
                kind: payload.ref_kind,
                attempts: payload.attempts,
                reason: payload.reason,
            }
        }
        other => {
            check::filled("kind", other, limits::ID_BYTES_MAX)?;
            News::Other {
                kind: other.to_owned(),
                payload: payload.get().into(),
                wrong: None,
            }
        }
    })
}

pub(super) fn id_of_task(text: &str) -> Result<TaskId, Malformed> {
    task_id("payload.taskId", text)
}

fn accept(payload: TaskAcceptPayload, said_at: Timestamp) -> Result<News, Malformed> {
    Ok(News::TaskAccept {
        task: id_of_task(&payload.task_id)?,
        by: agent_id("payload.acceptedByAgentId", &payload.accepted_by_agent_id)?,
        eta_at: eta_at(&payload, said_at)?,
        plan: payload.plan_summary,
    })
}

pub(super) fn eta_at(
    payload: &TaskAcceptPayload,
    said_at: Timestamp,
) -> Result<Timestamp, Malformed> {
    match (payload.eta_at, payload.eta_seconds) {
        (Some(IsoTime(at)), _) => Ok(Timestamp(at)),
        (None, Some(seconds)) => Ok(said_at + Duration::from_secs(seconds.into())),
        (None, None) => {
            let message = "must be given, or etaSeconds";
            Err(Malformed::field("payload.etaAt", message))
        }
    }
}

fn update(payload: TaskUpdatePayload) -> Result<News, Malformed> {
    Ok(News::TaskUpdate {
        percent: percent(&payload)?,
        task: id_of_task(&payload.task_id)?,
        status: match payload.status {
            TaskUpdateStatus::InProgress => Standing::InProgress,
            TaskUpdateStatus::Pending => Standing::Pending,
            TaskUpdateStatus::Blocked => Standing::Blocked,
        },
        note: payload.note,
        revised_eta_at: payload.revised_eta_at.map(|IsoTime(at)| Timestamp(at)),
    })
}

pub(super) fn percent(said: &TaskUpdatePayload) -> Result<Option<u8>, Malformed> {
    match said.progress.is_some_and(|percent| percent > 100) {
        true => Err(Malformed::field("payload.progress", "must be 0 to 100")),
        false => Ok(said.progress),
    }
}

fn failed(payload: TaskFailedPayload) -> Result<News, Malformed> {
    let class = FailureClass::parse(&payload.failure_class);
    Ok(News::TaskFailed {
        task: id_of_task(&payload.task_id)?,
        by: agent_id("payload.failedByAgentId", &payload.failed_by_agent_id)?,
        class: class.unwrap_or(FailureClass::Unknown),
        error: limits::cut(&payload.error_summary, limits::NOTE_BYTES_MAX).to_owned(),
        at: Timestamp(payload.failed_at.0),
    })
}

fn ack(payload: AckPayload) -> Result<Answer, Malformed> {
    let by = match &payload.acked_by_agent_id {
        _ if !payload.acked_by_agent_ids.is_empty() => {
            agents("payload.ackedByAgentIds", &payload.acked_by_agent_ids)?
        }
        Some(one) => vec![agent_id("payload.ackedByAgentId", one)?],
        None => Vec::new(),
    };
    Ok(Answer {
        to: EventId::from(check::id("payload.refEventId", &payload.ref_event_id)?),
        kind: payload.ref_kind,
        answer: match payload.ack_type {
            AckType::Accepted => AnswerKind::Accepted,
            AckType::Processed => AnswerKind::Processed,
            AckType::FailedTerminal => AnswerKind::Failed,
        },
        by,
        at: Timestamp(payload.acked_at.0),
        eta_at: payload.eta_at.map(|IsoTime(at)| Timestamp(at)),
        reason: payload.reason,
        accepts: match (&payload.task_id, &payload.accepted_by_agent_id) {
            (Some(task), Some(by)) => Some((
                id_of_task(task)?,
                agent_id("payload.acceptedByAgentId", by)?,
            )),
            _ => None,
        },
    })
}

fn signal(payload: SignalPayload, source: &str) -> Result<News, Malformed> {
    let rev = payload.rev;
    let record = control(payload, source)?;
    Ok(News::Signal { rev, record })
}

/// Members that only messages and tasks have: a record is about what there is, never about what is said.
const PAYLOADS: [&str; 4] = ["payload", "body", "message", "task"];

/// A record of the control plane, as a node tells it.
pub fn control(said: SignalPayload, source: &str) -> Result<Control, Malformed> {
    let field = "payload.record";
    let wrong =
        |error: serde_json::Error| Malformed::field(field, crate::in_words(&error.to_string()));
    let members: Map<String, serde_json::Value> = said.record.read().map_err(wrong)?;
    if let Some(member) = PAYLOADS.iter().find(|name| members.contains_key(**name)) {
        let message = "is a payload: records of the control plane have none";
        return Err(Malformed::field(format!("{field}.{member}"), message));
    }
    let source = NodeId::from(source);
    if let Some(record) = capability_from_wire::control(&said.path, &said.record, said.rev, &source)
    {
        return record;
    }
    let kind = said.path.split_once('.').map(|(kind, _)| kind);
    Ok(match kind {
        Some("agents") => {
            let record: AgentRecord = said.record.read().map_err(wrong)?;
            Control::Agent {
                agent: agent_id("payload.record.agentId", &record.agent_id)?,
                is_live: record.live,
            }
        }
        Some("nodes") => {
            let record: NodeRecord = said.record.read().map_err(wrong)?;
            Control::Node(Box::new(nodes::member(&record)?))
        }
        _ => Control::Other {
            path: said.path,
            value: said.record.get().into(),
        },
    })
}

/// Reads a payload; what is wrong with it is told by its path from there.
pub(super) fn read<'de, T: Deserialize<'de>>(payload: &'de Json) -> Result<T, Malformed> {
    crate::parse(payload.get().as_bytes()).map_err(|wrong| Malformed {
        field: Some(match &wrong.field {
            Some(field) => format!("payload.{field}"),
            None => "payload".to_owned(),
        }),
        ..wrong
    })
}

mirror!(EventPriority, Priority {
    Urgent = Critical, High = High, Normal = Medium, Low = Low,
});
