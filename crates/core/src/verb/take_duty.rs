//! A coordinator takes a duty that nobody has, or renews its own; or it gives it up.

use super::Verb;
use crate::changes::Changes;
use crate::duty::Duty;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeDuty {
    pub duty: &'static str,
    pub me: String,
    /// What others are to know, as long as this one has it.
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveDuty {
    pub duty: &'static str,
    pub me: String,
    pub epoch: u64,
}

impl Verb for TakeDuty {
    /// As it is now, whoever has it.
    type Reply = Duty;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Duty>(self.duty);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Duty, Changes), Refusal> {
        let known = Want::new(slice).private::<Duty>(self.duty);
        let held = known.filter(|duty| duty.is_held(now));
        let mut changes = Changes::default();
        if let Some(other) = held.filter(|duty| duty.holder != self.me) {
            return Ok((other.clone(), changes));
        }
        // One that was lost for a moment is a new one: in that moment it was anybody's.
        let epoch = match held {
            Some(mine) => mine.epoch,
            None => known.map_or(0, |duty| duty.epoch) + 1,
        };
        let note = self.note.clone();
        let note = note.or_else(|| known.map(|duty| duty.note.clone()));
        let duty = Duty {
            name: self.duty.to_owned(),
            holder: self.me.clone(),
            epoch,
            until: now + limits::DUTY_FOR,
            note: note.unwrap_or_default(),
        };
        changes.put(duty.clone());
        Ok((duty, changes))
    }
}

impl Verb for LeaveDuty {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Duty>(self.duty);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        let known = Want::new(slice).private::<Duty>(self.duty);
        if let Some(mine) = known.filter(|duty| duty.holder == self.me && duty.epoch == self.epoch)
        {
            changes.put(Duty {
                until: mine.until.min(now),
                ..mine.clone()
            });
        }
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, word};
    use super::*;
    use crate::duty::Fence;

    const DUTY: &str = "compact";
    const TICK: Duration = Duration::from_millis(1);

    fn take(me: &str) -> TakeDuty {
        TakeDuty {
            duty: DUTY,
            me: me.to_owned(),
            note: None,
        }
    }

    /// A verb of a holder, which changes something.
    struct Fenced(Fence);

    impl Verb for Fenced {
        type Reply = ();

        fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
            self.0.ask(want);
        }

        fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
            self.0.check(slice, now)?;
            let mut changes = Changes::default();
            changes.event(crate::Event::ClockSteppedBack { by_ms: 1 });
            Ok(((), changes))
        }
    }

    #[test]
    fn who_may_take_it_and_under_which_epoch() {
        let lasts = limits::DUTY_FOR;
        for (after, by, holder, epoch) in [
            (Duration::ZERO, "a", "a", 1),
            (Duration::ZERO, "b", "a", 1),
            (lasts - TICK, "a", "a", 1),
            (lasts - TICK, "b", "a", 1),
            (lasts, "a", "a", 2),
            (lasts, "b", "b", 2),
            (lasts + TICK, "a", "a", 2),
            (lasts + TICK, "b", "b", 2),
        ] {
            let mut swarm = Swarm::new();
            let first = swarm.ok(take("a"));
            assert_eq!((&*first.holder, first.epoch), ("a", 1), "nobody had it");
            assert_eq!(first.until, swarm.now + lasts);
            swarm.wait(after);
            let now = swarm.ok(take(by));
            assert_eq!((&*now.holder, now.epoch), (holder, epoch), "{by} {after:?}");
            let until = if holder == by {
                swarm.now
            } else {
                swarm.now - after
            };
            assert_eq!(now.until, until + lasts, "{by} {after:?}");
        }
    }

    #[test]
    fn a_holder_that_renews_keeps_it_and_what_it_noted_is_told() {
        let mut swarm = Swarm::new();
        let noted = TakeDuty {
            note: Some("half way".to_owned()),
            ..take("a")
        };
        swarm.ok(noted);
        for _ in 0..9 {
            swarm.wait(limits::DUTY_FOR - TICK);
            assert_eq!(swarm.ok(take("a")).epoch, 1);
            assert_eq!(swarm.ok(take("b")).note, "half way");
        }
        swarm.wait(limits::DUTY_FOR);
        let taken = swarm.ok(take("b"));
        assert_eq!(
            (taken.epoch, &*taken.note),
            (2, "half way"),
            "it goes on there"
        );
    }

    #[test]
    fn who_gives_it_up_need_not_be_waited_for_and_nobody_gives_up_what_others_have() {
        let leave = |me: &str, epoch| LeaveDuty {
            duty: DUTY,
            me: me.to_owned(),
            epoch,
        };
        for (by, epoch, is_free) in [("a", 1, true), ("a", 2, false), ("b", 1, false)] {
            let mut swarm = Swarm::new();
            swarm.ok(leave(by, epoch));
            swarm.ok(take("a"));
            swarm.ok(leave(by, epoch));
            let taken = swarm.ok(take("b"));
            assert_eq!(taken.holder == "b", is_free, "{by} {epoch}");
        }
    }

    #[test]
    fn what_carries_a_stale_epoch_is_refused_and_changes_nothing() {
        let fenced = |epoch| Fenced(Fence { duty: DUTY, epoch });
        let mut swarm = Swarm::new();
        assert_eq!(word(&swarm.run(fenced(1))), "duty_lost", "nobody has it");
        swarm.ok(take("a"));
        for (epoch, is_done) in [(0, false), (1, true), (2, false)] {
            let before = swarm.head.seq;
            assert_eq!(swarm.run(fenced(epoch)).is_ok(), is_done, "{epoch}");
            assert_eq!(swarm.head.seq > before, is_done, "{epoch}");
        }
        swarm.wait(limits::DUTY_FOR - TICK);
        assert!(swarm.run(fenced(1)).is_ok());
        swarm.wait(TICK);
        assert_eq!(word(&swarm.run(fenced(1))), "duty_lost", "by silence");
        swarm.ok(take("b"));
        assert_eq!(word(&swarm.run(fenced(1))), "duty_lost", "another has it");
        assert!(swarm.run(fenced(2)).is_ok());
    }
}
