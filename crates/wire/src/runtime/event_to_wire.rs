//! Events as this node tells them, and the lists that people see of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use switchboard_core::cursor::{Cursor, Subscriber};
use switchboard_core::id::NodeId;
use switchboard_core::node::Gateway;
use switchboard_core::order::Order;
use switchboard_core::outbox::{
    Answer, AnswerKind, Commission, Control, Letter, News, Outgoing, Standing,
};
use switchboard_core::verb::Published;
use switchboard_core::{AgentId, Timestamp};

use super::capability_to_wire;
use super::event_from_wire::fits_in_a_page;
use super::to_wire;
use super::{
    AckPayload, AckType, AgentRecord, CursorRecord, DeadLetterPayload, DestinationRecord, Event,
    MessagePayload, NodeHealth, OrderRecord, PublishResponse, ReplyPayload, SignalPayload,
    SkillDistribution, SkillDistributionPayload, TaskAcceptPayload, TaskCompletePayload,
    TaskCreatePayload, TaskFailedPayload, TaskUpdatePayload, TaskUpdateStatus, Trace,
};
use crate::{IsoTime, Json};

/// An event of this node's outbox.
pub fn event(row: &Outgoing, here: &NodeId) -> Event {
    let event = &row.event;
    let policies = event.policies.as_deref();
    Event {
        event_id: event.id.to_string(),
        seq: row.seq,
        kind: event.news.kind().to_owned(),
        source_node_id: here.to_string(),
        source_agent_id: event.from.to_string(),
        to_agent_id: event.to.as_ref().map(ToString::to_string),
        corr_id: event.corr_id.to_string(),
        created_at: iso(event.created_at),
        expires_at: iso(event.expires_at),
        payload: payload(&event.news, here),
        trace: Trace {
            attempt: event.attempt,
            // A node that says nothing of its routing has none.
            routing_policy_version: policies
                .map(|by| by.routing.clone())
                .filter(|version| !version.is_empty()),
            capability_policy_version: policies.map(|by| by.capability.clone()),
            to_node_id: event.to_node.as_ref().map(ToString::to_string),
            to_nodes: match &event.news {
                News::Message(letter) => {
                    let routes = letter.routes.iter();
                    let each = routes.map(|route| (route.node.to_string(), names(&route.agents)));
                    each.collect()
                }
                _ => BTreeMap::new(),
            },
        },
    }
}

/// What an event says.
pub fn payload(news: &News, here: &NodeId) -> Json {
    match news {
        News::Message(letter) => print(&message(letter)),
        News::Reply { to, body, status } => print(&ReplyPayload {
            ref_event_id: to.to_string(),
            body: Json::stored(body),
            status: status.clone(),
        }),
        News::TaskCreate(task) => print(&create(task)),
        News::TaskAccept {
            task,
            by,
            eta_at,
            plan,
        } => print(&TaskAcceptPayload {
            task_id: task.to_string(),
            accepted_by_agent_id: by.to_string(),
            eta_at: Some(iso(*eta_at)),
            eta_seconds: None,
            plan_summary: plan.clone(),
        }),
        News::TaskUpdate {
            task,
            status,
            percent,
            note,
            revised_eta_at,
        } => print(&TaskUpdatePayload {
            task_id: task.to_string(),
            status: match status {
                Standing::InProgress => TaskUpdateStatus::InProgress,
                Standing::Pending => TaskUpdateStatus::Pending,
                Standing::Blocked => TaskUpdateStatus::Blocked,
            },
            progress: *percent,
            note: note.clone(),
            revised_eta_at: revised_eta_at.map(iso),
        }),
        News::TaskComplete {
            task,
            by,
            result,
            at,
        } => print(&complete(task.as_str(), by, result.as_deref(), *at)),
        News::TaskFailed {
            task,
            by,
            class,
            error,
            at,
        } => print(&TaskFailedPayload {
            task_id: task.to_string(),
            failed_by_agent_id: by.to_string(),
            failure_class: class.to_string(),
            error_summary: error.clone(),
            failed_at: iso(*at),
        }),
        News::Ack(answer) => print(&ack(answer, here)),
        News::Signal { rev, record } => print(&signal(*rev, record, here)),
        News::DeadLetter {
            event,
            kind,
            attempts,
            reason,
        } => print(&DeadLetterPayload {
            ref_event_id: event.to_string(),
            ref_kind: kind.clone(),
            attempts: *attempts,
            reason: reason.clone(),
        }),
        News::Other { payload, .. } => Json::stored(payload),
    }
}

fn message(letter: &Letter) -> MessagePayload {
    let said: Value = serde_json::from_str(&letter.payload).unwrap_or_default();
    let subject = said.get("subject").and_then(Value::as_str);
    MessagePayload {
        to_agents: names(&letter.to),
        subject: subject.unwrap_or_default().to_owned(),
        body: said.get("body").cloned().unwrap_or_default().into(),
        priority: letter.priority.into(),
        expects_reply: letter.expects_reply,
    }
}

fn create(task: &Commission) -> TaskCreatePayload {
    TaskCreatePayload {
        task_id: task.task.to_string(),
        title: task.title.clone(),
        description: task.description.clone(),
        to_agents: names(&task.to),
        required_capabilities: task.required.clone(),
        priority: task.priority.into(),
        requester_agent_id: task.requester.to_string(),
        response_required: task.response_required,
        deadline_at: task.deadline_at.map(iso),
        distribution: task
            .installs
            .as_ref()
            .map(|installs| SkillDistributionPayload {
                task_type: SkillDistribution::SkillDistribution,
                capability_id: installs.capability.to_string(),
                delegation_skill_ref: capability_to_wire::skill(&installs.skill),
                required_by: iso(installs.required_by),
            }),
    }
}

