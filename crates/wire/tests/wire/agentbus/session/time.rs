//! How often, how late, how long.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_wire::agentbus::session::{CloseReason, FAULTS_MAX, LATE_AFTER, Limits, Rate};
use switchboard_wire::agentbus::{ErrorCode, Flag};

use super::{SECOND, Seen, Wire, beat, set, with};

#[test]
fn a_hello_has_to_come_within_five_seconds() {
    let mut wire = Wire::new(Limits::default());
    assert_eq!(wire.session.due_at(), Some(5 * SECOND));
    assert_eq!(wire.tick_at(5 * SECOND - 1), Seen::default());
    let seen = wire.tick_at(5 * SECOND);
    assert_eq!(seen.code(), Some(ErrorCode::HelloRequired));
    assert_eq!(seen.close, Some(CloseReason::HelloLate));

    let mut wire = Wire::new(Limits::default());
    wire.now = 5 * SECOND - 1;
    wire.welcome();
    assert_eq!(wire.tick_at(6 * SECOND), Seen::default());
}

#[test]
fn an_oversize_line_is_flagged_and_repeated_abuse_closes() {
    let mut wire = Wire::open();
    for count in 1..=FAULTS_MAX {
        let seen = Seen::of(wire.session.oversize(wire.now));
        assert_eq!(seen.flags, [Flag::TooLarge]);
        assert_eq!(seen.code(), Some(ErrorCode::TooLarge));
        let end = (count == FAULTS_MAX).then_some(CloseReason::Abuse);
        assert_eq!(seen.close, end, "{count}");
        if end.is_none() {
            let seq = u64::try_from(count).expect("small") + 1;
            assert!(wire.say(&beat(seq)).accepted.is_some());
        }
    }
}

#[test]
fn faults_that_lie_far_apart_are_forgiven() {
    let mut wire = Wire::open();
    let every = 60 * SECOND / (FAULTS_MAX as u64 - 1);
    for _ in 0..200 {
        wire.now += every;
        let seen = wire.bytes(b"nonsense");
        assert_eq!((seen.flags, seen.close), (vec![Flag::BadJson], None));
    }
    assert_eq!(wire.bytes(b"nonsense").close, Some(CloseReason::Abuse));
}

#[test]
fn a_flood_is_told_once_dropped_and_at_last_cut_off() {
    let rate = Rate {
        per_second: 10,
        burst: 20,
    };
    let limits = || Limits {
        rate: Some(rate),
        ..Limits::default()
    };
    let mut wire = Wire::new(limits());
    wire.welcome();
    let mut seq = 1;
    let mut flood = |wire: &mut Wire, frames: usize| {
        (0..frames)
            .map(|_| {
                seq += 1;
                wire.say(&beat(seq))
            })
            .collect::<Vec<_>>()
    };
    // The hello was one of the burst.
    let seen = flood(&mut wire, 19);
    assert!(seen.iter().all(|seen| seen.accepted.is_some()));
    let dropped = flood(&mut wire, 20);
    assert_eq!(dropped[0].code(), Some(ErrorCode::RateLimited));
    assert!(
        dropped
            .iter()
            .all(|seen| seen.accepted.is_none() && seen.close.is_none())
    );
    assert!(dropped[1..].iter().all(|seen| seen.error.is_none()));
    let last = flood(&mut wire, 1).pop().expect("one");
    assert_eq!(last.close, Some(CloseReason::RateLimited));

    // Who slows down is served again, and one frame in a hundred milliseconds always is.
    let mut wire = Wire::new(limits());
    wire.welcome();
    let mut seq = 1;
    for _ in 0..30 {
        seq += 1;
        let _ = wire.say(&beat(seq));
    }
    for _ in 0..100 {
        wire.now += 100;
        seq += 1;
        assert!(wire.say(&beat(seq)).accepted.is_some());
    }
}

