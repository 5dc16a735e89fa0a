//! A message is refused: it is delivered to nobody, and what was refused is on record.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::talk::Refused;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refuse {
    pub message: MessageId,
    pub from: AgentId,
    /// As it was written.
    pub to: String,
    pub payload: Box<str>,
    pub reason: &'static str,
}

impl Refuse {
    /// What has this id was refused before, or is a message: then that one's own record says what became of it.
    fn is_known(&self, want: &mut Want<'_>) -> bool {
        let refused = want.private::<Refused>(self.message.to_string()).is_some();
        want.message(&self.message).is_some() || refused
    }
}

impl Verb for Refuse {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        self.is_known(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        if self.is_known(&mut Want::new(slice)) {
            return Ok(((), changes));
        }
        let refused = Refused {
            message: self.message.clone(),
            from: self.from.clone(),
            to: limits::cut(&self.to, limits::NAME_BYTES_MAX).to_owned(),
            payload: limits::cut(&self.payload, limits::NOTE_BYTES_MAX).to_owned(),
            reason: self.reason.to_owned(),
            at: now,
        };
        changes.event(Event::MessageRefused {
            message: refused.message.clone(),
            from: refused.from.clone(),
            to: refused.to.clone(),
            why: refused.reason.clone(),
        });
        changes.put(refused);
        Ok(((), changes))
    }
}