fn complete(task: &str, by: &AgentId, result: Option<&str>, at: Timestamp) -> TaskCompletePayload {
    let result = result.map(Json::stored).filter(fits_in_a_page);
    let result = result.unwrap_or_default();
    let said: Value = result.read().unwrap_or_default();
    let text = |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned);
    TaskCompletePayload {
        task_id: task.to_owned(),
        completed_by_agent_id: by.to_string(),
        result_summary: text("summary").unwrap_or_default(),
        result_ref: text("resultRef"),
        completed_at: iso(at),
        result,
    }
}

fn ack(answer: &Answer, here: &NodeId) -> AckPayload {
    let by = names(&answer.by);
    AckPayload {
        ref_event_id: answer.to.to_string(),
        ref_kind: answer.kind.clone(),
        ack_type: match answer.answer {
            AnswerKind::Accepted => AckType::Accepted,
            AnswerKind::Processed => AckType::Processed,
            AnswerKind::Failed => AckType::FailedTerminal,
        },
        acked_by_node_id: here.to_string(),
        acked_by_agent_id: by.first().cloned(),
        acked_by_agent_ids: if by.len() > 1 { by } else { Vec::new() },
        acked_at: iso(answer.at),
        eta_at: answer.eta_at.map(iso),
        reason: answer.reason.clone(),
        task_id: answer.accepts.as_ref().map(|(task, _)| task.to_string()),
        accepted_by_agent_id: answer.accepts.as_ref().map(|(_, by)| by.to_string()),
    }
}

/// A record of the control plane.
pub fn signal(rev: u64, record: &Control, here: &NodeId) -> SignalPayload {
    match record {
        Control::Catalog {
            manifest,
            status,
            published_at,
        } => SignalPayload {
            path: format!("capabilities.catalog.{}", manifest.capability),
            rev,
            record: print(&capability_to_wire::catalog(
                manifest,
                *status,
                *published_at,
            )),
        },
        Control::Index { capability, index } => SignalPayload {
            path: format!("capabilities.index.{capability}"),
            rev,
            record: print(&capability_to_wire::index(capability, index)),
        },
        Control::Routing {
            capability,
            routing,
        } => SignalPayload {
            path: format!("capabilities.routing.{capability}"),
            rev,
            record: print(&capability_to_wire::routing(capability, routing)),
        },
        Control::Agent { agent, is_live } => SignalPayload {
            path: format!("agents.{agent}"),
            rev,
            record: print(&AgentRecord {
                agent_id: agent.to_string(),
                gateway: here.to_string(),
                kind: "internal".to_owned(),
                live: *is_live,
            }),
        },
        Control::Node(node) => {
            let status = match node.is_joined() {
                true => NodeHealth::Online,
                false => NodeHealth::Offline,
            };
            SignalPayload {
                path: format!("nodes.{}", node.node_id),
                rev,
                record: print(&to_wire::record(node, status)),
            }
        }
        Control::Other { path, value } => SignalPayload {
            path: path.clone(),
            rev,
            record: Json::stored(value),
        },
    }
}

pub fn published(published: &Published) -> PublishResponse {
    PublishResponse {
        event_id: published.event.to_string(),
        seq: published.seq,
        corr_id: published.corr_id.to_string(),
        recipients: names(&published.recipients),
        ignored: names(&published.ignored),
        node_id: published.node.as_ref().map(ToString::to_string),
    }
}

/// This node's place in another's outbox.
pub fn cursor(cursor: &Cursor, here: &NodeId) -> CursorRecord {
    CursorRecord {
        consumer_node_id: here.to_string(),
        source_node_id: cursor.source.to_string(),
        last_seq: cursor.last_seq,
        updated_at: iso(cursor.updated_at),
        status: cursor.status.to_string(),
        lease_expires_at: None,
        epoch: cursor.epoch.clone(),
    }
}

/// Another node's place in this one's outbox, as far as it said.
pub fn subscriber(reader: &Subscriber, here: &Gateway, now: Timestamp) -> CursorRecord {
    let status = if reader.is_active(now) {
        "active"
    } else {
        "expired"
    };
    CursorRecord {
        consumer_node_id: reader.node.to_string(),
        source_node_id: here.node_id.to_string(),
        last_seq: reader.last_seq,
        updated_at: iso(reader.updated_at),
        status: status.to_owned(),
        lease_expires_at: Some(iso(reader.lease_until)),
        epoch: Some(here.route_epoch.clone()),
    }
}

pub fn order(order: &Order) -> OrderRecord {
    let task = order.task.as_ref();
    let destinations = order.destinations.iter();
    OrderRecord {
        event_id: order.event.to_string(),
        kind: order.news.clone(),
        source_agent_id: order.from.to_string(),
        corr_id: order.corr_id.to_string(),
        seq: order.seq,
        attempt: order.attempt,
        created_at: iso(order.created_at),
        expires_at: iso(order.expires_at),
        ended_at: order.ended_at.map(iso),
        destinations: destinations
            .map(|one| DestinationRecord {
                node_id: one.node.to_string(),
                agents: names(&one.agents),
                state: one.state.to_string(),
                reason: one.reason.clone(),
            })
            .collect(),
        task_id: task.map(|task| task.task.to_string()),
        state: task.map(|task| task.state.to_string()),
        eta_at: task.and_then(|task| task.eta_at).map(iso),
    }
}

fn names(agents: &[AgentId]) -> Vec<String> {
    agents.iter().map(ToString::to_string).collect()
}

fn iso(at: Timestamp) -> IsoTime {
    IsoTime(at.0)
}

fn print(payload: &impl Serialize) -> Json {
    Json::of(payload).unwrap_or_else(|_| json!({}).into())
}
