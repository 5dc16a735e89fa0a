//! Agents: registration, heartbeats, commands, and how an agent is shown.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{AgentStatus, AgentType, CommandType, HeartbeatStatus, Lease, Task, TaskPhase};
use crate::object::{object, optional};
use crate::query::query;
use crate::{IsoTime, number};

/// REGISTER.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterRequest {
    #[serde(deserialize_with = "object")]
    pub agent: NewAgent,
    /// The agent was restarted and keeps its tasks and leases, under new epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
}

/// An agent to register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NewAgent {
    pub id: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: AgentType,
    #[serde(deserialize_with = "object")]
    pub capabilities: Capabilities,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub machine: Option<Machine>,
}

/// What an agent can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    pub skills: Vec<String>,
    pub max_task_minutes: u32,
    pub can_run_tests: bool,
    pub can_run_build: bool,
    pub can_access_browser: bool,
}

/// The process of an agent; the same machine and pid mean the same process registering again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    pub id: String,
    pub hostname: String,
    pub pid: u32,
}

/// The response to REGISTER.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisterResponse {
    pub success: bool,
    pub registered_at: IsoTime,
    pub agent_id: String,
    /// It registered again and keeps its tasks and leases.
    pub resumed: bool,
    /// After `resume`: the tasks it holds, each with its new epoch, which reports must carry from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<ResumedTask>,
}

/// A task that a restarted agent continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumedTask {
    pub task_id: String,
    pub epoch: u64,
}

/// HEARTBEAT. Over HTTP the path names the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub status: HeartbeatStatus,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub current_task: Option<HeartbeatTask>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub metrics: Option<Metrics>,
}

/// The task that the agent reports to work on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatTask {
    pub id: String,
    /// 0 to 100.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "number::plain_opt"
    )]
    pub progress: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TaskPhase>,
}

/// What an agent measures about itself; the last value is kept and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    #[serde(rename = "memoryUsedMB", serialize_with = "number::plain")]
    pub memory_used_mb: f64,
    pub tasks_completed_session: u64,
}

/// The response to HEARTBEAT; commands are repeated until they are obeyed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatResponse {
    pub success: bool,
    pub timestamp: IsoTime,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
}

/// A command of the hub for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: CommandType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /agents/:id/commands`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = task_to_release)]
pub struct CommandRequest {
    #[serde(rename = "type")]
    pub kind: CommandType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is to be released has to be named.
fn task_to_release(schema: &mut Schema) {
    let release = CommandType::ReleaseTask.as_str();
    let others = json!({ "properties": { "type": { "not": { "const": release } } } });
    let named = json!({ "properties": { "taskId": { "type": "string" } }, "required": ["taskId"] });
    schema.insert("anyOf".to_owned(), json!([others, named]));
}

/// The command that was queued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandResponse {
    pub success: bool,
    pub command: Command,
}

/// An agent as the hub shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    pub id: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: AgentType,
    pub status: AgentStatus,
    pub capabilities: Capabilities,
    pub machine: Option<Machine>,
    pub current_task: Option<CurrentTask>,
    pub metrics: Option<Metrics>,
    pub heartbeat_count: u64,
    pub tasks_completed: u64,
    pub tasks_failed: u64,
    pub total_runtime_minutes: u64,
    pub registered_at: IsoTime,
    pub last_heartbeat: Option<IsoTime>,
    pub last_active_at: Option<IsoTime>,
}

/// The task an agent works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentTask {
    pub id: String,
    pub started_at: Option<IsoTime>,
    pub progress: Option<u8>,
    pub phase: Option<TaskPhase>,
}

/// `GET /agents/:id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentResponse {
    pub success: bool,
    pub agent: Agent,
    /// Tasks that it holds.
    pub tasks: Vec<Task>,
    pub leases: Vec<Lease>,
    /// Commands that it has not obeyed yet.
    pub commands: Vec<Command>,
}

/// `GET /agents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentPage {
    pub success: bool,
    pub agents: Vec<Agent>,
    pub next: Option<String>,
}

query! {
    /// `GET /agents`.
    pub struct AgentQuery {
        "status" => status: Vec<AgentStatus>, "Only agents in one of these states.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}
