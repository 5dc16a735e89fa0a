//! What a worker is doing: heartbeats, read without a copy, and the progress between them.

use serde::{Deserialize, Deserializer, Serialize};
use switchboard_core::limits;

use super::{MessageType, Payload};
use crate::agentbus::check::{self, Checked};
use crate::agentbus::text::Text;
use crate::agentbus::utc::UtcTime;
use crate::agentbus::words::Stage;
use crate::number;
use crate::object::{object, optional};

/// `heartbeat.v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub state: WorkerState<'a>,
}

/// Where a worker stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerState<'a> {
    pub stage: Stage,
    /// The number of the task; 0 while idle.
    pub issue_number: u64,
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    #[serde(
        borrow,
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub progress: Option<StepProgress<'a>>,
    #[serde(
        borrow,
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub repo: Option<BranchState<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub last_error_id: Option<Text<'a>>,
    /// By the worker's clock; it orders nothing. Absent: when it is received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_at: Option<UtcTime>,
}

fn first_attempt() -> u32 {
    1
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepProgress<'a> {
    #[serde(borrow)]
    pub step: Text<'a>,
    #[serde(serialize_with = "number::plain")]
    pub percent: f64,
}

/// The worker's branch; what is left out reveals nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BranchState<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub main_ancestor_sha: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub catalog_hash_seen: Option<Text<'a>>,
}

impl Payload for Heartbeat<'_> {
    const TYPE: MessageType = MessageType::Heartbeat;

    fn check(&self) -> Checked {
        let state = &self.state;
        check::number("state.issue_number", state.issue_number)?;
        if let Some(progress) = &state.progress {
            progress.check("state.progress.step", "state.progress.percent")?;
        }
        if let Some(repo) = &state.repo {
            check::maybe_word("state.repo.branch_name", repo.branch_name.as_deref())?;
            check::maybe_word("state.repo.base_branch", repo.base_branch.as_deref())?;
            check::maybe_word(
                "state.repo.main_ancestor_sha",
                repo.main_ancestor_sha.as_deref(),
            )?;
            check::maybe_word(
                "state.repo.catalog_hash_seen",
                repo.catalog_hash_seen.as_deref(),
            )?;
        }
        check::maybe_id("state.last_error_id", state.last_error_id.as_deref())
    }
}

impl StepProgress<'_> {
    fn check(&self, step: &str, percent: &str) -> Checked {
        check::text(step, &self.step, limits::NOTE_BYTES_MAX)?;
        check::percent(percent, self.percent)
    }

    /// Rounded to a whole number, as the rules keep it.
    pub fn points(&self) -> u8 {
        self.percent.clamp(0.0, 100.0).round() as u8
    }

    /// Free of the line.
    pub fn into_owned(self) -> StepProgress<'static> {
        StepProgress {
            step: self.step.into_owned(),
            percent: self.percent,
        }
    }
}

impl Heartbeat<'_> {
    /// Free of the line.
    pub fn into_owned(self) -> Heartbeat<'static> {
        Heartbeat {
            state: self.state.into_owned(),
        }
    }
}

impl WorkerState<'_> {
    /// Free of the line.
    pub fn into_owned(self) -> WorkerState<'static> {
        WorkerState {
            stage: self.stage,
            issue_number: self.issue_number,
            attempt: self.attempt,
            progress: self.progress.map(StepProgress::into_owned),
            repo: self.repo.map(BranchState::into_owned),
            last_error_id: self.last_error_id.map(Text::into_owned),
            last_update_at: self.last_update_at,
        }
    }
}

impl BranchState<'_> {
    /// Free of the line.
    pub fn into_owned(self) -> BranchState<'static> {
        BranchState {
            branch_name: self.branch_name.map(Text::into_owned),
            base_branch: self.base_branch.map(Text::into_owned),
            main_ancestor_sha: self.main_ancestor_sha.map(Text::into_owned),
            catalog_hash_seen: self.catalog_hash_seen.map(Text::into_owned),
        }
    }
}

/// `task_progress.v1`: the same between two heartbeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskProgress {
    pub issue_number: u64,
    pub attempt: u32,
    pub stage: Stage,
    #[serde(deserialize_with = "kept_progress")]
    pub progress: StepProgress<'static>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
}

impl Payload for TaskProgress {
    const TYPE: MessageType = MessageType::TaskProgress;

    fn check(&self) -> Checked {
        check::number("issue_number", self.issue_number)?;
        self.progress.check("progress.step", "progress.percent")?;
        check::maybe_text("note", self.note.as_deref(), limits::NOTE_BYTES_MAX)?;
        check::maybe_id("corr_id", self.corr_id.as_deref())
    }
}

fn kept_progress<'de, D: Deserializer<'de>>(from: D) -> Result<StepProgress<'static>, D::Error> {
    object::<D, StepProgress<'de>>(from).map(StepProgress::into_owned)
}

/// For a message that outlives its line.
pub(super) fn maybe_kept_progress<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<StepProgress<'static>>, D::Error> {
    let found = optional::<D, StepProgress<'de>>(from)?;
    Ok(found.map(StepProgress::into_owned))
}

/// The same for the branch.
pub(super) fn maybe_kept_branch<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<BranchState<'static>>, D::Error> {
    let found = optional::<D, BranchState<'de>>(from)?;
    Ok(found.map(BranchState::into_owned))
}
