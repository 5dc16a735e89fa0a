//! Jobs for the tables of their steps.

use super::CreateJob;
use crate::job::{JobLimits, JobPhase, JobSpec, RunBy};

/// Two phases, a worker and a supervisor, and a person who approves.
pub(super) fn spec(id: &str) -> JobSpec {
    let phase = |name: &str| JobPhase {
        name: name.to_owned(),
        description: format!("what {name} is"),
        worker_instructions: format!("do {name}"),
    };
    JobSpec {
        id: id.into(),
        description: format!("about {id}"),
        objective: "done".to_owned(),
        roles: Vec::new(),
        phases: vec![phase("build"), phase("polish")],
        success_criteria: Vec::new(),
        max_retries: 2,
        reset_on_retry: false,
        run_by: RunBy::Agents,
        needs_approval: true,
        is_sensitive: false,
        repository: None,
        other: None,
    }
}

pub(super) fn create(id: &str) -> CreateJob {
    CreateJob {
        spec: spec(id),
        limits: JobLimits::default(),
        directory: format!("/jobs/{id}"),
        corr_id: "corr".into(),
    }
}
