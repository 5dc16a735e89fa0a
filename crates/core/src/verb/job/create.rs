//! A job is made, as a draft, and is the selected one.

use super::Verb;
use super::adopt::{ask_place, shelve};
use crate::changes::Changes;
use crate::id::CorrId;
use crate::job::{Job, JobLimits, JobSpec, JobState, JobSums};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateJob {
    pub spec: JobSpec,
    pub limits: JobLimits,
    /// As it was resolved.
    pub directory: String,
    pub corr_id: CorrId,
}

impl Verb for CreateJob {
    type Reply = Job;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask_place(want, &self.draft(Timestamp::ZERO));
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        shelve(slice, self.draft(now), &self.spec)
    }
}

impl CreateJob {
    fn draft(&self, now: Timestamp) -> Job {
        Job {
            id: self.spec.id.clone(),
            state: JobState::Draft,
            phase: 0,
            resume_to: None,
            suspended_in: None,
            limits: self.limits,
            sums: JobSums::default(),
            warned: Vec::new(),
            last_sequence: 0,
            last_entry: 0,
            runs: 0,
            rank: 0,
            directory: self.directory.clone(),
            guidance: None,
            run: None,
            worker: None,
            task: None,
            call_tries: 0,
            look_at: None,
            restore: None,
            corr_id: self.corr_id.clone(),
            version: 1,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Swarm, word};
    use super::super::testing::{create, spec};
    use super::*;
    use crate::job::JobShelf;
    use crate::limits;
    use crate::record::{Listed as _, Record};

    #[test]
    fn a_job_is_made_once_and_its_directory_is_its_own() {
        let mut swarm = Swarm::new();
        let job = swarm.ok(create("J"));
        assert_eq!((job.state, job.phase, job.version), (JobState::Draft, 0, 1));
        assert_eq!(swarm.said(), ["job_created"]);
        assert_eq!(word(&swarm.run(create("J"))), "job_already_exists");
        let beside = CreateJob {
            directory: create("J").directory,
            ..create("K")
        };
        assert_eq!(word(&swarm.run(beside)), "directory_taken");
        let next = swarm.ok(create("K"));
        assert!(next.rank > job.rank, "it comes after those that are there");
    }

    #[test]
    fn the_new_job_is_the_selected_one() {
        let mut swarm = Swarm::new();
        swarm.ok(create("J"));
        swarm.ok(create("K"));
        let shelf = &swarm.records[&JobShelf::at("")];
        let current = JobShelf::of(shelf).and_then(|shelf| shelf.current.clone());
        assert_eq!(current, Some("K".into()));
    }

    #[test]
    fn jobs_are_bounded() {
        for (count, expected) in [(limits::JOBS_MAX - 1, "ok"), (limits::JOBS_MAX, "too_many")] {
            let mut swarm = Swarm::new();
            let shelf = Record::from(JobShelf {
                count,
                ..JobShelf::default()
            });
            swarm.records.insert(shelf.key(), shelf);
            let made = swarm.run(CreateJob {
                spec: spec("J"),
                ..create("J")
            });
            assert_eq!(word(&made), expected, "{count} there");
        }
    }
}