#[test]
fn a_quiet_worker_is_asked_once_and_then_given_up() {
    // agentbus.heartbeat.ttl
    let mut wire = Wire::open();
    assert_eq!(wire.session.due_at(), Some(75 * SECOND));
    assert_eq!(wire.tick_at(75 * SECOND - 1), Seen::default());
    let asked = wire.tick_at(75 * SECOND);
    let probe: Value = serde_json::from_str(&asked.sent.expect("a probe")).expect("JSON");
    assert_eq!(probe["answer_within_seconds"], 15);
    assert_eq!(wire.session.due_at(), Some(90 * SECOND + 1));
    assert_eq!(wire.tick_at(80 * SECOND), Seen::default());
    assert_eq!(wire.tick_at(90 * SECOND), Seen::default());
    let end = wire.tick_at(90 * SECOND + 1);
    assert_eq!(
        (end.close, end.flags),
        (Some(CloseReason::Silent), vec![Flag::Silent])
    );
}

#[test]
fn a_heartbeat_answers_the_probe_and_only_sound_frames_count() {
    let mut wire = Wire::open();
    assert!(wire.tick_at(75 * SECOND).sent.is_some());
    wire.now = 89 * SECOND;
    assert!(wire.say(&beat(2)).accepted.is_some());
    assert_eq!(wire.session.due_at(), Some((89 + 75) * SECOND));
    assert_eq!(wire.tick_at(100 * SECOND), Seen::default());
    // Noise is no sign of life.
    wire.now = 160 * SECOND;
    let _ = wire.bytes(b"nonsense");
    let _ = wire.say(&beat(2));
    assert!(wire.tick_at((89 + 75) * SECOND).sent.is_some());
    assert_eq!(
        wire.tick_at((89 + 91) * SECOND).close,
        Some(CloseReason::Silent)
    );
}

#[test]
fn a_hub_that_was_away_asks_and_waits_an_interval_before_it_gives_a_worker_up() {
    let late = LATE_AFTER.as_millis() as u64;
    // Frozen before it could ask, and between asking and giving up.
    for asked in [false, true] {
        let due = if asked { 90 * SECOND + 1 } else { 75 * SECOND };
        for (after, is_away) in [
            (late - 1, false),
            (late, false),
            (late + 1, true),
            (500 * SECOND, true),
        ] {
            let mut wire = Wire::open();
            if asked {
                assert!(wire.tick_at(75 * SECOND).sent.is_some());
            }
            let now = due + after;
            let seen = wire.tick_at(now);
            let gives_up = asked && !is_away;
            assert_eq!(seen.close.is_some(), gives_up, "{asked} {after}");
            if gives_up {
                continue;
            }
            assert!(seen.sent.is_some(), "{asked} {after}");
            if !is_away {
                continue;
            }
            assert_eq!(wire.session.due_at(), Some(now + 15 * SECOND));
            assert_eq!(wire.tick_at(now + 15 * SECOND - 1), Seen::default());
            let end = wire.tick_at(now + 15 * SECOND);
            assert_eq!(end.close, Some(CloseReason::Silent));
        }
    }
    let mut wire = Wire::open();
    assert!(wire.tick_at(500 * SECOND).sent.is_some());
    wire.now = 501 * SECOND;
    assert!(wire.say(&beat(2)).accepted.is_some());
    assert_eq!(
        wire.session.due_at(),
        Some((501 + 75) * SECOND),
        "all is well"
    );
}

#[test]
fn a_probe_never_comes_before_half_the_limit() {
    for (ttl, every, after) in [(90, 15, 75), (20, 15, 10), (10, 15, 5), (90, 90, 45)] {
        let limits = Limits {
            silent_after: Duration::from_secs(ttl),
            heartbeat_every: Duration::from_secs(every),
            ..Limits::default()
        };
        assert_eq!(limits.probe_after(), Duration::from_secs(after));
    }
}

#[test]
fn skewed_clocks_are_tolerated() {
    let mut wire = Wire::open();
    for (seq, at) in (2..).zip([
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2026-02-12T00:00:00Z",
    ]) {
        let mut frame = with(beat(seq), "/sent_at", json!(at));
        set(&mut frame, "/payload/state/last_update_at", json!(at));
        let seen = wire.say(&frame);
        assert!(seen.accepted.is_some() && seen.flags.is_empty(), "{at}");
    }
}
