//! A new session begins: numbers of messages begin anew.

use super::Verb;
use crate::changes::Changes;
use crate::id::HUB_ROLE;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::talk::{Counted, Session};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginSession {
    /// Another program counts them too, and has come this far.
    pub at_least: u32,
}

impl Verb for BeginSession {
    type Reply = Session;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Session>("");
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Session, Changes), Refusal> {
        let last = Want::new(slice).private::<Session>("");
        let last = last.map_or(0, |session| session.number);
        let session = Session {
            number: last.max(self.at_least).saturating_add(1),
            began_at: now,
        };
        let mut changes = Changes::default();
        changes.put(session.clone());
        // The briefing is the first thing that the hub says in a session.
        changes.put(Counted {
            speaker: HUB_ROLE.to_owned(),
            session: session.number,
            number: 1,
            at: now,
        });
        Ok((session, changes))
    }
}
