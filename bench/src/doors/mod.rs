//! The other doors: hand writes by SQL on the hub's file, requests as files.
//!
//! `ground` is what both need, `statements` what hands write; each other file measures one thing.

pub mod aims;
pub mod claims;
mod files;
pub mod ground;
mod hand_events;
mod statements;

use std::path::Path;
use std::time::Duration;

use crate::ground::Ground;
use crate::report::DoorsReport;
use crate::settings::Settings;

/// Between two rounds that are timed one by one: of varying length, so that they do not fall into step with the hub.
const PAUSE_MIN: Duration = Duration::from_millis(15);
const PAUSE_SPREAD: Duration = Duration::from_millis(25);
/// Multiples of it fall evenly between whole numbers.
const GOLDEN: f64 = 0.618_033_988_75;

/// Measures everything; what fails becomes a note and takes nothing else with it.
pub fn measure(settings: &Settings, binary: &Path, notes: &mut Vec<String>) -> DoorsReport {
    let ground = Ground { settings, binary };
    let mut report = DoorsReport::default();
    crate::attempt("doors: events of hand writes", notes, || {
        hand_events::measure(&ground, &mut report)
    });
    crate::attempt("doors: claims", notes, || {
        claims::measure(&ground, &mut report)
    });
    crate::attempt("doors: files", notes, || {
        files::measure(&ground, &mut report)
    });
    report
}

/// Waits for a time that differs from round to round.
pub fn pause(round: u64) {
    std::thread::sleep(PAUSE_MIN + PAUSE_SPREAD.mul_f64(share_of(round)));
}

/// A number from 0 to 1 that differs from round to round and meets every part of the range.
fn share_of(round: u64) -> f64 {
    (round as f64 * GOLDEN).fract()
}
