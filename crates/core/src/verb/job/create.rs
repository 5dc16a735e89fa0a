//! A job is made, as a draft, and is the selected one.

use super::{Verb, no};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::CorrId;
use crate::job::refusal::JobRefusal;
use crate::job::{Job, JobDirectory, JobLimits, JobShelf, JobSpec, JobState, JobSums};
use crate::limits;
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
        want.private::<Job>(self.spec.id.to_string());
        want.private::<JobDirectory>(self.directory.clone());
        want.private::<JobShelf>("");
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        let mut want = Want::new(slice);
        let id = &self.spec.id;
        if want.private::<Job>(id.to_string()).is_some() {
            return Err(no(id, JobRefusal::Exists));
        }
        if let Some(taken) = want.private::<JobDirectory>(self.directory.clone()) {
            return Err(no(&taken.job, JobRefusal::DirectoryTaken));
        }
        let mut shelf = want.private::<JobShelf>("").cloned().unwrap_or_default();
        if shelf.count >= limits::JOBS_MAX {
            return Err(Refusal::TooMany {
                what: "jobs",
                limit: limits::JOBS_MAX as usize,
            });
        }
        shelf.count += 1;
        shelf.current = Some(id.clone());
        let job = self.draft(shelf.give_last(), now);
        let mut changes = Changes::default();
        changes.event(Event::JobCreated {
            job: id.clone(),
            state: job.state,
        });
        changes.put(shelf);
        changes.put(JobDirectory {
            path: self.directory.clone(),
            job: id.clone(),
        });
        changes.put(self.spec.clone());
        changes.put(job.clone());
        Ok((job, changes))
    }
}

impl CreateJob {
    fn draft(&self, rank: i64, now: Timestamp) -> Job {
        Job {
            id: self.spec.id.clone(),
            state: JobState::Draft,
            phase: 0,
            resume_to: None,
            limits: self.limits,
            sums: JobSums::default(),
            warned: Vec::new(),
            last_sequence: 0,
            last_entry: 0,
            runs: 0,
            rank,
            directory: self.directory.clone(),
            guidance: None,
            run: None,
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
