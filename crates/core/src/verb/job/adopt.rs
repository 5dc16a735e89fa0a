//! A job of another program is taken over as it was read, and its history after it, in pieces.

use super::turn::{Turn, ask};
use super::{Verb, no};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::job::{Job, JobDirectory, JobShelf, JobSpec};
use crate::job_history::{Exchange, Interaction, JobEntry, RecoveryPoint};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptJob {
    /// Its rank is given here, and nothing runs.
    pub job: Job,
    pub spec: JobSpec,
}

/// What comes after what was taken over before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptHistory {
    pub job: JobId,
    pub interactions: Vec<(Interaction, Exchange)>,
    pub points: Vec<RecoveryPoint>,
    pub entries: Vec<JobEntry>,
}

impl Verb for AdoptJob {
    type Reply = Job;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask_place(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        let mut job = self.job.clone();
        job.state = job.state.resting();
        job.run = None;
        job.task = None;
        job.phase = job.phase.min(self.spec.phases.len().saturating_sub(1));
        job.ended_at = job.state.is_terminal().then(|| job.ended_at.unwrap_or(now));
        shelve(slice, job, &self.spec)
    }
}

/// What a new job must see.
pub(super) fn ask_place(want: &mut Want<'_>, job: &Job) {
    want.private::<Job>(job.id.to_string());
    want.private::<JobDirectory>(job.directory.clone());
    want.private::<JobShelf>("");
}

/// Puts a new job among the others, at the end of the queue.
pub(super) fn shelve(
    slice: &Slice,
    mut job: Job,
    spec: &JobSpec,
) -> Result<(Job, Changes), Refusal> {
    spec.check()?;
    let mut want = Want::new(slice);
    if want.private::<Job>(job.id.to_string()).is_some() {
        return Err(no(&job.id, JobRefusal::Exists));
    }
    if let Some(taken) = want.private::<JobDirectory>(job.directory.clone()) {
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
    shelf.current = Some(job.id.clone());
    job.rank = shelf.give_last();
    let mut changes = Changes::default();
    changes.event(Event::JobCreated {
        job: job.id.clone(),
        state: job.state,
    });
    changes.put(shelf);
    changes.put(JobDirectory {
        path: job.directory.clone(),
        job: job.id.clone(),
    });
    changes.put(spec.clone());
    changes.put(job.clone());
    Ok((job, changes))
}

impl Verb for AdoptHistory {
    type Reply = Job;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask(want, &self.job);
        for point in &self.points {
            want.private::<RecoveryPoint>(RecoveryPoint::key_of(&self.job, &point.id));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        for (interaction, exchange) in &self.interactions {
            turn.job.last_sequence += 1;
            let sequence = turn.job.last_sequence;
            turn.changes.put(Interaction {
                job: self.job.clone(),
                sequence,
                ..interaction.clone()
            });
            turn.changes.put(Exchange {
                job: self.job.clone(),
                sequence,
                ..exchange.clone()
            });
        }
        for point in &self.points {
            turn.changes.put(RecoveryPoint {
                job: self.job.clone(),
                ..point.clone()
            });
        }
        for entry in &self.entries {
            turn.job.last_entry += 1;
            turn.changes.put(JobEntry {
                job: self.job.clone(),
                number: turn.job.last_entry,
                ..entry.clone()
            });
        }
        // A job that has run does not begin with the workspace as it was made.
        turn.job.runs = turn.job.runs.max(turn.job.last_sequence);
        Ok(turn.end("", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::word;
    use super::super::testing::*;
    use super::*;
    use crate::job::{JobAction, JobState, JobSums};

    fn adopted(state: JobState) -> AdoptJob {
        let mut job = job(&in_state(state));
        job.sums = JobSums {
            cost_micros: 5,
            ..JobSums::default()
        };
        (job.last_sequence, job.last_entry) = (0, 0);
        AdoptJob {
            job,
            spec: spec("J"),
        }
    }

    #[test]
    fn a_job_of_another_program_is_taken_over_as_it_rests() {
        for state in JobState::ALL {
            let mut swarm = crate::verb::testing::Swarm::new();
            let job = swarm.ok(adopted(*state));
            assert_eq!((job.state, job.run), (state.resting(), None), "{state}");
            assert_eq!(job.sums.cost_micros, 5);
            assert_eq!(job.ended_at.is_some(), state.is_terminal());
            assert_eq!(word(&swarm.run(adopted(*state))), "job_already_exists");
        }
    }

    #[test]
    fn its_history_follows_in_pieces_under_numbers_without_a_gap() {
        let mut other = in_state(JobState::ApprovalRequired);
        run_all(&mut other);
        let exchanges = |sequence| row::<Exchange>(&other, &format!("J/{sequence}"));
        let interactions: Vec<(Interaction, Exchange)> = interactions(&other)
            .into_iter()
            .map(|one| (one.clone(), exchanges(one.sequence)))
            .collect();
        let mut swarm = crate::verb::testing::Swarm::new();
        swarm.ok(adopted(JobState::ApprovalRequired));
        for piece in interactions.chunks(3) {
            swarm.ok(AdoptHistory {
                job: "J".into(),
                interactions: piece.to_vec(),
                points: points(&other),
                entries: Vec::new(),
            });
        }
        let kept = super::super::testing::interactions(&swarm);
        assert_eq!(kept, super::super::testing::interactions(&other));
        assert_eq!(points(&swarm), points(&other));
        let job = job(&swarm);
        assert_eq!(job.last_sequence, kept.len() as u64);
        assert!(job.runs >= job.last_sequence);
    }

    fn run_all(swarm: &mut crate::verb::testing::Swarm) {
        swarm.ok(decide(super::super::Decision::Reject { guidance: None }));
        run(swarm, JobAction::Completed);
    }
}
