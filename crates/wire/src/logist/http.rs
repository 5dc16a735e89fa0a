//! The messages of `/api/v1/jobs`: in the members of the document, as in a job's files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use switchboard_core::job::Job;
use switchboard_core::query::ForSteward;

use super::history::{Exchanged, Point};
use super::manifest::{Manifest, Metrics};
use super::spec::Spec;
use crate::IsoTime;
use crate::query::query;

/// `POST /jobs`. A job that is there already is changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreateJobRequest {
    pub job_spec: Spec,
    /// Its directory, as an absolute path; by default one of its name among the jobs of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// `PATCH /jobs/:id`: members of the spec that are to change, and what else a job has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeJobRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_spec: Option<Spec>,
    /// Any state; whatever is under way ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_phase: Option<String>,
    /// Its place in the queue, from 0; -1 is the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<i64>,
}

/// `POST /jobs/:id/activate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActivateJobRequest {
    /// Its place in the queue, from 0; -1 is the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<i64>,
}

/// `POST /jobs/:id/approve`, `…/cancel` and `…/suspend`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteerJobRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /jobs/:id/reject`: back to the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RejectJobRequest {
    /// What the worker is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
}

/// `POST /jobs/:id/resubmit`: it goes on, with guidance and higher limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResubmitJobRequest {
    /// What the next agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// In cents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_threshold_minutes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
}

/// `POST /jobs/:id/correct`: what the agent should have said counts, as if it had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorrectJobRequest {
    /// COMPLETED, STUCK or RETRY.
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /jobs/:id/resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResumeJobRequest {
    /// A recovery point: state, phase and files of that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// `POST /jobs/:id/rerun`: from a phase on, as if nothing had been used up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RerunJobRequest {
    /// From 0; without it the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<u32>,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobStanding {
    pub job_id: String,
    pub status: String,
    /// From 0.
    pub phase: u32,
    /// What a suspended or halted job goes on with.
    pub resume_to: Option<String>,
    pub metrics: Metrics,
    /// The lowest is first in the queue.
    pub rank: i64,
    pub directory: String,
    /// What the steward says to the next agent.
    pub guidance: Option<String>,
    /// Grows with every change.
    pub version: u64,
    pub created_at: IsoTime,
    pub updated_at: IsoTime,
}

/// A job, after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobChangedResponse {
    pub success: bool,
    pub job: JobStanding,
}

/// `GET /jobs/:id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobResponse {
    pub success: bool,
    pub job: Manifest,
}

/// `GET /jobs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPage {
    pub success: bool,
    pub jobs: Vec<JobStanding>,
    /// The job that commands mean which name none.
    pub current_job_id: Option<String>,
    pub next: Option<String>,
}

/// `GET /jobs/:id/history`: the file `jobHistory.json`, page by page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobHistoryPage {
    pub success: bool,
    pub job_id: String,
    pub created_at: IsoTime,
    pub interactions: Vec<Exchanged>,
    /// All of them, on every page.
    pub recovery_points: Vec<Point>,
    /// The `after` of the next page; `null` on the last.
    pub next: Option<u64>,
}

/// Something that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StewardItem {
    /// `job`, `task` or `incident`.
    pub kind: String,
    pub id: String,
    pub since: IsoTime,
    /// The state of the job, the title of the task, the message of the incident.
    pub what: String,
}

/// `GET /steward`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StewardResponse {
    pub success: bool,
    /// The longest first.
    pub items: Vec<StewardItem>,
}

pub fn for_steward(item: &ForSteward) -> StewardItem {
    let (kind, id, what) = match item {
        ForSteward::Job(job) => ("job", job.id.to_string(), job.state.to_string()),
        ForSteward::Task(task) => ("task", task.id.to_string(), task.about.title.clone()),
        ForSteward::Incident(incident) => ("incident", incident.id(), incident.message.clone()),
    };
    StewardItem {
        kind: kind.to_owned(),
        id,
        since: item.since().into(),
        what,
    }
}

pub fn standing(job: &Job) -> JobStanding {
    JobStanding {
        job_id: job.id.to_string(),
        status: job.state.to_string(),
        phase: u32::try_from(job.phase).unwrap_or(u32::MAX),
        resume_to: job.resume_to.map(|state| state.to_string()),
        metrics: Metrics::of(&job.sums),
        rank: job.rank,
        directory: job.directory.clone(),
        guidance: job.guidance.clone(),
        version: job.version,
        created_at: job.created_at.into(),
        updated_at: job.updated_at.into(),
    }
}

query! {
    /// `GET /jobs`.
    pub struct JobQuery {
        "status" => status: Vec<String>, "Only jobs in these states.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}

query! {
    /// `GET /steward`.
    pub struct StewardQuery {
        "limit" => limit: Option<u32>, "At most so many, up to 1000.";
    }
}

query! {
    /// `GET /jobs/:id`.
    pub struct JobVersionQuery {
        "schema_version" => schema_version: Option<String>, "`1.0` for the document's nine states; else 1.1.";
    }
}

query! {
    /// `GET /jobs/:id/history`.
    pub struct JobHistoryQuery {
        "after" => after: Option<u64>, "Only interactions with a higher sequence number.";
        "limit" => limit: Option<u32>, "Page size, at most 1000; a page ends earlier where its texts are long.";
    }
}
