//! Duties: what one coordinator at a time does for all, however many serve the ledger.
//!
//! A duty is taken for a while and renewed; who falls silent has lost it. Each holder has an epoch of its own, and what it
//! does carries that epoch: a verb of one that has lost the duty is refused, whatever it believes.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::record::Private;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duty {
    pub name: String,
    /// The coordinator that has it, or had it last.
    pub holder: String,
    /// Grows with each change of hands.
    pub epoch: u64,
    /// From here on anybody may take it.
    pub until: Timestamp,
    /// What the holder wants others to know, and its successor.
    pub note: String,
}

/// What a holder's verbs carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub duty: &'static str,
    pub epoch: u64,
}

impl Private for Duty {
    fn key(&self) -> Cow<'static, str> {
        self.name.clone().into()
    }
}

impl Duty {
    pub fn is_held(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

impl Fence {
    pub fn ask(&self, want: &mut Want<'_>) {
        want.private::<Duty>(self.duty);
    }

    /// Whether the duty is still in these hands.
    pub fn check(&self, slice: &Slice, now: Timestamp) -> Result<(), Refusal> {
        let duty = Want::new(slice).private::<Duty>(self.duty);
        match duty {
            Some(duty) if duty.epoch == self.epoch && duty.is_held(now) => Ok(()),
            Some(_) | None => Err(Refusal::DutyLost { duty: self.duty }),
        }
    }
}
