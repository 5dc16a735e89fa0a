//! Tasks: how one is made, shown, listed, changed and steered by a person.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use switchboard_core::limits;

use super::{
    AttemptOutcome, Evidence, FailureType, ListOrder, OnDependencyFailure, Priority, TaskPhase,
    TaskStatus, TaskType, Verdict, WhyReason,
};
use crate::object::Object;
use crate::query::query;
use crate::{IsoTime, Json, Malformed, parse};

/// A task as the hub shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub number: u64,
    pub title: String,
    pub description: Option<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    #[serde(rename = "type")]
    pub kind: TaskType,
    pub assigned_agent: Option<String>,
    pub claimed_at: Option<IsoTime>,
    pub dependencies: Vec<String>,
    /// The dependencies that are not completed.
    pub blockers: Vec<String>,
    pub required_skills: Vec<String>,
    pub files: Vec<String>,
    pub started_at: Option<IsoTime>,
    pub completed_at: Option<IsoTime>,
    pub estimated_minutes: Option<u32>,
    pub actual_minutes: Option<u32>,
    pub retry_count: u32,
    pub max_retries: u32,
    pub last_error: Option<String>,
    pub failure_type: Option<FailureType>,
    pub next_retry_at: Option<IsoTime>,
    pub previous_agents: Vec<String>,
    pub result: Option<Json>,
    pub branch: Option<String>,
    pub quality_snapshot_id: Option<String>,
    pub created_at: IsoTime,
    pub updated_at: IsoTime,
    /// Grows with every claim; reports under an older epoch are refused.
    pub epoch: u64,
    pub corr_id: String,
    /// Who may claim it; empty means anyone.
    pub audience: Vec<String>,
    pub on_dependency_failure: OnDependencyFailure,
    pub progress: Option<Progress>,
    /// What the evidence comes to of who said that it is done; in lists and in the details of a finished task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// The progress of a task, in PROGRESS requests and in the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub phase: TaskPhase,
    /// 0 to 100.
    #[serde(serialize_with = "crate::number::plain")]
    pub percent_complete: f64,
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
}

/// A task to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTask {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TaskType>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_skills: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_minutes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dependency_failure: Option<OnDependencyFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

/// `POST /tasks`: one task, or several that are created all or none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = tell_apart)]
pub enum CreateTasksRequest {
    #[serde(rename_all = "camelCase")]
    Many {
        tasks: Vec<NewTask>,
        /// Tasks whose ids exist already are left alone, instead of being a reason to refuse.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skip_existing: bool,
    },
    One(Box<NewTask>),
}

/// What has `tasks` is several, whatever else it has.
fn tell_apart(schema: &mut Schema) {
    schema.insert(
        "anyOf".to_owned(),
        json!([
            { "properties": { "tasks": {
                "type": "array", "minItems": 1, "maxItems": limits::TASKS_PER_CREATE_MAX,
                "items": { "$ref": "#/components/schemas/NewTask" },
            }, "skipExisting": {
                "type": "boolean", "default": false,
                "description": "Leaves tasks alone whose ids exist already; the response has only the new ones.",
            } }, "required": ["tasks"] },
            { "$ref": "#/components/schemas/NewTask", "properties": { "tasks": { "type": "null" } } },
        ]),
    );
}

impl CreateTasksRequest {
    /// Reads either form; a member `tasks` makes it the second.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        #[derive(Deserialize)]
        struct Probe<'a> {
            #[serde(borrow, default)]
            tasks: Option<&'a serde_json::value::RawValue>,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Many {
            tasks: Vec<Object<NewTask>>,
            #[serde(default)]
            skip_existing: bool,
        }

        match parse::<Probe<'_>>(bytes)?.tasks {
            Some(_) => parse(bytes).map(|many: Many| Self::Many {
                tasks: many.tasks.into_iter().map(|Object(task)| task).collect(),
                skip_existing: many.skip_existing,
            }),
            None => parse(bytes).map(|task| Self::One(Box::new(task))),
        }
    }
}

/// `PATCH /tasks/:id`: absent members stay unchanged, `null` clears optional ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchTaskRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    pub description: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TaskType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_skills: Option<Vec<String>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    pub estimated_minutes: Option<Option<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "given"
    )]
    pub branch: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<Vec<String>>,
}

/// Keeps "absent" and `null` apart.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// `POST /tasks/:id/release`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseTaskRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /tasks/:id/cancel`, `/retry`, `/approve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerTaskRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /tasks/:id/reject`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RejectTaskRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True (the default): ready again; false: failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
}

/// A task, after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResponse {
    pub success: bool,
    pub task: Task,
}

/// The created tasks, in the order of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TasksResponse {
    pub success: bool,
    pub tasks: Vec<Task>,
}

/// `GET /tasks`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPage {
    pub success: bool,
    pub tasks: Vec<Task>,
    pub next: Option<String>,
}

/// `GET /tasks/:id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDetails {
    pub success: bool,
    pub task: Task,
    /// One per claim, oldest first.
    pub attempts: Vec<Attempt>,
    /// The tasks that wait for this one.
    pub dependants: Vec<String>,
}

/// One claim of a task and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub epoch: u64,
    pub agent_id: String,
    pub claimed_at: IsoTime,
    pub ended_at: Option<IsoTime>,
    pub progress: Option<Progress>,
    pub files: Vec<String>,
    /// `null` while it runs.
    pub outcome: Option<AttemptOutcome>,
    pub failure_type: Option<FailureType>,
    pub message: Option<String>,
    pub details: Option<String>,
    pub suggested_action: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What the evidence comes to; of completed attempts only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// `GET /tasks/:id/why`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyResponse {
    pub success: bool,
    pub claimable: bool,
    pub reasons: Vec<Why>,
    /// The agents that can claim it, if none was named in the request; at most 20.
    #[serde(default)]
    pub able: Vec<AbleAgent>,
    /// Agents that cannot either and are not named.
    #[serde(default)]
    pub unnamed: u64,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub reason: WhyReason,
    pub detail: Option<String>,
    /// The agent that it keeps from the task; `null` means all.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The reason as a sentence.
    #[serde(default)]
    pub message: String,
}

/// An agent that can claim a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AbleAgent {
    pub agent_id: String,
    /// The task that it holds.
    pub busy_with: Option<String>,
}

query! {
    /// `GET /tasks`.
    pub struct TaskQuery {
        "status" => status: Vec<TaskStatus>, "Only tasks in one of these states.";
        "priority" => priority: Vec<Priority>, "Only tasks of one of these priorities.";
        "type" => kind: Vec<TaskType>, "Only tasks of one of these types.";
        "assignedAgent" => assigned_agent: Option<String>, "Only tasks held by this agent.";
        "skill" => skill: Option<String>, "Only tasks that require this skill.";
        "branch" => branch: Option<String>, "Only tasks on this branch.";
        "order" => order: Option<ListOrder>, "Newest or oldest first.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

query! {
    /// `GET /tasks/:id/why`.
    pub struct WhyQuery {
        "agentId" => agent_id: Option<String>, "The agent to check; without it, all of them.";
    }
}
