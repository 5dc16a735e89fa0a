//! What happened to a job: exchanges with agents, decisions of people, and the points to which it can go back.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::job::step::{Act, Landed, Setting};
use crate::job::{Halt, JobAction, JobRole, JobState, Tokens};
use crate::limits;
use crate::record::{Private, RecordRange};
use crate::time::Timestamp;

words! {
    /// How a run ended.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum RunStatus {
        Success = "SUCCESS",
        Error = "ERROR",
        Timeout = "TIMEOUT",
    }
}

words! {
    /// What is wrong with a response.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Violation {
        /// It is not one JSON object.
        Malformed = "malformed_json",
        Schema = "schema_violation",
        Action = "action_invalid",
        Summary = "summary_missing",
    }
}

words! {
    /// Why an agent did not reach its model.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum CallError {
        Network = "network",
        Quota = "quota",
        /// No credential, or one that does not count: that does not pass by itself.
        Credential = "credential",
    }
}

/// One run of an agent and its response, without the long texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    pub job: JobId,
    /// From 1, without a gap.
    pub sequence: u64,
    /// The coordinator that ran it, or the agent that had it from the queue.
    pub by: String,
    /// When it ended.
    pub at: Timestamp,
    pub role: JobRole,
    pub phase: usize,
    pub phase_name: String,
    /// What its role and the job's shape said of what may follow.
    pub setting: Setting,
    /// Where the job was at rest before the run.
    pub state_before: JobState,
    /// Where the action leads.
    pub new_status: JobState,
    /// Where the job was kept instead, because it reached a limit.
    pub halted: Option<Halt>,
    pub status: RunStatus,
    /// What counts: a response that is not valid is stuck.
    pub action: JobAction,
    pub evidence_files: Vec<String>,
    pub summary: String,
    pub warnings: Vec<String>,
    pub violation: Option<Violation>,
    pub call_error: Option<CallError>,
    /// Why it is not the agent's own action, in words.
    pub error: Option<String>,
    pub cost_micros: u64,
    pub cost_reported: bool,
    pub millis: u64,
    pub tokens: Tokens,
    pub model: Option<String>,
    /// The guidance that was in the request.
    pub guidance: Option<String>,
    pub run: String,
    pub prompt: Length,
    pub raw: Length,
}

/// Of a text that is kept elsewhere, or not whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
    pub truncated: bool,
}

/// The long texts of an interaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub job: JobId,
    pub sequence: u64,
    pub prompt: Packed,
    pub raw: Packed,
    /// What is under `request` beside the prompt: a JSON object.
    pub request: String,
    /// Where the agent worked.
    pub workspace: String,
}

/// A text as the hub packed it; only the hub reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed(pub String);

/// A moment to which a job can go back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPoint {
    pub job: JobId,
    /// Among those of its job; a phase that is done again has the same one.
    pub id: String,
    /// The interaction after which it was made; 0 is before the first one.
    pub sequence: u64,
    pub can_resume_from: bool,
    pub resume_phase: usize,
    pub resume_state: JobState,
    /// The files of that moment.
    pub commit: Option<String>,
    pub rollback_files: Vec<String>,
    pub description: String,
    /// Free members: a JSON object.
    pub metadata: Option<String>,
    pub at: Timestamp,
}

/// What an agent answered, as it was judged from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub answer: Answer,
    /// As far as they could be read.
    pub evidence_files: Vec<String>,
    pub summary: String,
    pub warnings: Vec<String>,
    /// As it was reported, if it was.
    pub cost_micros: Option<u64>,
    pub tokens: Tokens,
    pub model: Option<String>,
    pub millis: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Said(JobAction),
    Invalid {
        violation: Violation,
        why: String,
    },
    CallFailed {
        error: CallError,
        why: String,
    },
    /// It took too long, or said nothing for too long.
    TimedOut {
        why: String,
    },
    /// It could not be run, or ended without an answer.
    Broken {
        why: String,
    },
    /// Whoever had it from the queue gave it up; it is tried again there.
    GaveUp {
        why: String,
    },
}

