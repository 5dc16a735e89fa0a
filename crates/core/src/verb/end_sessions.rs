//! Caretaker: sessions of external agents that nobody refreshed in time.

use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::external::{EndReason, Ending, ExternalSession, SessionEnd};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSessions;

impl Verb for EndSessions {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for session in want.due_privates::<ExternalSession>(now, limits::CARETAKER_STEP) {
            ExternalSession::asks(&session.agent, want);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let due = want.due_privates::<ExternalSession>(now, limits::CARETAKER_STEP);
        let (mut changes, mut ending) = (Changes::default(), Ending::default());
        for session in &due {
            let end = SessionEnd {
                why: EndReason::Expired,
                by: None,
                at: now,
            };
            ending.end(session, end, &mut want, &mut changes);
        }
        ending.finish(&mut changes);
        let more = due.len() >= limits::CARETAKER_STEP;
        let done = due.len();
        Ok((Sweep { done, more }, changes))
    }
}
