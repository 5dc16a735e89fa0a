//! The other doors: direct SQL on the hub's file, libSQL over HTTP, requests as files.
//!
//! `rows` is what comes out of it, `ground` a hub with its file and directories; `statements`, `sql_client` and `bare` are what
//! direct clients do and where; each other file measures one thing.

pub mod aims;
mod bare;
mod claims;
mod files;
mod ground;
mod hand_events;
mod libsql;
mod mixed;
mod others;
pub mod rows;
mod sql_client;
mod statements;
pub mod table;
mod verbatim;

use std::path::Path;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::settings::Settings;
use ground::Ground;
use rows::{DoorsReport, WaitRow};

/// Between two rounds that are timed one by one: of varying length, so that they do not fall into step with the hub.
const PAUSE_MIN: Duration = Duration::from_millis(15);
const PAUSE_SPREAD: Duration = Duration::from_millis(25);
/// Multiples of it fall evenly between whole numbers.
const GOLDEN: f64 = 0.618_033_988_75;

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut DoorsReport) -> anyhow::Result<()>,
);

/// Measures everything; what fails becomes a note and takes nothing else with it.
pub fn measure(settings: &Settings, binary: &Path, notes: &mut Vec<String>) -> DoorsReport {
    let ground = Ground { settings, binary };
    let mut report = DoorsReport::default();
    let steps: [Step; 6] = [
        ("claims by SQL", claims::measure),
        ("the document's claim", verbatim::measure),
        ("HTTP while SQL clients work", mixed::measure),
        ("events of hand writes", hand_events::measure),
        ("files", files::measure),
        ("libSQL", libsql::measure),
    ];
    for (name, step) in steps {
        if let Err(error) = step(&ground, &mut report) {
            let words = format!("doors: {name} WAS LEFT OUT: {error:#}");
            crate::progress(format_args!("{words}"));
            notes.push(words);
        }
    }
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

fn wait_row(of: &str, waited: &Histogram) -> WaitRow {
    WaitRow {
        of: of.to_owned(),
        rounds: waited.total(),
        p50_ms: waited.quantile_ms(0.5).unwrap_or(f64::NAN),
        p99_ms: waited.quantile_ms(0.99).unwrap_or(f64::NAN),
        longest_ms: waited.longest_ms(),
    }
}
