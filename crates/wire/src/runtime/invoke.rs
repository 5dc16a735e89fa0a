//! The operations that external agents invoke, each as the one call of the HTTP interface that it stands for.
//!
//! Who acts is told from outside and written into the call; what the arguments say of it counts for nothing.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use switchboard_core::external::{AgentScope, Constraints};
use switchboard_core::{AgentId, CorrId, STEWARD, TaskId, limits};

use super::from_wire::context_id;
use super::{InviteAgentRequest, InvokeRequest};
use crate::jetpack::from_wire::check;
use crate::jetpack::{
    AgentQuery, AgentStatus, ClaimFilter, Operation as Op, TaskQuery, TaskStatus,
};
use crate::words::words;
use crate::{Json, Malformed, Query as _, parse};

words! {
    pub enum Operation {
        SendMessage = "ansible_send_message",
        ReadMessages = "ansible_read_messages",
        MarkRead = "ansible_mark_read",
        FindTask = "ansible_find_task",
        DelegateTask = "ansible_delegate_task",
        ClaimTask = "ansible_claim_task",
        UpdateTask = "ansible_update_task",
        CompleteTask = "ansible_complete_task",
        Status = "ansible_status",
        ListAgents = "ansible_list_agents",
    }
}

/// The call that an operation stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    pub asks: Asks,
    /// What its path names.
    pub id: Option<String>,
    pub query: String,
    pub body: String,
    pub task: Option<TaskId>,
    pub corr_id: Option<CorrId>,
}

/// Which call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Any of the ten operations.
    Protocol,
    Publish,
    Acknowledge,
    ShowTask,
    ListTasks,
    Status,
    ListAgents,
}

/// What a call says that it is about, before it is known whether it may be made: for whoever writes down that it may not.
pub fn about(request: &InvokeRequest) -> (Option<CorrId>, Option<TaskId>) {
    let args: Value = read(&request.args).unwrap_or_default();
    let named = |member: &str| args[member].as_str();
    let corr_id = request.context_id.as_deref().or_else(|| named("corrId"));
    let task = named("taskId").and_then(|id| check::task_id("taskId", id).ok());
    let corr_id = corr_id.and_then(|id| context_id("corrId", id).ok());
    (corr_id, task)
}

impl Operation {
    /// What it takes.
    pub const fn scope(self) -> AgentScope {
        match self {
            Operation::SendMessage => AgentScope::MessageSend,
            Operation::ReadMessages | Operation::MarkRead => AgentScope::MessageRead,
            Operation::FindTask => AgentScope::TaskRead,
            Operation::DelegateTask => AgentScope::TaskCreate,
            Operation::ClaimTask => AgentScope::TaskClaim,
            Operation::UpdateTask => AgentScope::TaskUpdate,
            Operation::CompleteTask => AgentScope::TaskComplete,
            Operation::Status | Operation::ListAgents => AgentScope::StatusRead,
        }
    }

    /// Whether a token for one context may do it: what it does must show which context it belongs to.
    pub fn is_in_context(self, invocation: &Invocation) -> bool {
        match self {
            Operation::SendMessage | Operation::DelegateTask | Operation::Status => true,
            Operation::FindTask
            | Operation::ClaimTask
            | Operation::UpdateTask
            | Operation::CompleteTask => invocation.task.is_some(),
            Operation::ReadMessages | Operation::MarkRead | Operation::ListAgents => false,
        }
    }

    /// What this agent asks with these arguments; what it makes belongs to the context, if there is one.
    pub fn read(
        self,
        args: &Json,
        agent: &AgentId,
        context: Option<&CorrId>,
    ) -> Result<Invocation, Malformed> {
        let read = match self {
            Operation::SendMessage => publish("message", args, agent, context),
            Operation::DelegateTask => publish("task_create", args, agent, context),
            Operation::ReadMessages => read_messages(args, agent),
            Operation::MarkRead => mark_read(args, agent),
            Operation::FindTask => find_task(args),
            Operation::ClaimTask => claim(args, agent),
            Operation::UpdateTask => update(args, agent),
            Operation::CompleteTask => complete(args, agent),
            Operation::Status => Ok(Invocation::of(Asks::Status)),
            Operation::ListAgents => list_agents(args),
        };
        read.map_err(|wrong| Malformed {
            field: wrong.field.map(|field| format!("args.{field}")),
            ..wrong
        })
    }
}

