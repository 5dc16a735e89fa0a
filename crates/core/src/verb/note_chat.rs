//! How far the person's chat elsewhere was read, and whether the person was heard there.

use super::Verb;
use crate::changes::Changes;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::talk::Chat;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteChat {
    /// Numbers may begin anew, and lower: the last one counts.
    pub upto: i64,
    pub heard: bool,
}

impl Verb for NoteChat {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Chat>("");
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let known = Want::new(slice).private::<Chat>("");
        let before = known.and_then(|chat| chat.heard_at);
        let mut changes = Changes::default();
        changes.put(Chat {
            read_upto: self.upto,
            read_at: now,
            heard_at: if self.heard { Some(now) } else { before },
        });
        Ok(((), changes))
    }
}
