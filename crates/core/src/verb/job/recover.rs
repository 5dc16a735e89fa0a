//! What ran an agent is gone, and all its processes: the job is again as it was before the run.

use super::Verb;
use super::turn::{JobActor, Turn, ask};
use crate::changes::Changes;
use crate::id::JobId;
use crate::job::step::{Act, Next};
use crate::job::{Job, JobRole};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoverJob {
    pub job: JobId,
    pub run: String,
    /// The coordinator that found it.
    pub by: String,
    pub why: String,
}

impl Verb for RecoverJob {
    type Reply = Job;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        turn.run(&self.run)?;
        if let Next::To(state) = turn.next(JobRole::System, Act::Recover)? {
            turn.job.state = state;
        }
        turn.job.run = None;
        turn.note(
            "recovered",
            &JobActor {
                role: JobRole::System,
                by: self.by.clone(),
                why: Some(self.why.clone()),
            },
        );
        Ok(turn.end(&self.by, &self.why))
    }
}
