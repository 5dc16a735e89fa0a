//! Engrams are kept once, in order, and the oldest go where there are too many.

use std::collections::HashSet;

use super::Verb;
use crate::changes::Changes;
use crate::engram::{Budget, Budgets, Engram, EngramEntry, Scope};
use crate::event::Event;
use crate::id::EngramId;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// One more engram. Several coordinators make them of the same log; the first one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepEngram {
    pub engram: Engram,
    /// Up to which event the log was in engrams when this one was made.
    pub after: u64,
    /// Engrams that this one is made of. They go.
    pub instead_of: Vec<EngramId>,
    pub budgets: Budgets,
}

/// Engrams that a ledger without any takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptEngrams {
    /// Oldest first.
    pub engrams: Vec<Engram>,
    pub budgets: Budgets,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// With what had to go for it.
    Yes { evicted: Vec<EngramId> },
    /// The ledger has gone on since; nothing was changed.
    TooLate,
}

impl Verb for KeepEngram {
    type Reply = Kept;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.engrams();
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(Kept, Changes), Refusal> {
        let known = Want::new(slice).engrams();
        check(&self.engram)?;
        let new = &self.engram.entry;
        let done = known.iter().map(|entry| entry.to_seq).max();
        let is_next = done.unwrap_or(0) == self.after
            && known.iter().all(|entry| entry.version < new.version)
            && known.iter().all(|entry| entry.id != new.id);
        let has = |id: &EngramId| known.iter().any(|entry| entry.id == *id);
        if !is_next || !self.instead_of.iter().all(has) {
            return Ok((Kept::TooLate, Changes::default()));
        }
        let mut changes = Changes::default();
        let mut left: Vec<&EngramEntry> = known.iter().collect();
        left.retain(|entry| !self.instead_of.contains(&entry.id));
        left.push(new);
        let mut evicted = self.instead_of.clone();
        evicted.extend(over_budget(&left, self.budgets));
        keep(&mut changes, self.engram.clone());
        evict(&mut changes, &evicted);
        Ok((Kept::Yes { evicted }, changes))
    }
}

impl Verb for AdoptEngrams {
    type Reply = Kept;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.engrams();
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(Kept, Changes), Refusal> {
        if !Want::new(slice).engrams().is_empty() {
            return Ok((Kept::TooLate, Changes::default()));
        }
        self.engrams.iter().try_for_each(check)?;
        let mut ids = HashSet::new();
        let once: Vec<&Engram> = self
            .engrams
            .iter()
            .filter(|engram| ids.insert(&engram.entry.id))
            .collect();
        let entries: Vec<&EngramEntry> = once.iter().map(|engram| &engram.entry).collect();
        let evicted = over_budget(&entries, self.budgets);
        let mut changes = Changes::default();
        for engram in once {
            if !evicted.contains(&engram.entry.id) {
                keep(&mut changes, engram.clone());
            }
        }
        Ok((Kept::Yes { evicted }, changes))
    }
}

/// Which of these, oldest first, have no room: of each tier the oldest, and never the last one.
fn over_budget(entries: &[&EngramEntry], budgets: Budgets) -> Vec<EngramId> {
    let Some((newest, older)) = entries.split_last() else {
        return Vec::new();
    };
    let mut over = Vec::new();
    for (scope, Budget { bytes_max, files_max }) in [
        (Scope::ShortTerm, budgets.short_term),
        (Scope::LongTerm, budgets.long_term),
    ] {
        let tier = || entries.iter().filter(|entry| entry.scope == scope);
        let mut bytes: u64 = tier().map(|entry| entry.bytes).sum();
        let mut files = tier().count();
        for entry in older.iter().filter(|entry| entry.scope == scope) {
            if bytes <= bytes_max && files <= files_max {
                break;
            }
            bytes -= entry.bytes;
            files -= 1;
            over.push(entry.id.clone());
        }
    }
    debug_assert!(!over.contains(&newest.id));
    over
}

fn keep(changes: &mut Changes, engram: Engram) {
    changes.event(Event::EngramKept {
        engram: engram.entry.id.clone(),
        scope: engram.entry.scope.as_str().to_owned(),
        version: engram.entry.version.clone(),
    });
    changes.engrams.push(engram);
}

fn evict(changes: &mut Changes, evicted: &[EngramId]) {
    for id in evicted {
        changes.event(Event::EngramEvicted { engram: id.clone() });
    }
    changes.evicted_engrams.extend_from_slice(evicted);
}

fn check(engram: &Engram) -> Result<(), Refusal> {
    let bytes = engram.body.len();
    if bytes > limits::ENGRAM_BYTES_MAX || bytes as u64 != engram.entry.bytes {
        return Err(Refusal::Invalid {
            field: "engram",
            message: format!("has {bytes} bytes, which is too large or not what it says"),
        });
    }
    Ok(())
}
