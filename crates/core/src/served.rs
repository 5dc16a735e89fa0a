//! Time that counts: what nobody served does not make a row old, and a clock that jumped deletes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::head::Head;
use crate::limits;
use crate::record::Private;
use crate::slice::Kept;
use crate::time::Timestamp;

/// When the ledger was not served, and since when its time can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedTime {
    /// Stretches that nobody served, oldest first.
    gaps: Vec<Gap>,
    /// The clock jumped, or a long gap ended.
    shaken_at: Option<Timestamp>,
    /// What may still be pruned.
    pub hour: Hour,
}

/// What may be pruned within an hour that is served: of each kind a tenth, so that a mistake is noticed before it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hour {
    began_at: Timestamp,
    /// Events below this number.
    pub events_upto: u64,
    pub messages: u64,
    pub answers: u64,
    pub tasks: u64,
    pub agents: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Gap {
    from: Timestamp,
    to: Timestamp,
}

impl Private for ServedTime {}

impl ServedTime {
    /// Nobody served from one instant to the other.
    pub fn add_gap(&mut self, from: Timestamp, to: Timestamp) {
        self.gaps.push(Gap { from, to });
        if self.gaps.len() > limits::GAPS_MAX {
            self.merge_two();
        }
        if to.since(from) > limits::GAP_LONG {
            self.shake(to);
        }
    }

    /// From here on nothing is pruned for a while.
    pub fn shake(&mut self, at: Timestamp) {
        self.shaken_at = self.shaken_at.max(Some(at));
    }

    /// Since when so much time was served until `now`.
    pub fn back(&self, now: Timestamp, served: Duration) -> Timestamp {
        let (mut left, mut end) = (served, now);
        for gap in self.gaps.iter().rev() {
            let stretch = end.since(gap.to);
            if left <= stretch {
                break;
            }
            left -= stretch;
            end = end.min(gap.from);
        }
        end - left
    }

    /// Whether the time that rows are held against has been right for long enough.
    pub fn may_prune(&self, now: Timestamp) -> bool {
        let since = self.back(now, limits::PRUNE_HELD_FOR);
        self.shaken_at.is_none_or(|at| at <= since)
    }

    pub fn is_hour_over(&self, now: Timestamp) -> bool {
        self.hour.began_at <= self.back(now, limits::PRUNE_HELD_FOR)
    }

    pub fn begin_hour(&mut self, head: &Head, kept: Kept, now: Timestamp) {
        let share = |rows: u64| (rows / limits::PRUNE_SHARE).max(limits::PRUNE_HOUR_MIN);
        let events = (head.seq + 1).saturating_sub(kept.oldest_event);
        self.hour = Hour {
            began_at: now,
            events_upto: kept.oldest_event + share(events),
            messages: share(kept.messages),
            answers: share(head.idempotency_rows),
            tasks: share(head.tasks_total()),
            // Nobody counts them; this is enough for any swarm.
            agents: limits::PRUNE_HOUR_MIN,
        };
    }

    /// Takes the two gaps with the least between them for one: rows are kept longer by that, never shorter.
    fn merge_two(&mut self) {
        let between = |at: &usize| self.gaps[at + 1].from.since(self.gaps[*at].to);
        if let Some(at) = (0..self.gaps.len() - 1).min_by_key(between) {
            self.gaps[at].to = self.gaps.remove(at + 1).to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MS: Duration = Duration::from_millis(1);

    fn at(hours: u32) -> Timestamp {
        Timestamp::ZERO + hours * HOUR
    }

    fn with_gaps(gaps: &[(u32, u32)]) -> ServedTime {
        let mut time = ServedTime::default();
        gaps.iter()
            .for_each(|(from, to)| time.add_gap(at(*from), at(*to)));
        time
    }

    #[test]
    fn what_nobody_served_does_not_count() {
        let time = with_gaps(&[(10, 20), (25, 30)]);
        for (now, served, since) in [
            (40, 0, 40),
            (40, 5, 35),
            (40, 10, 30),
            (40, 11, 24),
            (40, 15, 20),
            (40, 16, 9),
            (40, 30, -5),
            // Within a gap, as a row's own time may be.
            (28, 5, 20),
            (20, 1, 9),
        ] {
            let found = time.back(at(now), served * HOUR);
            assert_eq!(found.0, since * 3_600_000, "{served} h before {now}");
        }
        assert_eq!(ServedTime::default().back(at(9), 4 * HOUR), at(5));
    }

    #[test]
    fn nothing_is_pruned_in_the_first_hour_served_after_a_jump_or_a_long_gap() {
        let mut jumped = with_gaps(&[]);
        jumped.shake(at(50));
        let day_and_more = with_gaps(&[(10, 50)]);
        for time in [jumped, day_and_more] {
            assert!(!time.may_prune(at(50)));
            assert!(!time.may_prune(at(51) - MS));
            assert!(time.may_prune(at(51)));
            let mut again = time.clone();
            again.add_gap(at(50) + HOUR / 2, at(60));
            assert!(!again.may_prune(at(60) + HOUR / 2 - MS), "not served");
            assert!(again.may_prune(at(60) + HOUR / 2));
        }
        assert!(
            with_gaps(&[(26, 50)]).may_prune(at(50)),
            "a day is not long"
        );
        assert!(ServedTime::default().may_prune(at(0)));
    }

    #[test]
    fn gaps_are_bounded_and_those_closest_to_each_other_become_one() {
        let max = u32::try_from(limits::GAPS_MAX).unwrap();
        let mut gaps: Vec<(u32, u32)> = (0..max).map(|n| (10 * n, 10 * n + 5)).collect();
        let last = gaps.last().unwrap().1;
        let full = with_gaps(&gaps);
        assert_eq!(full.gaps.len(), limits::GAPS_MAX);
        gaps.push((last + 1, last + 2));
        let merged = with_gaps(&gaps);
        assert_eq!(merged.gaps.len(), limits::GAPS_MAX);
        let newest = *merged.gaps.last().unwrap();
        assert_eq!((newest.from, newest.to), (at(last - 5), at(last + 2)));
        // Further back all is as it was, an hour later.
        let (now, served) = (at(last + 2), 6 * HOUR);
        assert_eq!(merged.back(now, served), full.back(at(last), served));
    }
}
