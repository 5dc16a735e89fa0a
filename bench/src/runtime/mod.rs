//! Two nodes of one swarm: how fast events go from one to the other, how soon they are there, what waiting for them costs.
//!
//! `nodes` is two hubs that are joined, `bare` the copy beside which they are measured. Each other file measures one thing.

pub mod aims;
pub mod bare;
mod catch_up;
mod flow;
mod idle;
mod lag;
mod nodes;

use std::path::Path;

use crate::ground::Ground;
use crate::report::RuntimeReport;
use crate::settings::Settings;

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut RuntimeReport) -> anyhow::Result<()>,
);

/// Measures everything; what fails becomes a note and takes nothing else with it.
pub fn measure(settings: &Settings, binary: &Path, notes: &mut Vec<String>) -> RuntimeReport {
    let ground = Ground { settings, binary };
    let mut report = RuntimeReport::default();
    let steps: [Step; 5] = [
        ("runtime: from node to node", flow::measure),
        ("runtime: lag", lag::measure),
        ("runtime: catching up", catch_up::measure),
        ("runtime: nodes that wait", idle::measure),
        ("runtime: claims beside a node", idle::measure_claims),
    ];
    for (name, step) in steps {
        crate::attempt(name, notes, || step(&ground, &mut report));
    }
    report
}
