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

#[cfg(test)]
mod tests {
    use super::super::testing::{entries, in_state, job, steward};
    use super::*;
    use crate::job::JobState;

    #[test]
    fn what_changes_nothing_is_in_the_history_whatever_the_state() {
        for state in JobState::ALL {
            let mut swarm = in_state(*state);
            let before = job(&swarm);
            swarm.ok(NoteJob {
                job: "J".into(),
                actor: steward(),
                word: "edit undone",
            });
            assert_eq!(entries(&swarm).pop().as_deref(), Some("edit undone"));
            let after = job(&swarm);
            assert_eq!(
                (after.state, after.ended_at),
                (before.state, before.ended_at)
            );
            assert_eq!(swarm.said(), [""; 0]);
        }
    }
}