impl Invocation {
    fn of(asks: Asks) -> Invocation {
        Invocation {
            asks,
            id: None,
            query: String::new(),
            body: String::new(),
            task: None,
            corr_id: None,
        }
    }

    /// One of the ten operations, by its members.
    fn protocol(operation: Op, agent: &AgentId, mut members: Value) -> Invocation {
        members["protocolVersion"] = "1.0".into();
        members["operation"] = operation.as_str().into();
        members["agentId"] = agent.as_str().into();
        Invocation {
            body: members.to_string(),
            ..Invocation::of(Asks::Protocol)
        }
    }

    fn about(self, task: &str) -> Result<Invocation, Malformed> {
        let task = Some(check::task_id("taskId", task)?);
        Ok(Invocation { task, ..self })
    }
}

fn read<'a, T: Deserialize<'a>>(args: &'a Json) -> Result<T, Malformed> {
    parse(args.get().as_bytes())
}

/// The arguments are the event's payload, and beside it what an event may be given.
fn publish(
    kind: &str,
    args: &Json,
    agent: &AgentId,
    context: Option<&CorrId>,
) -> Result<Invocation, Malformed> {
    let mut payload: Map<String, Value> = read(args)?;
    let mut body = json!({ "kind": kind, "sourceAgentId": agent.as_str() });
    for member in ["eventId", "corrId", "expiresAt"] {
        if let Some(given) = payload.remove(member) {
            body[member] = given;
        }
    }
    if let Some(context) = context {
        body["corrId"] = context.as_str().into();
    }
    if kind == "task_create" {
        payload.insert("requesterAgentId".to_owned(), agent.as_str().into());
    }
    let corr_id = body["corrId"].as_str().map(CorrId::from);
    body["payload"] = payload.into();
    Ok(Invocation {
        body: body.to_string(),
        corr_id,
        ..Invocation::of(Asks::Publish)
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMessages {
    #[serde(default)]
    types: Vec<String>,
    limit: Option<u32>,
    wait: Option<u32>,
}

fn read_messages(args: &Json, agent: &AgentId) -> Result<Invocation, Malformed> {
    let ReadMessages { types, limit, wait } = read(args)?;
    let members = json!({ "types": types, "limit": limit, "wait": wait });
    Ok(Invocation::protocol(Op::ReceiveMessages, agent, members))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkRead {
    message_id: String,
}

fn mark_read(args: &Json, agent: &AgentId) -> Result<Invocation, Malformed> {
    let MarkRead { message_id } = read(args)?;
    check::message_id("messageId", &message_id)?;
    Ok(Invocation {
        id: Some(message_id),
        body: json!({ "agentId": agent.as_str() }).to_string(),
        ..Invocation::of(Asks::Acknowledge)
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FindTask {
    task_id: Option<String>,
    #[serde(default)]
    status: Vec<TaskStatus>,
    limit: Option<u32>,
    after: Option<String>,
}

fn find_task(args: &Json) -> Result<Invocation, Malformed> {
    let find: FindTask = read(args)?;
    let Some(task) = find.task_id else {
        let query = TaskQuery {
            status: find.status,
            limit: find.limit,
            after: find.after,
            ..TaskQuery::default()
        };
        return Ok(Invocation {
            query: query.to_query(),
            ..Invocation::of(Asks::ListTasks)
        });
    };
    Invocation {
        id: Some(task.clone()),
        ..Invocation::of(Asks::ShowTask)
    }
    .about(&task)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClaimTask {
    task_id: Option<String>,
    filter: Option<ClaimFilter>,
    wait: Option<u32>,
}

fn claim(args: &Json, agent: &AgentId) -> Result<Invocation, Malformed> {
    let ClaimTask {
        task_id,
        filter,
        wait,
    } = read(args)?;
    let members = json!({ "taskId": task_id, "filter": filter, "wait": wait });
    let call = Invocation::protocol(Op::Claim, agent, members);
    match task_id {
        Some(task) => call.about(&task),
        None => Ok(call),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateTask {
    task_id: String,
    status: Option<String>,
    phase: Option<String>,
    #[serde(default)]
    progress: f64,
    #[serde(default)]
    note: String,
    epoch: Option<u64>,
}

fn update(args: &Json, agent: &AgentId) -> Result<Invocation, Malformed> {
    let update: UpdateTask = read(args)?;
    if update.status.is_some_and(|status| status != "in_progress") {
        return Err(Malformed::field("status", "must be in_progress"));
    }
    let members = json!({
        "taskId": update.task_id, "epoch": update.epoch,
        "progress": {
            "phase": update.phase.as_deref().unwrap_or("implementing"),
            "percentComplete": update.progress, "description": update.note,
        },
    });
    Invocation::protocol(Op::Progress, agent, members).about(&update.task_id)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompleteTask {
    task_id: String,
    result_summary: String,
    result_ref: Option<String>,
    quality_metrics: Option<Value>,
    epoch: Option<u64>,
}

fn complete(args: &Json, agent: &AgentId) -> Result<Invocation, Malformed> {
    let done: CompleteTask = read(args)?;
    let mut result = json!({
        "filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": done.result_summary,
    });
    if let Some(at) = done.result_ref {
        result["resultRef"] = at.into();
    }
    let members = json!({
        "taskId": done.task_id, "epoch": done.epoch, "result": result,
        "qualityMetrics": done.quality_metrics,
    });
    Invocation::protocol(Op::Complete, agent, members).about(&done.task_id)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListAgents {
    #[serde(default)]
    status: Vec<AgentStatus>,
    limit: Option<u32>,
    after: Option<String>,
}

fn list_agents(args: &Json) -> Result<Invocation, Malformed> {
    let list: ListAgents = read(args)?;
    let query = AgentQuery {
        status: list.status,
        limit: list.limit,
        after: list.after,
    };
    Ok(Invocation {
        query: query.to_query(),
        ..Invocation::of(Asks::ListAgents)
    })
}

/// At least one, and none so often that there are more than there are.
pub fn check_scopes<T>(scopes: &[T]) -> Result<(), Malformed> {
    let most = AgentScope::ALL.len();
    match (1..=most).contains(&scopes.len()) {
        true => Ok(()),
        false => {
            let message = format!("must name 1 to {most} scopes");
            Err(Malformed::field("scopes", message))
        }
    }
}

/// Who is invited, and for what; the rules say whether that may be.
pub fn invited(
    request: &InviteAgentRequest,
) -> Result<(AgentId, Vec<AgentScope>, Constraints), Malformed> {
    let agent = check::agent_id("agentId", &request.agent_id)?;
    if agent.as_str() == STEWARD {
        return Err(Malformed::field("agentId", "must be an agent's id"));
    }
    check_scopes(&request.scopes)?;
    let given = request.constraints.clone().unwrap_or_default();
    if given.origins.len() > limits::ORIGINS_MAX {
        let message = format!("must name at most {} origins", limits::ORIGINS_MAX);
        return Err(Malformed::field("constraints.origins", message));
    }
    let constraints = Constraints {
        max_sessions: given
            .max_sessions
            .map_or(limits::SESSIONS_PER_AGENT_MAX, |most| most as usize),
        origins: given.origins,
    };
    let scopes = request.scopes.iter();
    Ok((
        agent,
        scopes.map(|scope| (*scope).into()).collect(),
        constraints,
    ))
}
