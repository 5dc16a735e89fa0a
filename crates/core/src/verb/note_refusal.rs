//! Something was refused, and that is written down.

use super::Verb;
use crate::audit::AuditEntry;
use crate::changes::Changes;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRefusal {
    /// Its time is when it is written.
    pub entry: AuditEntry,
}

impl Verb for NoteRefusal {
    type Reply = ();

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        changes.put(AuditEntry {
            at: now,
            ..self.entry.clone()
        });
        Ok(((), changes))
    }
}
