//! A hub says that it serves the ledger; a gap means that nobody did, and then silence does not count.

use super::Verb;
use crate::changes::{Changes, Served};
use crate::event::Event;
use crate::head::Head;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serve {
    /// This process has just begun: whatever happened before, agents could not reach it.
    pub starting: bool,
}

impl Verb for Serve {
    /// Whether an outage ended with this.
    type Reply = bool;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let head = &want.slice().head;
        if is_gap(head, now) && head.served_at > Timestamp::ZERO {
            want.served_time();
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(bool, Changes), Refusal> {
        let served_at = slice.head.served_at;
        let gap = is_gap(&slice.head, now);
        let outage = self.starting || gap;
        let mut changes = Changes {
            served: Some(Served {
                at: now,
                floor: outage.then_some(now),
            }),
            ..Changes::default()
        };
        if gap && served_at > Timestamp::ZERO {
            let mut time = Want::new(slice).served_time();
            time.add_gap(served_at, now);
            changes.put(time);
            changes.event(Event::OutageEnded { served_at });
        }
        Ok((outage, changes))
    }
}

/// Nobody has said for too long that they serve.
fn is_gap(head: &Head, now: Timestamp) -> bool {
    now.since(head.served_at) > limits::SERVED_GAP_MAX
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::Swarm;
    use super::*;
    use crate::record::Listed;
    use crate::served::ServedTime;

    const SERVE: Serve = Serve { starting: false };
    const START: Serve = Serve { starting: true };

    #[test]
    fn a_gap_of_more_than_ten_seconds_is_an_outage() {
        for (gap, outage) in [
            (limits::SERVED_GAP_MAX - Duration::from_millis(1), false),
            (limits::SERVED_GAP_MAX, false),
            (limits::SERVED_GAP_MAX + Duration::from_millis(1), true),
        ] {
            let mut swarm = Swarm::new();
            swarm.ok(START);
            let floor = swarm.head.floor;
            swarm.wait(gap);
            assert_eq!(swarm.ok(SERVE), outage, "{gap:?}");
            assert_eq!(swarm.head.served_at, swarm.now);
            let expected = if outage { swarm.now } else { floor };
            assert_eq!(swarm.head.floor, expected, "{gap:?}");
            assert_eq!(swarm.said().contains(&"outage_ended"), outage, "{gap:?}");
        }
    }

    #[test]
    fn an_outage_is_time_that_makes_no_row_older() {
        let mut swarm = Swarm::new();
        swarm.ok(START);
        let stopped_at = swarm.now;
        swarm.wait(Duration::from_secs(3600));
        swarm.ok(START);
        let mut time = ServedTime::default();
        time.add_gap(stopped_at, swarm.now);
        assert_eq!(swarm.records.get(&ServedTime::at("")), Some(&time.into()));
    }

    #[test]
    fn a_start_is_an_outage_however_short_and_no_event() {
        let mut swarm = Swarm::new();
        swarm.ok(SERVE);
        swarm.wait(Duration::from_secs(1));
        assert!(swarm.ok(START));
        assert_eq!(swarm.head.floor, swarm.now);
        assert!(!swarm.said().contains(&"outage_ended"));
    }
}
