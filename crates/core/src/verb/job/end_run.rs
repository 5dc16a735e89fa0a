//! An agent has answered: interaction, transition, sums, recovery point and halt are one commit.

use super::Verb;
use super::answer::Answered;
use super::turn::{Turn, ask_with_spec};
use crate::changes::Changes;
use crate::id::JobId;
use crate::job::Job;
use crate::job_history::{CallWaits, Checkpoint, Interaction, Judged, NewExchange};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndJobRun {
    pub job: JobId,
    pub run: String,
    pub judged: Judged,
    pub exchange: NewExchange,
    /// The workspace as the run left it.
    pub checkpoint: Option<Checkpoint>,
    pub waits: CallWaits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub job: Job,
    pub interaction: Interaction,
}

impl Verb for EndJobRun {
    type Reply = Ended;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask_with_spec(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Ended, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let run = turn.run(&self.run)?;
        let answered = Answered {
            judged: &self.judged,
            exchange: &self.exchange,
            checkpoint: self.checkpoint.as_ref(),
            waits: self.waits,
        };
        let interaction = answered.take(&mut turn, &run)?;
        let by = run.role.agent(&self.job);
        let (job, changes) = turn.end(by.as_str(), interaction.action.as_str());
        Ok((Ended { job, interaction }, changes))
    }
}
