//! Caretaker: jobs that ended long ago are forgotten, with all that is known of them; their directories stay.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::job::{Job, JobDirectory, JobGroup, JobShelf, JobSpec};
use crate::job_history::{Exchange, Interaction, JobEntry, RecoveryPoint};
use crate::limits;
use crate::record::{Listed as _, Private as _, Record};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::verb::Sweep;
use crate::verb::prune::allowance;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneJobs;

impl Verb for PruneJobs {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(job) = oldest(want, now) {
            parts(want, &job);
            want.private::<JobShelf>("");
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let mut changes = Changes::default();
        let Some(job) = oldest(&mut want, now) else {
            let (done, more) = (0, false);
            return Ok((Sweep { done, more }, changes));
        };
        for key in parts(&mut want, &job) {
            changes.remove::<Record>(key);
        }
        let done = changes.drops.len();
        // Its history goes in steps, the job with the last one.
        if done == 0 {
            let mut shelf = want.private::<JobShelf>("").cloned().unwrap_or_default();
            shelf.count = shelf.count.saturating_sub(1);
            shelf.current.take_if(|current| *current == job.id);
            changes.put(shelf);
            changes.remove::<Record>(JobSpec::at(job.id.to_string()));
            changes.remove::<Record>(JobDirectory::at(job.directory.clone()));
            changes.remove::<Record>(Job::at(job.id.to_string()));
            changes.event(Event::JobForgotten { job: job.id });
        }
        let more = true;
        Ok((
            Sweep {
                done: done.max(1),
                more,
            },
            changes,
        ))
    }
}

/// The job that ended first, if that was long enough ago.
fn oldest(want: &mut Want<'_>, now: Timestamp) -> Option<Job> {
    let job = want.privates::<Job>(&Job::in_group(JobGroup::Ended, 1));
    let job = (*job.first()?).clone();
    let time = allowance(want, now)?;
    let before = time.back(now, limits::JOBS_KEPT_FOR);
    job.ended_at.is_some_and(|at| at < before).then_some(job)
}

/// Rows of its history, as many as one step takes.
fn parts(want: &mut Want<'_>, job: &Job) -> Vec<crate::RecordKey> {
    let limit = limits::CARETAKER_STEP;
    let mut keys = Vec::new();
    for row in want.privates::<Interaction>(&Interaction::of_job(&job.id, limit)) {
        keys.push(Exchange::at(row.key()));
        keys.push(Interaction::at(row.key()));
    }
    for row in want.privates::<JobEntry>(&JobEntry::of_job(&job.id, limit)) {
        keys.push(JobEntry::at(row.key()));
    }
    for row in want.privates::<RecoveryPoint>(&RecoveryPoint::of_job(&job.id, limit)) {
        keys.push(RecoveryPoint::at(row.key()));
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::testing::Swarm;
    use super::super::testing::*;
    use super::*;
    use crate::job::{JobAction, JobState};

    fn sweep(swarm: &mut Swarm) -> usize {
        let mut steps = 0;
        while swarm.ok(PruneJobs).more {
            steps += 1;
        }
        steps
    }

    fn rows(swarm: &Swarm) -> usize {
        let is_of_a_job = |row: &&Record| {
            let key = row.key();
            !matches!(row, Record::ServedTime(_) | Record::JobShelf(_)) && key.key.contains('J')
        };
        swarm.records.values().filter(is_of_a_job).count()
    }

    #[test]
    fn a_job_goes_ninety_days_after_its_end_with_all_that_is_known_of_it() {
        for (after, goes) in [
            (limits::JOBS_KEPT_FOR, false),
            (limits::JOBS_KEPT_FOR + Duration::from_millis(1), true),
        ] {
            let mut swarm = in_state(JobState::Success);
            swarm.wait(after);
            assert_eq!(sweep(&mut swarm) > 0, goes);
            assert_eq!(rows(&swarm) == 0, goes, "{:?}", swarm.records.keys());
            let shelf: JobShelf = row(&swarm, "");
            assert_eq!(
                (shelf.count, shelf.current.is_none()),
                (u32::from(!goes), goes)
            );
        }
    }

    #[test]
    fn a_job_that_has_not_ended_never_goes() {
        for state in JobState::ALL.iter().filter(|state| !state.is_terminal()) {
            let mut swarm = in_state(*state);
            swarm.wait(limits::JOBS_KEPT_FOR * 2);
            assert_eq!(sweep(&mut swarm), 0, "{state}");
        }
    }

    #[test]
    fn a_long_history_goes_in_steps() {
        let mut swarm = plain();
        for _ in 0..limits::CARETAKER_STEP + 1 {
            swarm.ok(super::super::ChangeJob {
                limits: crate::job::NewLimits {
                    iterations: Some(1_000_000),
                    ..Default::default()
                },
                ..change()
            });
            run(&mut swarm, JobAction::Retry);
        }
        swarm.ok(decide(super::super::Decision::Cancel));
        swarm.wait(limits::JOBS_KEPT_FOR + Duration::from_millis(1));
        assert_eq!(sweep(&mut swarm), 3);
        assert_eq!(rows(&swarm), 0);
    }
}
