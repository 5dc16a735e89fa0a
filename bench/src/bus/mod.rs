//! The bus: what connected workers cost, how much it carries, how soon others hear of it.
//!
//! `frames` prints what is sent, `link` is one blocking connection, `crowd` a great many that
//! beat, `stream` a few that send as fast as they can, `lines` the bare echo beside which the hub is measured. Each other file
//! measures one thing.

pub mod aims;
mod crowd;
mod descriptors;
mod frames;
pub mod lines;
mod link;
mod rates;
mod scale;
mod screen;
mod slow;
mod standing;
mod stream;

use std::path::Path;

pub use descriptors::make_room;
pub use scale::Scale;

use crate::ground::Ground;
use crate::report::BusReport;
use crate::settings::Settings;

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut BusReport) -> anyhow::Result<()>,
);

/// Measures everything; what fails becomes a note and takes nothing else with it.
pub fn measure(settings: &Settings, binary: &Path, notes: &mut Vec<String>) -> BusReport {
    let ground = Ground { settings, binary };
    let mut report = BusReport::default();
    let steps: [Step; 5] = [
        ("bus: workers that only report", standing::measure_reporting),
        (
            "bus: workers that wait for tasks",
            standing::measure_waiting,
        ),
        ("bus: the rate of heartbeats", rates::measure),
        ("bus: heartbeats on the operator's screen", screen::measure),
        ("bus: an operator that does not read", slow::measure),
    ];
    for (name, step) in steps {
        crate::attempt(name, notes, || step(&ground, &mut report));
    }
    report
}
