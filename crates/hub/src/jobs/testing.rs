//! Jobs for tests.

use switchboard_core::job::{Job, JobLimits, JobState, JobSums};
use switchboard_core::time::Timestamp;

pub fn job(id: &str) -> Job {
    Job {
        id: id.into(),
        state: JobState::Draft,
        phase: 0,
        resume_to: None,
        suspended_in: None,
        limits: JobLimits::default(),
        sums: JobSums::default(),
        warned: Vec::new(),
        last_sequence: 0,
        last_entry: 0,
        runs: 0,
        rank: 0,
        directory: format!("/jobs/{id}"),
        guidance: None,
        run: None,
        worker: None,
        task: None,
        call_tries: 0,
        look_at: None,
        restore: None,
        corr_id: "corr".into(),
        version: 1,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        ended_at: None,
    }
}
