//! An agent is about to work on a job: its run is on record before its program begins.

use super::turn::{Turn, ask};
use super::{Verb, no};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::job::step::{Act, Next};
use crate::job::{Halt, Job, JobRole, JobRun};
use crate::job_history::{Checkpoint, RecoveryPoint};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginJobRun {
    pub job: JobId,
    pub run: String,
    /// The coordinator that runs it.
    pub by: String,
    /// The workspace before the first run.
    pub checkpoint: Option<Checkpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    pub job: Job,
    /// Nothing began: this limit is reached.
    pub halted: Option<Halt>,
}

impl Verb for BeginJobRun {
    type Reply = Begun;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Begun, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let next = turn.next(JobRole::System, Act::Begin)?;
        if let Some(task) = &turn.job.task {
            let why = JobRefusal::IsQueued(task.id.clone());
            return Err(no(&self.job, why));
        }
        if let Some(halt) = turn.halt() {
            let (job, changes) = turn.end(&self.by, "a limit is reached");
            return Ok((
                Begun {
                    job,
                    halted: Some(halt),
                },
                changes,
            ));
        }
        let role = turn.job.next_role().unwrap_or(JobRole::Worker);
        turn.job.run = Some(JobRun {
            id: self.run.clone(),
            role,
            from: turn.job.state,
            by: self.by.clone(),
            group: None,
            started: None,
            began_at: now,
        });
        if let Next::To(state) = next {
            turn.job.state = state;
        }
        if let Some(point) = self.checkpoint.as_ref().filter(|_| turn.job.runs == 0) {
            turn.changes.put(start(&turn.job, point, now));
        }
        turn.job.runs += 1;
        turn.job.restore = None;
        turn.job.look_at = None;
        turn.changes.event(Event::JobRunBegan {
            job: self.job.clone(),
            run: self.run.clone(),
            role,
            phase: turn.job.phase,
        });
        let (job, changes) = turn.end(&self.by, "a run began");
        Ok((Begun { job, halted: None }, changes))
    }
}

fn start(job: &Job, point: &Checkpoint, now: Timestamp) -> RecoveryPoint {
    RecoveryPoint {
        job: job.id.clone(),
        id: RecoveryPoint::id_before(0),
        sequence: 0,
        can_resume_from: true,
        resume_phase: 0,
        resume_state: crate::JobState::Pending,
        commit: point.commit.clone(),
        rollback_files: point.files.clone(),
        description: "Before the first run".to_owned(),
        metadata: None,
        at: now,
    }
}
