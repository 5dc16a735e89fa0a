//! Engrams are kept once, in order, and the oldest go where there are too many.

use std::collections::HashSet;

use super::Verb;
use crate::changes::Changes;
use crate::duty::Fence;
use crate::engram::{Budget, Budgets, Engram, EngramEntry, EngramText, Scope};
use crate::event::Event;
use crate::id::EngramId;
use crate::limits;
use crate::record::{Listed, Record};
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
    /// Of the coordinator that keeps engrams for all.
    pub fence: Option<Fence>,
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
        want.privates::<EngramEntry>(&EngramEntry::all());
        if let Some(fence) = &self.fence {
            fence.ask(want);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Kept, Changes), Refusal> {
        if let Some(fence) = &self.fence {
            fence.check(slice, now)?;
        }
        let known = known(slice);
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
        let mut left = known.clone();
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
        want.privates::<EngramEntry>(&EngramEntry::all());
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(Kept, Changes), Refusal> {
        if !known(slice).is_empty() {
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

/// Oldest first.
fn known(slice: &Slice) -> Vec<&EngramEntry> {
    Want::new(slice).privates(&EngramEntry::all())
}

/// Which of these, oldest first, have no room: of each tier the oldest, and never the last one.
fn over_budget(entries: &[&EngramEntry], budgets: Budgets) -> Vec<EngramId> {
    let Some((newest, older)) = entries.split_last() else {
        return Vec::new();
    };
    let mut over = Vec::new();
    for (
        scope,
        Budget {
            bytes_max,
            files_max,
        },
    ) in [
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
    let (entry, text) = engram.into_rows();
    changes.put(entry);
    changes.put(text);
}

fn evict(changes: &mut Changes, evicted: &[EngramId]) {
    for id in evicted {
        changes.event(Event::EngramEvicted { engram: id.clone() });
        changes.remove::<Record>(EngramEntry::at(id.to_string()));
        changes.remove::<Record>(EngramText::at(id.to_string()));
    }
}

fn check(engram: &Engram) -> Result<(), Refusal> {
    let bytes = engram.body.len();
    if bytes > limits::ENGRAM_BYTES_MAX || bytes as u64 != engram.entry.bytes {
        return Err(Refusal::Invalid {
            field: "engram",
            message: format!("has {bytes} bytes, which is too large or not the announced size"),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;
    use crate::record::RecordRange;
    use crate::verb::TakeDuty;

    const WIDE: Budgets = Budgets {
        short_term: Budget {
            bytes_max: 1000,
            files_max: 10,
        },
        long_term: Budget {
            bytes_max: 1000,
            files_max: 10,
        },
    };

    /// The n-th engram: of the events up to 10·n, ten bytes large.
    fn engram(n: u64, scope: Scope) -> Engram {
        let body = "0123456789";
        Engram {
            entry: EngramEntry {
                id: format!("e{n}").into(),
                scope,
                version: format!("20260212-{n:06}Z"),
                created_at: Timestamp::ZERO,
                hash: format!("sha256:{n}"),
                bytes: body.len() as u64,
                topics: Vec::new(),
                from_seq: n * 10 - 9,
                to_seq: n * 10,
            },
            body: body.into(),
            words: "".into(),
        }
    }

    fn keep(n: u64, budgets: Budgets) -> KeepEngram {
        KeepEngram {
            engram: engram(n, Scope::ShortTerm),
            after: n * 10 - 10,
            instead_of: Vec::new(),
            budgets,
            fence: None,
        }
    }

    /// Engrams 1 to n.
    fn with(many: u64, budgets: Budgets) -> Swarm {
        let mut swarm = Swarm::new();
        for n in 1..=many {
            swarm.ok(keep(n, budgets));
        }
        swarm
    }

    fn ids(swarm: &Swarm) -> Vec<&str> {
        let listed = |range: &RecordRange| swarm.records_in(range).into_iter();
        let entries = listed(&EngramEntry::all()).filter_map(EngramEntry::of);
        let ids: Vec<&str> = entries.map(|entry| entry.id.as_str()).collect();
        let texts = listed(&RecordRange::of::<EngramText>("", 99)).filter_map(EngramText::of);
        assert!(texts.map(|text| text.id.as_str()).eq(ids.iter().copied()));
        ids
    }

    #[test]
    fn of_two_who_compact_the_same_events_the_second_is_too_late() {
        let mut swarm = with(2, WIDE);
        let other = |change: fn(&mut KeepEngram)| {
            let mut keep = keep(3, WIDE);
            change(&mut keep);
            keep
        };
        for late in [
            other(|it| it.after = 10),
            other(|it| it.after = 30),
            other(|it| it.engram.entry.version = "20260212-000002Z".to_owned()),
            other(|it| it.engram.entry.version = "20260212-000001Z".to_owned()),
            other(|it| it.engram.entry.id = "e1".into()),
            other(|it| it.instead_of = vec!["e1".into(), "e9".into()]),
        ] {
            assert_eq!(swarm.ok(late.clone()), Kept::TooLate, "{late:?}");
            assert!(swarm.said().is_empty());
            assert_eq!(ids(&swarm), ["e1", "e2"]);
        }
        let evicted = Vec::new();
        assert_eq!(swarm.ok(keep(3, WIDE)), Kept::Yes { evicted });
        assert_eq!(swarm.said(), ["engram_kept"]);
        assert_eq!(
            swarm.ok(keep(3, WIDE)),
            Kept::TooLate,
            "nothing happens twice"
        );
    }

    #[test]
    fn only_who_has_the_duty_keeps_any() {
        let mut swarm = with(1, WIDE);
        let mut fenced = keep(2, WIDE);
        let duty = "compact";
        fenced.fence = Some(Fence { duty, epoch: 1 });
        assert_eq!(word(&swarm.run(fenced.clone())), "duty_lost");
        let me = "a".to_owned();
        let note = None;
        swarm.ok(TakeDuty { duty, me, note });
        let evicted = Vec::new();
        assert_eq!(swarm.ok(fenced), Kept::Yes { evicted });
        let mut late = keep(3, WIDE);
        late.fence = Some(Fence { duty, epoch: 0 });
        assert_eq!(word(&swarm.run(late)), "duty_lost");
        assert_eq!(ids(&swarm), ["e1", "e2"]);
    }

    #[test]
    fn over_its_budget_a_tier_evicts_its_oldest() {
        for (bytes_max, files_max, left) in [
            (40, 4, vec!["e1", "e2", "e3", "e4"]),
            (39, 4, vec!["e2", "e3", "e4"]),
            (41, 4, vec!["e1", "e2", "e3", "e4"]),
            (40, 3, vec!["e2", "e3", "e4"]),
            (25, 9, vec!["e3", "e4"]),
            (0, 0, vec!["e4"]),
        ] {
            let short_term = Budget {
                bytes_max,
                files_max,
            };
            let swarm = with(4, Budgets { short_term, ..WIDE });
            assert_eq!(ids(&swarm), left, "{bytes_max} bytes, {files_max} files");
        }
    }

    #[test]
    fn what_is_condensed_goes_and_the_long_term_evicts_only_its_own() {
        let mut swarm = with(4, WIDE);
        let long = |n: u64, after: u64, instead_of: &[&str], files_max: usize| KeepEngram {
            engram: engram(n, Scope::LongTerm),
            after,
            instead_of: instead_of.iter().map(|id| EngramId::from(*id)).collect(),
            budgets: Budgets {
                long_term: Budget {
                    bytes_max: 1000,
                    files_max,
                },
                ..WIDE
            },
            fence: None,
        };
        swarm.ok(long(5, 40, &["e1", "e2"], 1));
        assert_eq!(
            swarm.said(),
            ["engram_kept", "engram_evicted", "engram_evicted"]
        );
        assert_eq!(ids(&swarm), ["e3", "e4", "e5"]);
        let kept = swarm.ok(long(6, 50, &["e3"], 1));
        let evicted = vec!["e3".into(), "e5".into()];
        assert_eq!(kept, Kept::Yes { evicted });
        assert_eq!(ids(&swarm), ["e4", "e6"]);
    }

    #[test]
    fn a_ledger_without_engrams_adopts_once_and_within_its_budgets() {
        let engrams = |numbers: &[u64]| {
            let made = numbers.iter().map(|n| engram(*n, Scope::ShortTerm));
            made.collect::<Vec<_>>()
        };
        let mut swarm = Swarm::new();
        let short_term = Budget {
            bytes_max: 20,
            files_max: 9,
        };
        swarm.ok(AdoptEngrams {
            engrams: engrams(&[1, 2, 2, 3]),
            budgets: Budgets { short_term, ..WIDE },
        });
        assert_eq!(ids(&swarm), ["e2", "e3"]);
        assert_eq!(swarm.said(), ["engram_kept", "engram_kept"]);
        let budgets = WIDE;
        let engrams = engrams(&[7]);
        let adopt = AdoptEngrams { engrams, budgets };
        assert_eq!(swarm.ok(adopt), Kept::TooLate);
        assert_eq!(ids(&swarm), ["e2", "e3"]);
    }

    #[test]
    fn an_engram_is_bounded_and_as_large_as_it_says() {
        for (bytes, fits) in [
            (limits::ENGRAM_BYTES_MAX - 1, true),
            (limits::ENGRAM_BYTES_MAX, true),
            (limits::ENGRAM_BYTES_MAX + 1, false),
        ] {
            let mut large = keep(1, WIDE);
            large.engram.body = "x".repeat(bytes).into();
            assert_eq!(word(&Swarm::new().run(large.clone())), "invalid");
            large.engram.entry.bytes = bytes as u64;
            assert_eq!(Swarm::new().run(large).is_ok(), fits, "{bytes}");
        }
    }
}
