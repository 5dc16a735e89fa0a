//! Caretaker: a pause that has an end is over, and those who wait for work are woken.
//!
//! Claims know by themselves when it ends. But whoever claims by SQL looks at the row alone: so it is taken away.

use super::Verb;
use crate::changes::Changes;
use crate::director::Director;
use crate::event::Event;
use crate::id::HUB;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndCooldown;

impl Verb for EndCooldown {
    /// When the one that holds ends.
    type Reply = Option<Timestamp>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Director>("");
    }

    fn decide(
        &self,
        slice: &Slice,
        now: Timestamp,
    ) -> Result<(Option<Timestamp>, Changes), Refusal> {
        let mut changes = Changes::default();
        let Some(told) = Want::new(slice).private::<Director>("") else {
            return Ok((None, changes));
        };
        if told.cooldown_until.is_none_or(|until| until > now) {
            return Ok((told.cooldown_until, changes));
        }
        let mut director = told.clone();
        director.end_cooldown();
        changes.event(Event::DirectorSteered {
            by: HUB.to_owned(),
            order: "cooldown_ended".to_owned(),
            reason: "its time is over".to_owned(),
        });
        changes.put(director);
        Ok((None, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::Swarm;
    use super::super::{Order, Steer};
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn it_ends_in_its_time_and_not_before() {
        let tick = Duration::from_millis(1);
        for (after, is_over) in [
            (MINUTE - tick, false),
            (MINUTE, true),
            (MINUTE + tick, true),
        ] {
            let mut swarm = Swarm::new();
            assert_eq!(swarm.ok(EndCooldown), None, "there is none");
            let until = swarm.now + MINUTE;
            swarm.ok(Steer {
                by: "desk".to_owned(),
                reason: "a deploy".to_owned(),
                order: Order::PauseUntil(until),
            });
            swarm.wait(after);
            let expected = (!is_over).then_some(until);
            assert_eq!(swarm.ok(EndCooldown), expected, "{after:?}");
            let said: &[&str] = if is_over { &["director_steered"] } else { &[] };
            assert_eq!(swarm.said(), said, "{after:?}");
            assert_eq!(swarm.ok(EndCooldown), expected, "{after:?}");
            assert!(swarm.said().is_empty(), "told once");
        }
    }
}
