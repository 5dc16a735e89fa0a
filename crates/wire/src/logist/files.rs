//! The small files: the index of a directory of jobs, the outcome of a job's last run, and what brings older ones up to date.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::job::Job;
use switchboard_core::job_history::Interaction;

use super::schemas::{self, VERSION};
use super::{history, manifest, words};
use crate::{IsoTime, Malformed, parse};

/// `jobs_index.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
    /// The selected job.
    #[serde(default)]
    pub current_job_id: Option<String>,
    /// Where each job lies.
    #[serde(default)]
    pub jobs: BTreeMap<String, String>,
    /// Jobs in the order in which they are run.
    #[serde(default)]
    pub queue: Vec<String>,
}

impl Index {
    pub fn read(text: &[u8]) -> Result<Index, Malformed> {
        let index: Index = parse(text)?;
        if let Some(version) = &index.schema_version {
            schemas::version_of(&json!({ "schema_version": version }))?;
        }
        Ok(index)
    }
}

/// `latest-outcome.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub schema_version: String,
    pub job_id: String,
    pub sequence: u64,
    pub timestamp: IsoTime,
    pub role: String,
    pub phase: String,
    pub status: String,
    pub action: String,
    pub evidence_files: Vec<String>,
    pub summary_for_supervisor: String,
    pub new_status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub warnings: Vec<String>,
    #[serde(serialize_with = "crate::number::plain")]
    pub cost_usd: f64,
    #[serde(serialize_with = "crate::number::plain")]
    pub execution_time_seconds: f64,
}

/// What a job's last run came to.
pub fn outcome(job: &Job, last: &Interaction) -> Outcome {
    Outcome {
        schema_version: VERSION.to_owned(),
        job_id: job.id.to_string(),
        sequence: last.sequence,
        timestamp: last.at.into(),
        role: last.role.to_string(),
        phase: last.phase_name.clone(),
        status: last.status.to_string(),
        action: last.action.to_string(),
        evidence_files: last.evidence_files.clone(),
        summary_for_supervisor: last.summary.clone(),
        new_status: job.state.to_string(),
        error: last.error.clone(),
        warnings: last.warnings.clone(),
        cost_usd: super::metrics::dollars(last.cost_micros),
        execution_time_seconds: manifest::seconds(last.millis),
    }
}

/// A manifest, a history or an index of an older version, as this version writes it. What is new already stays as it is.
pub fn migrate(text: &[u8], job_id: &str) -> Result<Value, Malformed> {
    let mut file = history::parse_any(text)?;
    if file.is_array() || file.get("interactions").is_some() {
        let read = history::read(text, job_id)?;
        return Ok(serde_json::to_value(read).expect("it was read from JSON"));
    }
    schemas::version_of(&file)?;
    if let Some(status) = file["status"].as_str() {
        file["status"] = words::state("status", status)?.to_string().into();
        if file.get("metrics").is_none() {
            file["metrics"] = json!({});
        }
    } else if file.get("jobs").is_none() {
        let message = "this is neither a manifest (with status), a history (with interactions) nor an index (with jobs)";
        return Err(Malformed::whole(message));
    }
    file["schema_version"] = VERSION.into();
    Ok(file)
}
