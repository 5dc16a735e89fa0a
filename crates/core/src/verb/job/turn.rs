//! A job while a verb decides on it.

use super::{Verb as _, no};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::job::step::{Act, Next, Setting};
use crate::job::{Halt, Job, JobRole, JobRun, JobSpec, JobState};
use crate::job_history::{Checkpoint, JobEntry, RecoveryPoint};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::verb::Cancel;
use crate::want::Want;

/// Who does something to a job, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobActor {
    pub role: JobRole,
    /// The person, the agent or the coordinator.
    pub by: String,
    pub why: Option<String>,
}

pub(super) struct Turn<'a> {
    slice: &'a Slice,
    pub job: Job,
    pub was: (JobState, usize),
    /// The task of its phase is no longer wanted.
    drops_task: bool,
    pub changes: Changes,
    pub now: Timestamp,
}

/// What moves a job on.
pub(super) struct Deed<'a> {
    pub role: JobRole,
    pub act: Act,
    pub summary: &'a str,
    pub evidence: usize,
    pub checkpoint: Option<&'a Checkpoint>,
}

/// What every decision on a job must see.
pub(super) fn ask(want: &mut Want<'_>, id: &JobId) -> Option<Job> {
    let job = want.private::<Job>(id.to_string())?;
    if let Some(task) = &job.task {
        cancel(job, &task.id).asks(want, Timestamp::ZERO);
    }
    Some(job.clone())
}

/// The same, with the shape of the job and the point that the end of its phase makes.
pub(super) fn ask_with_spec(want: &mut Want<'_>, id: &JobId) -> Option<Job> {
    want.private::<JobSpec>(id.to_string());
    let job = ask(want, id)?;
    let point = RecoveryPoint::id_before(job.phase + 1);
    want.private::<RecoveryPoint>(RecoveryPoint::key_of(id, &point));
    Some(job)
}

fn cancel(job: &Job, task: &crate::id::TaskId) -> Cancel {
    Cancel {
        task: task.clone(),
        reason: format!("job {} no longer needs it", job.id),
    }
}

impl<'a> Turn<'a> {
    pub fn of(slice: &'a Slice, id: &JobId, now: Timestamp) -> Result<Turn<'a>, Refusal> {
        let job = Want::new(slice).private::<Job>(id.to_string()).cloned();
        let job = job.ok_or_else(|| no(id, JobRefusal::NotFound))?;
        Ok(Turn {
            slice,
            was: (job.state, job.phase),
            job,
            drops_task: false,
            changes: Changes::default(),
            now,
        })
    }

    pub fn spec(&self) -> &'a JobSpec {
        let spec = Want::new(self.slice).private::<JobSpec>(self.job.id.to_string());
        spec.expect("every job has a spec, and it was asked for")
    }

    pub fn next(&self, role: JobRole, act: Act) -> Result<Next, Refusal> {
        self.job.state.step(&self.job.id, role, act)
    }

    /// The run that is under way, if it is this one.
    pub fn run(&self, run: &str) -> Result<JobRun, Refusal> {
        let current = self.job.run.clone().filter(|current| current.id == run);
        current.ok_or_else(|| {
            let run = run.to_owned();
            no(&self.job.id, JobRefusal::NotThisRun { run })
        })
    }

    /// Nobody works on it any more: a program is ended by whoever runs it, a task is canceled.
    pub fn interrupt(&mut self) {
        self.job.run = None;
        self.drops_task = true;
        self.begin_anew();
    }

    /// Whether nothing was decided.
    pub fn is_unchanged(&self) -> bool {
        let known = Want::new(self.slice).private::<Job>(self.job.id.to_string());
        known == Some(&self.job) && self.changes.is_empty()
    }

    /// Another step than the one that was tried again.
    pub fn begin_anew(&mut self) {
        self.job.call_tries = 0;
        self.job.look_at = None;
    }

