//! A job's manifest: what it is, where it stands and what happened to it. Files and HTTP have the same one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_core::job::{Job, JobSpec, JobState, JobSums};
use switchboard_core::job_history::{Interaction, JobEntry};

use super::metrics::{cents, dollars};
use super::schemas::{PREVIOUS, VERSION};
use super::spec::{self, Spec};
use super::words;
use crate::number::{plain, plain_opt};
use crate::{IsoTime, Malformed, parse};

/// `job_manifest.json`, and a job over HTTP. What is read may lack anything but the document's three members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobManifest")]
pub struct Manifest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
    pub job_id: String,
    pub status: String,
    /// The state itself, where `status` is the nearest word that version 1.0 has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_detail: Option<String>,
    #[serde(default)]
    pub current_phase: Option<String>,
    pub metrics: Metrics,
    /// What a suspended or halted job goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_to: Option<String>,
    /// What the steward says to the next agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// The task that is its phase in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<IsoTime>,
    /// Every run of an agent and every decision, in order.
    #[serde(default)]
    pub history: Vec<Event>,
    #[serde(flatten)]
    pub spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobMetrics")]
pub struct Metrics {
    /// In cents.
    #[serde(default, serialize_with = "plain")]
    pub cumulative_cost: f64,
    #[serde(default, serialize_with = "plain")]
    pub cumulative_time_seconds: f64,
    /// Runs that count against `max_iterations`.
    #[serde(default)]
    pub iterations: u32,
    #[serde(default)]
    pub token_input: u64,
    #[serde(default)]
    pub token_output: u64,
    #[serde(default)]
    pub token_cache_read: u64,
    /// Runs that did not say what they cost.
    #[serde(default)]
    pub cost_unreported: u32,
}

impl Metrics {
    pub(super) fn of(sums: &JobSums) -> Metrics {
        Metrics {
            cumulative_cost: cents(sums.cost_micros),
            cumulative_time_seconds: seconds(sums.millis),
            iterations: sums.iterations,
            token_input: sums.tokens.input,
            token_output: sums.tokens.output,
            token_cache_read: sums.tokens.cache_read,
            cost_unreported: sums.unreported,
        }
    }
}

/// One line of the manifest's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobEvent")]
pub struct Event {
    pub timestamp: IsoTime,
    pub role: String,
    pub action: String,
    #[serde(default)]
    pub evidence_files: Vec<String>,
    /// Of an interaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_status: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "plain_opt"
    )]
    pub cost_usd: Option<f64>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A job with all that happened to it.
pub fn manifest(
    job: &Job,
    spec: &JobSpec,
    interactions: &[Interaction],
    entries: &[JobEntry],
) -> Manifest {
    let in_phase = spec
        .phases
        .get(job.phase)
        .filter(|_| job.state != JobState::Success);
    Manifest {
        schema_version: Some(VERSION.to_owned()),
        job_id: job.id.to_string(),
        status: job.state.to_string(),
        status_detail: None,
        current_phase: in_phase.map(|phase| phase.name.clone()),
        metrics: Metrics::of(&job.sums),
        resume_to: job.resume_to.map(|state| state.to_string()),
        guidance: job.guidance.clone(),
        task_id: job.task.as_ref().map(|task| task.id.to_string()),
        directory: Some(job.directory.clone()),
        corr_id: Some(job.corr_id.to_string()),
        created_at: Some(job.created_at.into()),
        updated_at: Some(job.updated_at.into()),
        ended_at: job.ended_at.map(Into::into),
        history: events(interactions, entries),
        spec: Spec::of(spec, &job.limits),
    }
}

/// As version 1.0 has it: its nine words and none of the members that say more of a state.
pub fn strict(manifest: Manifest) -> Manifest {
    let state = JobState::parse(&manifest.status);
    let nearest = state.map(words::strict);
    let is_other = nearest != state;
    let word = |state: JobState| state.to_string();
    Manifest {
        schema_version: Some(PREVIOUS.to_owned()),
        status_detail: is_other.then(|| manifest.status.clone()),
        status: nearest.map_or(manifest.status, word),
        ..manifest
    }
}

/// A manifest as somebody wrote it, of this version or the one before; older states by their names of today.
pub fn read(text: &[u8]) -> Result<Manifest, Malformed> {
    let file: Value = parse(text)?;
    super::schemas::version_of(&file)?;
    let mut manifest: Manifest = spec::from_file(file)?;
    let told = manifest.status_detail.as_ref().unwrap_or(&manifest.status);
    manifest.status = words::state("status", told)?.to_string();
    manifest.status_detail = None;
    Ok(manifest)
}

/// Runs and decisions in the order in which they happened.
fn events(interactions: &[Interaction], entries: &[JobEntry]) -> Vec<Event> {
    let mut entries = entries.iter().peekable();
    let mut events = Vec::with_capacity(interactions.len());
    for interaction in interactions {
        while let Some(entry) = entries.next_if(|entry| entry.after < interaction.sequence) {
            events.push(decided(entry));
        }
        events.push(Event {
            timestamp: interaction.at.into(),
            role: interaction.role.to_string(),
            action: interaction.action.to_string(),
            evidence_files: interaction.evidence_files.clone(),
            sequence: Some(interaction.sequence),
            phase: Some(interaction.phase_name.clone()),
            summary: Some(interaction.summary.clone()),
            new_status: Some(interaction.new_status.to_string()),
            cost_usd: Some(dollars(interaction.cost_micros)),
            by: None,
            why: interaction.error.clone(),
        });
    }
    events.extend(entries.map(decided));
    events
}

fn decided(entry: &JobEntry) -> Event {
    Event {
        timestamp: entry.at.into(),
        role: entry.role.to_string(),
        action: entry.action.clone(),
        evidence_files: Vec::new(),
        sequence: None,
        phase: None,
        summary: None,
        new_status: Some(entry.new_status.to_string()),
        cost_usd: None,
        by: Some(entry.by.clone()),
        why: entry.why.clone(),
    }
}

pub(super) fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}
