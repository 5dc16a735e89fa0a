//! The bus: what connected workers cost, how much it carries, how soon others hear of it.
//!
//! `rows` is what comes out of it, `ground` a hub with an open bus. `frames` prints what is sent, `link` is one blocking
//! connection, `crowd` a great many that beat, `stream` a few that send as fast as they can, `hand` one that takes tasks, `lines`
//! the bare servers beside which the hub is measured. Each other file measures one thing.

pub mod aims;
mod crowd;
mod cycles;
mod descriptors;
mod frames;
mod ground;
mod hand;
pub mod lines;
mod link;
mod meter;
mod offers;
mod rates;
pub mod rows;
mod scale;
mod screen;
mod slow;
mod standing;
mod stream;
pub mod table;

use std::path::Path;

pub use scale::Scale;

use crate::settings::Settings;
use ground::Ground;
use rows::BusReport;

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut BusReport) -> anyhow::Result<()>,
);

/// Measures everything; what fails becomes a note and takes nothing else with it.
pub fn measure(settings: &Settings, binary: &Path, notes: &mut Vec<String>) -> BusReport {
    let ground = Ground { settings, binary };
    let mut report = BusReport::default();
    let steps: [Step; 7] = [
        ("workers that only report", standing::measure_reporting),
        ("workers that wait for tasks", standing::measure_waiting),
        ("the rate of heartbeats", rates::measure),
        ("heartbeats on the operator's screen", screen::measure),
        ("tasks to idle workers", offers::measure),
        ("tasks through the bus", cycles::measure),
        ("an operator that does not read", slow::measure),
    ];
    for (name, step) in steps {
        if let Err(error) = step(&ground, &mut report) {
            let words = format!("bus: {name} WAS LEFT OUT: {error:#}");
            crate::progress(format_args!("{words}"));
            notes.push(words);
        }
    }
    report
}
