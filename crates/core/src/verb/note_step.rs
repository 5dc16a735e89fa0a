//! Somebody set the wall clock: that is in the ledger, and for a while nothing is pruned.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::incident::Alarm;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteStep {
    /// How far forward; back if negative.
    pub by_ms: i64,
}

impl Verb for NoteStep {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.served_time();
        self.alarm().asks(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut time = Want::new(slice).served_time();
        time.shake(now);
        let mut changes = Changes::default();
        changes.put(time);
        let by_ms = self.by_ms.unsigned_abs();
        changes.event(match self.by_ms {
            ..0 => Event::ClockSteppedBack { by_ms },
            0.. => Event::ClockSteppedForward { by_ms },
        });
        self.alarm().raise(slice, &mut changes, now);
        Ok(((), changes))
    }
}

impl NoteStep {
    fn alarm(&self) -> Alarm {
        Alarm {
            kind: "clock_stepped",
            subject: "wall clock".to_owned(),
            corr_id: None,
            message: format!(
                "the wall clock jumped by {} ms; if it is right now, restart the hub with --clock-is-right",
                self.by_ms
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Swarm;
    use super::*;

    #[test]
    fn a_step_is_told_with_its_direction() {
        for (by_ms, event) in [
            (-5000, Event::ClockSteppedBack { by_ms: 5000 }),
            (5000, Event::ClockSteppedForward { by_ms: 5000 }),
        ] {
            let mut swarm = Swarm::new();
            swarm.ok(NoteStep { by_ms });
            assert_eq!(swarm.said.first(), Some(&event));
        }
    }
}
