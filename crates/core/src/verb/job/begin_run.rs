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

#[cfg(test)]
mod tests {
    use super::super::super::testing::word;
    use super::super::testing::{begin, begins, ends, in_state, job, plain, points, said};
    use super::super::{ChangeJob, NoteJobRun, RecoverJob};
    use super::*;
    use crate::job::{JobAction, JobState, NewLimits};

    #[test]
    fn a_run_begins_where_one_is_due() {
        for state in JobState::ALL {
            let mut swarm = in_state(*state);
            let expected = match state {
                JobState::Pending | JobState::ReviewRequired => "ok",
                JobState::Draft
                | JobState::Running
                | JobState::Reviewing
                | JobState::ApprovalRequired
                | JobState::InterventionRequired
                | JobState::Suspended
                | JobState::HaltedCost
                | JobState::HaltedTime
                | JobState::HaltedIteration
                | JobState::Success
                | JobState::Canceled => "job_state",
            };
            let next = begins(&swarm);
            assert_eq!(word(&swarm.run(next)), expected, "{state}");
        }
    }

    #[test]
    fn a_run_is_on_record_before_its_program_begins() {
        let mut swarm = plain();
        swarm.ok(BeginJobRun {
            checkpoint: Some(Checkpoint {
                commit: Some("c0".to_owned()),
                files: Vec::new(),
            }),
            ..begins(&swarm)
        });
        assert_eq!(swarm.said(), ["job_run_began", "job_moved"]);
        let run = job(&swarm).run.expect("it runs");
        assert_eq!((run.role, run.from), (JobRole::Worker, JobState::Pending));
        assert_eq!((run.id.as_str(), run.by.as_str()), ("r1", "hub-1"));
        let point = &points(&swarm)[0];
        assert_eq!((point.id.as_str(), point.sequence), ("start", 0));
        assert_eq!(point.commit.as_deref(), Some("c0"));
        let note = |run: &str| NoteJobRun {
            job: "J".into(),
            run: run.to_owned(),
            group: 7,
            started: 9,
        };
        assert_eq!(word(&swarm.run(note("r0"))), "not_this_run");
        swarm.ok(note("r1"));
        let run = job(&swarm).run.expect("it runs");
        assert_eq!((run.group, run.started), (Some(7), Some(9)));
    }

    #[test]
    fn a_job_that_has_used_up_a_limit_halts_instead() {
        for (limits, halt) in [
            (
                NewLimits {
                    cost_micros: Some(1_000),
                    ..NewLimits::default()
                },
                Halt::Cost,
            ),
            (
                NewLimits {
                    millis: Some(1_000),
                    ..NewLimits::default()
                },
                Halt::Time,
            ),
            (
                NewLimits {
                    iterations: Some(1),
                    ..NewLimits::default()
                },
                Halt::Iteration,
            ),
        ] {
            let mut swarm = in_state(JobState::ReviewRequired);
            swarm.ok(ChangeJob {
                limits,
                ..super::super::testing::change()
            });
            let begun = begin(&mut swarm);
            assert_eq!(begun.halted, Some(halt));
            assert_eq!((begun.job.state, begun.job.run), (halt.state(), None));
            assert_eq!(begun.job.resume_to, Some(JobState::ReviewRequired));
        }
    }

    #[test]
    fn after_a_crash_the_run_is_due_again_and_its_late_answer_does_not_count() {
        for (state, rests) in [
            (JobState::Running, JobState::Pending),
            (JobState::Reviewing, JobState::ReviewRequired),
        ] {
            let mut swarm = in_state(state);
            let late = ends(&swarm, said(JobAction::Completed));
            let recover = |run: &str| RecoverJob {
                job: "J".into(),
                run: run.to_owned(),
                by: "hub-2".to_owned(),
                why: "hub-1 was killed".to_owned(),
            };
            assert_eq!(word(&swarm.run(recover("r9"))), "not_this_run");
            let before = job(&swarm).sums;
            assert_eq!(swarm.ok(recover(&late.run)).state, rests);
            assert_eq!(word(&swarm.run(recover(&late.run))), "not_this_run", "once");
            let last = super::super::testing::entries(&swarm).pop();
            assert_eq!(last.as_deref(), Some("recovered"));
            begin(&mut swarm);
            assert_eq!(word(&swarm.run(late)), "not_this_run");
            assert_eq!(job(&swarm).sums, before);
        }
    }
}