impl Judged {
    /// Of somebody who said nothing more.
    pub fn plain(answer: Answer) -> Judged {
        Judged {
            answer,
            evidence_files: Vec::new(),
            summary: String::new(),
            warnings: Vec::new(),
            cost_micros: None,
            tokens: Tokens::default(),
            model: None,
            millis: 0,
        }
    }
}

/// The texts of an interaction, as the hub brings them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewExchange {
    pub prompt: Packed,
    pub raw: Packed,
    pub prompt_length: Length,
    pub raw_length: Length,
    pub request: String,
    pub workspace: String,
}

/// The first wait after an error of the call; each further one is twice as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallWaits {
    pub network: Duration,
    pub quota: Duration,
}

impl Default for CallWaits {
    fn default() -> Self {
        CallWaits {
            network: limits::JOB_NETWORK_WAIT,
            quota: limits::JOB_QUOTA_WAIT,
        }
    }
}

/// What the hub keeps of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub commit: Option<String>,
    pub files: Vec<String>,
}

/// What happened to a job beside its interactions: decisions, edits by hand, recoveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    pub job: JobId,
    /// From 1.
    pub number: u64,
    /// The interaction after which it happened.
    pub after: u64,
    pub at: Timestamp,
    pub role: JobRole,
    /// In one word: `approved`, `edited by hand`, `recovered`…
    pub action: String,
    pub state_before: JobState,
    pub new_status: JobState,
    /// Who did it.
    pub by: String,
    pub why: Option<String>,
}

fn numbered(job: &JobId, number: u64) -> Cow<'static, str> {
    format!("{job}/{number}").into()
}

fn place(number: u64) -> Option<i64> {
    i64::try_from(number).ok()
}

impl Private for Interaction {
    fn key(&self) -> Cow<'static, str> {
        numbered(&self.job, self.sequence)
    }

    fn owner(&self) -> &str {
        self.job.as_str()
    }

    fn position(&self) -> Option<i64> {
        place(self.sequence)
    }
}

impl Private for Exchange {
    fn key(&self) -> Cow<'static, str> {
        numbered(&self.job, self.sequence)
    }
}

impl Private for RecoveryPoint {
    fn key(&self) -> Cow<'static, str> {
        RecoveryPoint::key_of(&self.job, &self.id).into()
    }

    fn owner(&self) -> &str {
        self.job.as_str()
    }

    fn position(&self) -> Option<i64> {
        place(self.sequence)
    }
}

impl Private for JobEntry {
    fn key(&self) -> Cow<'static, str> {
        numbered(&self.job, self.number)
    }

    fn owner(&self) -> &str {
        self.job.as_str()
    }

    fn position(&self) -> Option<i64> {
        place(self.number)
    }
}

impl Interaction {
    /// Where it leads, worked out anew from what it says of itself.
    pub fn replayed(&self) -> Option<Landed> {
        // What the agent did not say itself, but a failure of the call made of it, leaves the job where it was.
        let act = match (self.status, self.action) {
            (RunStatus::Error, JobAction::Retry) => Act::CallAgain,
            (_, action) => action.into(),
        };
        self.setting.replayed(self.state_before, self.role, act)
    }

    /// The key of one, and of its exchange.
    pub fn key_of(job: &JobId, sequence: u64) -> String {
        numbered(job, sequence).into_owned()
    }

    /// The first ones of a job.
    pub fn of_job(job: &JobId, limit: usize) -> RecordRange {
        RecordRange::of::<Interaction>(job.to_string(), limit)
    }
}

impl RecoveryPoint {
    pub fn key_of(job: &JobId, id: &str) -> String {
        format!("{job}/{id}")
    }

    /// The one with which a phase begins.
    pub fn id_before(phase: usize) -> String {
        match phase {
            0 => "start".to_owned(),
            done => format!("phase-{done}-complete"),
        }
    }

    pub fn of_job(job: &JobId, limit: usize) -> RecordRange {
        RecordRange::of::<RecoveryPoint>(job.to_string(), limit)
    }
}

impl JobEntry {
    pub fn of_job(job: &JobId, limit: usize) -> RecordRange {
        RecordRange::of::<JobEntry>(job.to_string(), limit)
    }
}
