//! The hub on PostgreSQL: many coordinators on one ledger, beside the same work as plain SQL, on one throw-away cluster.
//!
//! `ground` is the cluster with its coordinators; each other file measures one thing.

mod ceiling;
mod coordinators;
mod ground;
mod growth;
mod idle;
mod wakeups;

use std::path::Path;

use crate::report::PostgresReport;
use crate::settings::Settings;
use ground::Ground;

pub use ground::Word;

/// Measures everything; what fails or is missing becomes a note and takes nothing else with it.
pub fn measure(
    settings: &Settings,
    binary: &Path,
    notes: &mut Vec<String>,
) -> Option<PostgresReport> {
    let mut report = PostgresReport::default();
    let mut ground = None;
    crate::attempt("PostgreSQL: all of it", notes, || {
        ground = Some(Ground::new(settings, binary)?);
        Ok(())
    });
    let ground = ground?;
    report.version = ground.version();
    let steps: [Step; 4] = [
        ("PostgreSQL: coordinators", coordinators::measure),
        ("PostgreSQL: growth", growth::measure),
        ("PostgreSQL: wake-ups", wakeups::measure),
        ("PostgreSQL: idle", idle::measure),
    ];
    for (name, step) in steps {
        crate::attempt(name, notes, || step(&ground, &mut report));
    }
    if report.pgbench.is_empty() {
        crate::note(
            notes,
            "PostgreSQL: the ceiling by pgbench is missing".to_owned(),
        );
    }
    Some(report)
}

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut PostgresReport) -> anyhow::Result<()>,
);
