//! A task of an old file.

use switchboard_core::{FailureKind, Priority, TaskKind, TaskStatus, Timestamp, limits};

use super::{Fields, Reason};

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub description: Option<String>,
    pub status: TaskStatus,
    pub priority: Priority,
    pub kind: TaskKind,
    pub assigned_agent: Option<String>,
    pub dependencies: Vec<String>,
    pub required_skills: Vec<String>,
    pub files: Vec<String>,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub estimated_minutes: Option<u32>,
    pub actual_minutes: Option<u32>,
    pub retries: u32,
    pub max_retries: u32,
    pub last_error: Option<String>,
    pub failure: Option<FailureKind>,
    pub next_retry_at: Option<Timestamp>,
    pub previous_agents: Vec<String>,
    pub result: Option<String>,
    pub branch: Option<String>,
    pub snapshot: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const RETRIES: u32 = 2;
/// Who did it if the file does not tell.
const NOBODY: &str = "unknown";

impl Task {
    /// `now` stands in for instants that the file does not tell.
    pub fn read(fields: &Fields<'_>, now: Timestamp) -> Result<Task, Reason> {
        let id = fields.own_id()?;
        let status = fields.word("status", status)?.unwrap_or(TaskStatus::Ready);
        let created_at = fields.instant("created_at")?.unwrap_or(now).min(now);
        let updated_at = fields.instant("updated_at")?.unwrap_or(created_at);
        let title = fields.text("title", limits::TITLE_BYTES_MAX)?;
        let assigned_agent = if keeps_agent(status) {
            let agent = fields.id("assigned_agent")?;
            Some(agent.unwrap_or_else(|| NOBODY.to_owned()))
        } else {
            None
        };
        let minutes = |name| fields.count_to(name, limits::MINUTES_MAX);
        Ok(Task {
            title: title
                .filter(|title| !title.trim().is_empty())
                .unwrap_or_else(|| id.clone()),
            description: fields.text("description", limits::DESCRIPTION_BYTES_MAX)?,
            priority: fields
                .word("priority", Priority::parse)?
                .unwrap_or(Priority::Medium),
            // Tools have types of their own; a task is not lost over one.
            kind: fields
                .word("type", |word| {
                    Some(TaskKind::parse(word).unwrap_or(TaskKind::Custom))
                })?
                .unwrap_or(TaskKind::Code),
            assigned_agent,
            dependencies: fields.ids("dependencies", limits::DEPENDENCIES_MAX)?,
            required_skills: fields.list(
                "required_skills",
                limits::SKILLS_MAX,
                limits::SKILL_BYTES_MAX,
            )?,
            files: fields.list("files", limits::FILES_MAX, limits::PATH_BYTES_MAX)?,
            started_at: fields.instant("started_at")?,
            completed_at: fields.instant("completed_at")?,
            estimated_minutes: minutes("estimated_minutes")?,
            actual_minutes: minutes("actual_minutes")?,
            retries: fields
                .count_to("retry_count", limits::RETRIES_MAX)?
                .unwrap_or(0),
            max_retries: fields
                .count_to("max_retries", limits::RETRIES_MAX)?
                .unwrap_or(RETRIES),
            last_error: fields.start("last_error", limits::NOTE_BYTES_MAX)?,
            failure: fields.word("failure_type", |word| {
                Some(FailureKind::parse(word).unwrap_or(FailureKind::TaskError))
            })?,
            next_retry_at: fields.instant("next_retry_at")?,
            previous_agents: fields.ids("previous_agents", limits::FILES_MAX)?,
            result: fields.json("result", limits::PAYLOAD_BYTES_MAX)?,
            branch: fields.text("branch", limits::PATH_BYTES_MAX)?,
            snapshot: fields.id("quality_snapshot_id")?,
            id,
            status,
            created_at,
            updated_at: updated_at.min(now),
        })
    }
}

/// The hub's word for a word of an old file. Whoever held a task is not there any more, so it waits again.
fn status(word: &str) -> Option<TaskStatus> {
    match word {
        "pending" | "claimed" | "in_progress" => Some(TaskStatus::Ready),
        "cancelled" => Some(TaskStatus::Canceled),
        word => TaskStatus::parse(word),
    }
}

fn keeps_agent(status: TaskStatus) -> bool {
    match status {
        TaskStatus::Completed | TaskStatus::NeedsPerson => true,
        TaskStatus::Waiting
        | TaskStatus::Ready
        | TaskStatus::Claimed
        | TaskStatus::InProgress
        | TaskStatus::RetryWait
        | TaskStatus::Failed
        | TaskStatus::Canceled => false,
    }
}
