//! Something happened to a job that changes nothing of it: it is in its history.

use super::Verb;
use super::turn::{JobActor, Turn, ask};
use crate::changes::Changes;
use crate::id::JobId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteJob {
    pub job: JobId,
    pub actor: JobActor,
    /// Such as `edit undone`, with the reason.
    pub word: &'static str,
}

impl Verb for NoteJob {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask(want, &self.job);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        turn.note(self.word, &self.actor);
        Ok(((), turn.end("", "").1))
    }
}
