//! The ledger's time: carried on by a clock that nobody sets, drawn slowly towards the one that people read.
//!
//! Arithmetic alone: whoever has clocks brings their readings.

use std::time::Duration;

use switchboard_core::{Timestamp, limits};

/// What a machine's clocks show at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The clock that people read, and set.
    pub wall: Timestamp,
    /// How long the machine has been running; also while it slept, where that is known.
    pub ran: Duration,
}

/// Which reading an instant of the ledger belongs to; kept in the ledger, for whoever serves it next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub at: Timestamp,
    pub wall: Timestamp,
    /// The start of the machine that `ran` counts from.
    pub boot: String,
    pub ran: Duration,
}

impl Mark {
    pub(crate) fn ran_ms(&self) -> i64 {
        i64::try_from(self.ran.as_millis()).unwrap_or(i64::MAX)
    }
}

/// In microseconds, so that a tenth of a short while is not nothing.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    now: i64,
    ran: i64,
    wall: i64,
    /// How far the wall clock should be ahead of the ledger's, going by what was told of it.
    ahead: i64,
    /// By how much it was set, not told yet.
    stepped: i64,
}

/// A longer time passed than anybody believes without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unbelievable {
    pub last: Timestamp,
    pub wall: Timestamp,
}

impl Steady {
    /// Goes on from what the ledger has seen. Within one start of the machine it is known how long nobody served; else
    /// the wall clock tells, how far it has come since.
    pub fn resume(mark: &Mark, boot: &str, reading: Reading, seen: Timestamp) -> Steady {
        let mark = settled(mark, seen);
        if mark.at == Timestamp::ZERO {
            return Steady::at(reading.wall, reading);
        }
        let passed = passed(&mark, boot, reading);
        let mut steady = Steady {
            now: micros(mark.at),
            ran: span(reading.ran).saturating_sub(passed),
            wall: micros(mark.wall),
            ahead: micros(mark.wall).saturating_sub(micros(mark.at)),
            stepped: 0,
        };
        steady.tell(reading, seen);
        steady
    }

    /// Takes the wall clock's word, unless the ledger is further already.
    pub fn trusting(mark: &Mark, reading: Reading, seen: Timestamp) -> Steady {
        Steady::at(reading.wall.max(settled(mark, seen).at), reading)
    }

    fn at(now: Timestamp, reading: Reading) -> Steady {
        Steady {
            now: micros(now),
            ran: span(reading.ran),
            wall: micros(reading.wall),
            ahead: micros(reading.wall).saturating_sub(micros(now)),
            stepped: 0,
        }
    }

    /// Somebody else served last, and has told how far the wall clock is ahead.
    pub fn heard(&mut self, mark: &Mark) {
        self.ahead = micros(mark.wall).saturating_sub(micros(mark.at));
    }

    /// What time it is by a reading, if the ledger has seen `seen`.
    pub fn tell(&mut self, reading: Reading, seen: Timestamp) -> Timestamp {
        let passed = self.pass(reading.ran);
        self.wall = micros(reading.wall);
        let most = passed / limits::CLOCK_SLEW;
        let off = self.wall.saturating_sub(self.now);
        let is_noise = (0..=span(limits::CLOCK_NOISE)).contains(&off);
        self.go_on(if is_noise {
            off
        } else {
            off.clamp(-most, most)
        });
        self.go_on(micros(seen).saturating_sub(self.now).max(0));
        let ahead = self.wall.saturating_sub(self.now);
        let step = ahead.saturating_sub(self.ahead);
        if step.abs() > span(limits::CLOCK_STEP) {
            self.stepped = self.stepped.saturating_add(step);
            self.ahead = ahead;
        } else if ahead.abs() <= span(limits::CLOCK_STEP) / 2 {
            // Together again: from here on a difference is a new one.
            self.ahead = 0;
        }
        self.now()
    }

    /// The same without a look at the wall clock.
    pub fn carry(&mut self, ran: Duration, seen: Timestamp) -> Timestamp {
        let passed = self.pass(ran);
        self.wall = self.wall.saturating_add(passed);
        self.go_on(micros(seen).saturating_sub(self.now).max(0));
        self.now()
    }