    /// Moves the job by what an agent did, and keeps it if it has reached a limit.
    pub fn land(&mut self, deed: &Deed<'_>) -> Result<(JobState, Option<Halt>), Refusal> {
        let setting = Setting::of(self.spec(), self.job.phase);
        let refused = || {
            let (state, act) = (self.job.state, deed.act);
            no(&self.job.id, JobRefusal::State { state, act })
        };
        let landed = setting.lands(self.job.state, deed.role, deed.act);
        let landed = landed.ok_or_else(refused)?;
        self.job.state = landed.state;
        if landed.is_phase_done {
            if !setting.is_last_phase {
                self.job.phase += 1;
            }
            self.keep_point(deed, landed.state);
        }
        let halt = self.halt();
        Ok((landed.state, halt))
    }

    /// Keeps the job where it is if a limit is reached: only the last step is not held up.
    pub fn halt(&mut self) -> Option<Halt> {
        let halt = self.job.sums.reached(&self.job.limits)?;
        self.job.state.next(JobRole::System, Act::Halt)?;
        self.job.resume_to = Some(self.job.state);
        self.job.state = halt.state();
        self.interrupt();
        Some(halt)
    }

    fn keep_point(&mut self, deed: &Deed<'_>, state: JobState) {
        let done = self.was.1 + 1;
        self.changes.put(RecoveryPoint {
            job: self.job.id.clone(),
            id: RecoveryPoint::id_before(done),
            sequence: self.job.last_sequence,
            can_resume_from: !state.is_terminal(),
            resume_phase: self.job.phase,
            resume_state: state,
            commit: deed.checkpoint.and_then(|point| point.commit.clone()),
            rollback_files: deed
                .checkpoint
                .map_or(Vec::new(), |point| point.files.clone()),
            description: deed.summary.to_owned(),
            metadata: Some(format!("{{\"evidence_count\":{}}}", deed.evidence)),
            at: self.now,
        });
    }

    /// Warns once of each limit that is nearly used up.
    pub fn warn(&mut self) {
        let job = &mut self.job;
        for limit in Halt::ALL {
            let percent = job.sums.percent(*limit, &job.limits);
            let is_near = percent >= limits::JOB_WARN_PERCENT;
            if !is_near {
                job.warned.retain(|warned| warned != limit);
            } else if !job.warned.contains(limit) {
                job.warned.push(*limit);
                self.changes.event(Event::JobWarned {
                    job: job.id.clone(),
                    limit: *limit,
                    percent,
                });
            }
        }
    }

    /// A line of its history beside the interactions.
    pub fn note(&mut self, action: &str, actor: &JobActor) {
        self.job.last_entry += 1;
        self.changes.put(JobEntry {
            job: self.job.id.clone(),
            number: self.job.last_entry,
            after: self.job.last_sequence,
            at: self.now,
            role: actor.role,
            action: action.to_owned(),
            state_before: self.was.0,
            new_status: self.job.state,
            by: actor.by.clone(),
            why: actor.why.clone(),
        });
    }

    /// The job as it is now, with what moved it.
    pub fn end(mut self, by: &str, why: &str) -> (Job, Changes) {
        self.job.version += 1;
        self.job.updated_at = self.now;
        let state = self.job.state;
        // What belongs to a state goes with it.
        self.job
            .suspended_in
            .take_if(|_| state != JobState::Suspended);
        let stopped = self.job.suspended_in.unwrap_or(state).halt();
        self.job.resume_to.take_if(|_| stopped.is_none());
        let ends = state.is_terminal();
        let ended_at = self.job.ended_at.filter(|_| self.was.0.is_terminal());
        self.job.ended_at = ends.then(|| ended_at.unwrap_or(self.now));
        if let Some(task) = self.job.task.take_if(|_| self.drops_task || ends) {
            let canceled = cancel(&self.job, &task.id).decide(self.slice, self.now);
            // One that has ended by itself is nobody's any more.
            if let Ok((_, canceled)) = canceled {
                self.changes.absorb(canceled);
            }
        }
        if self.was != (self.job.state, self.job.phase) {
            self.changes.event(Event::JobMoved {
                job: self.job.id.clone(),
                from: self.was.0,
                to: self.job.state,
                phase: self.job.phase,
                by: by.to_owned(),
                why: why.to_owned(),
            });
        }
        self.changes.put(self.job.clone());
        (self.job, self.changes)
    }
}
