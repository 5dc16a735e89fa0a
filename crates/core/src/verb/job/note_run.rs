//! The program of a run has started: whoever serves here next can tell its processes.

use super::Verb;
use super::turn::{Turn, ask};
use crate::changes::Changes;
use crate::id::JobId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteJobRun {
    pub job: JobId,
    pub run: String,
    pub group: u32,
    pub started: u64,
}

impl Verb for NoteJobRun {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let mut run = turn.run(&self.run)?;
        run.group = Some(self.group);
        run.started = Some(self.started);
        turn.job.run = Some(run);
        Ok(((), turn.end("", "").1))
    }
}
