//! What an agent is given on its standard input: the document's request object.

use serde::{Deserialize, Serialize};
use switchboard_core::CorrId;
use switchboard_core::job::{Job, JobAction, JobRole, JobSpec};
use switchboard_core::job_history::Interaction;
use switchboard_core::limits;

use super::metrics::cents;
use crate::number::plain;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub job_id: String,
    pub phase: String,
    /// Files that exist in the workspace.
    pub context_files: Vec<String>,
    pub system_prompt: String,
    pub task_description: String,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// In cents.
    #[serde(serialize_with = "plain")]
    pub cost_threshold: f64,
    #[serde(serialize_with = "plain")]
    pub time_threshold_minutes: f64,
    pub accepted_formats: Vec<JobAction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<CorrId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<JobRole>,
}

/// The request of a job's next run.
pub fn request(
    job: &Job,
    spec: &JobSpec,
    role: JobRole,
    system_prompt: &str,
    last: Option<&Interaction>,
    exists: impl Fn(&str) -> bool,
) -> Request {
    let phase = spec.phases.get(job.phase);
    let evidence = last
        .map(|last| last.evidence_files.as_slice())
        .unwrap_or_default();
    let files = evidence
        .iter()
        .filter(|path| exists(path))
        .take(limits::JOB_CONTEXT_FILES_MAX);
    Request {
        job_id: job.id.to_string(),
        phase: phase.map(|phase| phase.name.clone()).unwrap_or_default(),
        context_files: files.cloned().collect(),
        system_prompt: system_prompt.to_owned(),
        task_description: described(job, spec, role, last),
        metadata: Metadata {
            cost_threshold: cents(job.limits.cost_micros),
            time_threshold_minutes: job.limits.millis as f64 / 60_000.0,
            accepted_formats: JobAction::ALL.to_vec(),
            corr_id: Some(job.corr_id.clone()),
            role: Some(role),
        },
    }
}

/// What is to be done, under a heading each.
fn described(job: &Job, spec: &JobSpec, role: JobRole, last: Option<&Interaction>) -> String {
    let mut text = String::new();
    let mut section = |heading: &str, body: &str| {
        if !body.trim().is_empty() {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!("{gap}## {heading}\n{}", body.trim()));
        }
    };
    let phase = spec.phases.get(job.phase);
    section("Job", &spec.description);
    section("Objective", &spec.objective);
    section("Success criteria", &bullets(&spec.success_criteria));
    if let Some(phase) = phase {
        section(&format!("Phase {}", phase.name), &phase.description);
        if role == JobRole::Worker {
            section("Instructions", &phase.worker_instructions);
        }
    }
    if let Some(last) = last {
        section(
            &format!(
                "{} of phase {} reported {}",
                last.role, last.phase_name, last.action
            ),
            &last.summary,
        );
        section("Its evidence", &bullets(&last.evidence_files));
    }
    if role == JobRole::Supervisor {
        section("Review", REVIEW);
    }
    section(
        "Guidance of the steward",
        job.guidance.as_deref().unwrap_or_default(),
    );
    text
}

const REVIEW: &str = "Compare what was done with the phase above. COMPLETED accepts it, RETRY sends it back with \
    your summary as the reason, STUCK asks a person.";

fn bullets(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
    lines.join("\n")
}