    /// By how many milliseconds the wall clock was set forward, or back if negative; told once.
    pub fn take_step(&mut self) -> Option<i64> {
        let step = std::mem::take(&mut self.stepped) / 1000;
        (step != 0).then_some(step)
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.now.div_euclid(1000))
    }

    pub fn wall(&self) -> Timestamp {
        Timestamp(self.wall.div_euclid(1000))
    }

    pub fn mark(&self, boot: &str) -> Mark {
        Mark {
            at: self.now(),
            wall: self.wall(),
            boot: boot.to_owned(),
            ran: Duration::from_micros(u64::try_from(self.ran).unwrap_or(0)),
        }
    }

    /// Time that passed by the clock that nobody sets.
    fn pass(&mut self, ran: Duration) -> i64 {
        let ran = span(ran);
        let passed = ran.saturating_sub(self.ran).max(0);
        self.ran = self.ran.max(ran);
        self.now = self.now.saturating_add(passed);
        passed
    }

    /// The ledger's time alone goes further, or less far.
    fn go_on(&mut self, by: i64) {
        self.now = self.now.saturating_add(by);
        self.ahead = self.ahead.saturating_sub(by);
    }
}

/// Whether more time would have passed since a mark than is believed of a machine that was started anew.
pub(crate) fn unbelievable(
    mark: &Mark,
    boot: &str,
    reading: Reading,
    seen: Timestamp,
) -> Option<Unbelievable> {
    let mark = settled(mark, seen);
    let (last, wall) = (mark.at.max(seen), reading.wall);
    let is_long = passed(&mark, boot, reading) > span(limits::OUTAGE_BELIEVED);
    let is_doubtful = mark.at > Timestamp::ZERO && !is_same_boot(&mark, boot, reading) && is_long;
    is_doubtful.then_some(Unbelievable { last, wall })
}

/// A ledger of before there were marks followed the wall clock.
fn settled(mark: &Mark, seen: Timestamp) -> Mark {
    match mark.at {
        Timestamp::ZERO => Mark {
            at: seen,
            wall: seen,
            ..Mark::default()
        },
        _ => mark.clone(),
    }
}

fn is_same_boot(mark: &Mark, boot: &str, reading: Reading) -> bool {
    !boot.is_empty() && mark.boot == boot && mark.ran <= reading.ran
}

/// How long ago a mark was made.
fn passed(mark: &Mark, boot: &str, reading: Reading) -> i64 {
    match is_same_boot(mark, boot, reading) {
        true => span(reading.ran - mark.ran),
        false => span(reading.wall.since(mark.wall)),
    }
}

fn micros(at: Timestamp) -> i64 {
    at.0.saturating_mul(1000)
}

