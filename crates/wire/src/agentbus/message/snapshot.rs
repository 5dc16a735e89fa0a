//! The whole swarm at one moment, for operators.

use serde::{Deserialize, Serialize};
use switchboard_core::limits;

use super::heartbeat::{maybe_kept_branch, maybe_kept_progress};
use super::{BranchState, MessageType, Payload, StepProgress, WorkerState};
use crate::agentbus::check::{self, Checked};
use crate::agentbus::parts;
use crate::agentbus::text::Text;
use crate::agentbus::utc::UtcTime;
use crate::agentbus::words::{DirectorState, Stage};
use crate::number;
use crate::object::{object, optional};

/// Issue numbers of one list that a snapshot shows; the totals count all.
pub const QUEUE_SHOWN_MAX: usize = 1000;

/// `project_state_snapshot.v1`; one that fits no line is cut into parts, see [`parts`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProjectStateSnapshot {
    #[serde(default)]
    pub snapshot_id: String,
    #[serde(default = "parts::only")]
    pub part: u32,
    #[serde(default = "parts::only")]
    pub parts: u32,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub release: Option<Release>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub director: Option<DirectorStatus>,
    pub workers: Vec<WorkerEntry>,
    #[serde(deserialize_with = "object")]
    pub queue: Queue,
}

/// The release that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub release_id: String,
    pub release_branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_pr_number: Option<u64>,
}

/// The director's own state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectorStatus {
    pub state: DirectorState,
    pub since: UtcTime,
    pub paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub run_id: String,
}

/// A worker's last state, and how alive it is. Agents of other dialects are shown in the same words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerEntry {
    pub worker_id: String,
    pub connected: bool,
    /// Absent if none was ever heard.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "number::plain_opt"
    )]
    pub last_heartbeat_age_seconds: Option<f64>,
    /// The dialects it signed on in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<String>,
    /// Absent if it never said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The task it is at, as it said; 0 for none.
    pub issue_number: u64,
    pub attempt: u32,
    /// That number is none that the worker holds: `external #21`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
    /// The tasks that it holds here, whatever it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<u64>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "maybe_kept_progress"
    )]
    pub progress: Option<StepProgress<'static>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "maybe_kept_branch"
    )]
    pub repo: Option<BranchState<'static>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_at: Option<UtcTime>,
}

/// The first [`QUEUE_SHOWN_MAX`] numbers of each list in the order of claiming; the two have none in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub eligible_issue_numbers: Vec<u64>,
    pub claimed_issue_numbers: Vec<u64>,
    #[serde(default)]
    pub eligible_total: u64,
    #[serde(default)]
    pub claimed_total: u64,
}

impl ProjectStateSnapshot {
    /// In one piece, for now.
    pub fn new(snapshot_id: String, workers: Vec<WorkerEntry>, queue: Queue) -> Self {
        Self {
            snapshot_id,
            part: 1,
            parts: 1,
            release: None,
            director: None,
            workers,
            queue,
        }
    }
}

impl WorkerEntry {
    /// One that never said anything.
    pub fn unheard(worker_id: String) -> Self {
        Self {
            worker_id,
            connected: false,
            last_heartbeat_age_seconds: None,
            doors: Vec::new(),
            stage: None,
            issue_number: 0,
            attempt: 0,
            external: None,
            holds: Vec::new(),
            progress: None,
            repo: None,
            last_error_id: None,
            last_update_at: None,
        }
    }

    /// What a worker last said.
    pub fn heard(worker_id: String, state: WorkerState<'static>) -> Self {
        Self {
            stage: Some(state.stage),
            issue_number: state.issue_number,
            attempt: state.attempt,
            progress: state.progress,
            repo: state.repo,
            last_error_id: state.last_error_id.map(Text::into_string),
            last_update_at: state.last_update_at,
            ..Self::unheard(worker_id)
        }
    }
}

impl Release {
    pub(super) fn check(&self, field: &str) -> Checked {
        let place = |member: &str| format!("{field}.{member}");
        check::filled(
            &place("release_id"),
            &self.release_id,
            limits::NAME_BYTES_MAX,
        )?;
        check::word(&place("release_id"), &self.release_id)?;
        check::word(&place("release_branch"), &self.release_branch)?;
        check::number(
            &place("release_pr_number"),
            self.release_pr_number.unwrap_or(0),
        )
    }
}

impl Payload for ProjectStateSnapshot {
    const TYPE: MessageType = MessageType::ProjectStateSnapshot;

    fn check(&self) -> Checked {
        check::word("snapshot_id", &self.snapshot_id)?;
        check::part(self.part, self.parts)?;
        if let Some(release) = &self.release {
            release.check("release")?;
        }
        check::each("workers", &self.workers, usize::MAX, |place, worker| {
            check::id(&format!("{place}.worker_id"), &worker.worker_id)
        })
    }
}
