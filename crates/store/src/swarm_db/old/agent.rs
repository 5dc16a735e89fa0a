//! An agent of an old file. None of them is there any more; names, abilities and counters stay.

use switchboard_core::{AgentId, AgentKind, Timestamp, limits};

use super::{Fields, Reason};

#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub id: String,
    pub name: String,
    pub kind: AgentKind,
    pub skills: Vec<String>,
    pub max_task_minutes: u32,
    pub can_run_tests: bool,
    pub can_run_build: bool,
    pub can_access_browser: bool,
    pub machine_id: Option<String>,
    pub machine_hostname: Option<String>,
    pub pid: Option<u32>,
    pub completed: u64,
    pub failed: u64,
    pub runtime_ms: u64,
    pub registered_at: Timestamp,
    pub seen_at: Timestamp,
}

const TASK_MINUTES: u32 = 60;
const MS_PER_MINUTE: f64 = 60_000.0;
/// A century at work; more is a mistake.
const RUNTIME_MINUTES_MAX: f64 = 52_560_000.0;

impl Agent {
    /// `now` stands in for instants that the file does not tell.
    pub fn read(fields: &Fields<'_>, now: Timestamp) -> Result<Agent, Reason> {
        let id = fields.own_id()?;
        if AgentId::from(id.as_str()).is_reserved() {
            return Err("this id is reserved".to_owned());
        }
        let registered_at = fields.instant("registered_at")?.unwrap_or(now).min(now);
        let seen_at = match fields.instant("last_heartbeat")? {
            Some(at) => Some(at),
            None => fields.instant("last_active_at")?,
        };
        let runtime = fields.real("total_runtime_minutes")?.unwrap_or(0.0);
        let name = fields.text("name", limits::NAME_BYTES_MAX)?;
        let pid = fields.count("pid")?;
        Ok(Agent {
            name: name
                .filter(|name| !name.trim().is_empty())
                .unwrap_or_else(|| id.clone()),
            kind: fields
                .word("type", |word| {
                    Some(AgentKind::parse(word).unwrap_or(AgentKind::Custom))
                })?
                .unwrap_or(AgentKind::Custom),
            skills: fields.list("skills", limits::SKILLS_MAX, limits::SKILL_BYTES_MAX)?,
            max_task_minutes: fields
                .count_to("max_task_minutes", limits::MINUTES_MAX)?
                .unwrap_or(TASK_MINUTES),
            can_run_tests: fields.yes("can_run_tests")?.unwrap_or(true),
            can_run_build: fields.yes("can_run_build")?.unwrap_or(true),
            can_access_browser: fields.yes("can_access_browser")?.unwrap_or(false),
            machine_id: fields.text("machine_id", limits::NAME_BYTES_MAX)?,
            machine_hostname: fields.text("machine_hostname", limits::NAME_BYTES_MAX)?,
            pid: pid.and_then(|pid| u32::try_from(pid).ok()),
            completed: fields
                .count_to("tasks_completed", u32::MAX)?
                .unwrap_or(0)
                .into(),
            failed: fields
                .count_to("tasks_failed", u32::MAX)?
                .unwrap_or(0)
                .into(),
            runtime_ms: milliseconds(runtime),
            seen_at: seen_at.unwrap_or(registered_at).min(now),
            id,
            registered_at,
        })
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn milliseconds(minutes: f64) -> u64 {
    (minutes.clamp(0.0, RUNTIME_MINUTES_MAX) * MS_PER_MINUTE) as u64
}