fn span(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1000;
    const HOUR: i64 = 3600 * SECOND;
    const DAY: i64 = 24 * HOUR;
    /// It is this late when the machine has run for a day.
    const START: i64 = 1_768_000_000_000;

    /// So long after the start, by a wall clock that is so far ahead.
    fn reading(passed: i64, ahead: i64) -> Reading {
        Reading {
            wall: Timestamp(START + passed + ahead),
            ran: Duration::from_millis((DAY + passed).unsigned_abs()),
        }
    }

    fn begun() -> Steady {
        Steady::resume(&Mark::default(), "boot", reading(0, 0), Timestamp::ZERO)
    }

    /// How far the ledger has come since the start, and what step is told.
    fn tell(steady: &mut Steady, passed: i64, ahead: i64) -> (i64, Option<i64>) {
        let now = steady.tell(reading(passed, ahead), Timestamp::ZERO);
        (now.0 - START, steady.take_step())
    }

    #[test]
    fn a_step_is_told_once_and_followed_by_a_tenth_of_the_time_that_passes() {
        for far in [30 * SECOND, HOUR, 25 * HOUR, 400 * DAY] {
            for step in [far, -far] {
                let mut steady = begun();
                assert_eq!(tell(&mut steady, 10 * SECOND, 0), (10 * SECOND, None));
                assert_eq!(
                    tell(&mut steady, 10 * SECOND, step),
                    (10 * SECOND, Some(step)),
                    "{step}"
                );
                let drawn = SECOND * step.signum();
                let expected = (20 * SECOND + drawn, None);
                assert_eq!(tell(&mut steady, 20 * SECOND, step), expected, "{step}");
                let expected = (30 * SECOND + 2 * drawn, None);
                assert_eq!(tell(&mut steady, 30 * SECOND, step), expected, "{step}");
                // Put right again.
                let after = (30 * SECOND + 2 * drawn, Some(-step));
                assert_eq!(tell(&mut steady, 30 * SECOND, 0), after, "{step}");
                assert_eq!(tell(&mut steady, 90 * SECOND, 0), (90 * SECOND, None));
            }
        }
    }

    #[test]
    fn where_the_wall_is_reached_time_goes_with_it() {
        let mut steady = begun();
        assert_eq!(tell(&mut steady, 0, 3 * SECOND), (0, Some(3 * SECOND)));
        for second in 1..=60 {
            // What is left in the end is no more than readings differ by.
            let gained = match second {
                ..=28 => second * SECOND / 10,
                _ => 3 * SECOND,
            };
            let expected = (second * SECOND + gained, None);
            assert_eq!(tell(&mut steady, second * SECOND, 3 * SECOND), expected);
        }
    }

    #[test]
    fn two_seconds_are_no_step_and_what_creeps_is_followed() {
        let mut steady = begun();
        assert_eq!(tell(&mut steady, 0, 2 * SECOND).1, None);
        assert_eq!(tell(&mut steady, 0, 2 * SECOND + 1).1, Some(2 * SECOND + 1));
        // A clock that goes wrong by a thousandth, for days, was never set.
        let mut steady = begun();
        for look in 0..DAY / SECOND {
            let (passed, ahead) = (look * 5 * SECOND, look * 5);
            let (now, step) = tell(&mut steady, passed, ahead);
            assert_eq!((now - passed - ahead, step), (0, None), "look {look}");
        }
        // Steps that are small one by one.
        let mut steady = begun();
        let told = (0..9).filter_map(|n| tell(&mut steady, n, n * 1500).1);
        assert_eq!(told.sum::<i64>(), 8 * 1500);
    }

    #[test]
    fn short_spans_add_up_to_the_same() {
        let mut steady = begun();
        assert_eq!(tell(&mut steady, 0, HOUR).1, Some(HOUR));
        for ms in 1..=10 * SECOND {
            tell(&mut steady, ms, HOUR);
        }
        assert_eq!(tell(&mut steady, 10 * SECOND, HOUR).0, 11 * SECOND);
    }

    #[test]
    fn what_the_ledger_has_seen_is_never_taken_back() {
        let mut steady = begun();
        let seen = Timestamp(START + 5 * SECOND);
        assert_eq!(steady.tell(reading(SECOND, 0), seen), seen);
        assert_eq!(steady.take_step(), None, "nobody set a clock");
        let slowed = steady.tell(reading(11 * SECOND, 0), seen).0 - START;
        assert_eq!(slowed, 14 * SECOND);
        // A reading from before.
        assert_eq!(steady.tell(reading(2 * SECOND, 0), seen).0, START + slowed);
    }

    #[test]
    fn a_restart_is_as_if_it_had_run_through() {
        for ahead_before in [0, HOUR] {
            for ahead in [0, -HOUR, HOUR, 400 * DAY] {
                let mut through = begun();
                tell(&mut through, 0, ahead_before);
                let mark = through.mark("boot");
                let later = reading(10 * SECOND, ahead);
                let mut anew = Steady::resume(&mark, "boot", later, Timestamp::ZERO);
                let expected = tell(&mut through, 10 * SECOND, ahead);
                assert_eq!((anew.now().0 - START, anew.take_step()), expected);
            }
        }
    }

    #[test]
    fn after_a_start_of_the_machine_the_wall_tells_how_long_it_was_down() {
        let mut before = begun();
        tell(&mut before, 0, HOUR);
        for (marked, down, ahead, now, step) in [
            (Mark::default(), 10 * DAY, 0, 10 * DAY, None),
            (before.mark("boot"), 10 * DAY, HOUR, 10 * DAY + HOUR, None),
            (before.mark("boot"), 10 * SECOND, HOUR, 11 * SECOND, None),
            // Down for ten seconds and set back.
            (
                before.mark("boot"),
                10 * SECOND,
                0,
                0,
                Some(10 * SECOND - HOUR),
            ),
        ] {
            let mut reading = reading(down, ahead);
            reading.ran = Duration::from_secs(1);
            let mut steady = Steady::resume(&marked, "other", reading, Timestamp(START));
            assert_eq!((steady.now().0 - START, steady.take_step()), (now, step));
        }
    }

    #[test]
    fn thirty_days_are_believed_and_more_only_of_a_machine_that_ran() {
        let mark = begun().mark("boot");
        for (boot, down, is_believed) in [
            ("other", 30 * DAY, true),
            ("other", 30 * DAY + 1, false),
            ("boot", 400 * DAY, true),
            ("", 30 * DAY + 1, false),
        ] {
            for mark in [mark.clone(), Mark::default()] {
                let is_believed = is_believed && (mark.at.0 > 0 || down == 30 * DAY);
                let (reading, seen) = (reading(down, 0), Timestamp(START));
                let doubt = unbelievable(&mark, boot, reading, seen);
                let (last, wall) = (seen, reading.wall);
                let expected = (!is_believed).then_some(Unbelievable { last, wall });
                assert_eq!(doubt, expected, "{boot} {down}");
                let mut trusting = Steady::trusting(&mark, reading, seen);
                assert_eq!(trusting.now(), wall);
                assert_eq!(trusting.take_step(), None);
            }
        }
        let fresh = unbelievable(&Mark::default(), "b", reading(0, 0), Timestamp::ZERO);
        assert_eq!(fresh, None, "a ledger that has seen nothing");
    }
}
