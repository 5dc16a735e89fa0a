//! The broker: how soon a sender hears that its message is kept, what connected clients cost, how soon all of them have
//! a message.
//!
//! `socket` is one client, `bare` the servers beside which the hub is measured. Each other file measures one thing.

pub mod aims;
pub mod bare;
mod crowd;
mod rates;
mod socket;
mod triggers;

use std::path::Path;

use crate::ground::Ground;
use crate::report::BrokerReport;
use crate::settings::Settings;

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut BrokerReport) -> anyhow::Result<()>,
);

/// Measures everything; what fails becomes a note and takes nothing else with it.
pub fn measure(settings: &Settings, binary: &Path, notes: &mut Vec<String>) -> BrokerReport {
    let ground = Ground { settings, binary };
    let mut report = BrokerReport::default();
    let steps: [Step; 3] = [
        ("broker: from send to ack", rates::measure),
        ("broker: a thousand clients", crowd::measure),
        ("broker: from trigger file to frame", triggers::measure),
    ];
    for (name, step) in steps {
        crate::attempt(name, notes, || step(&ground, &mut report));
    }
    report
}
