//! The hub on PostgreSQL: many coordinators on one ledger, beside the same work as plain SQL, on one throw-away cluster.
//!
//! `rows` is what comes out of it, `ground` is the cluster with its coordinators; each other file measures one thing.

mod ceiling;
mod coordinators;
mod cpu_split;
mod ground;
mod growth;
mod idle;
pub mod rows;
pub mod table;
mod wakeups;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::anyhow;

use crate::settings::Settings;
use ground::Ground;
use rows::PostgresReport;

pub use ground::Word;
pub use wakeups::Between;

/// Measures everything; what fails or is missing becomes a note and takes nothing else with it.
pub fn measure(
    settings: &Settings,
    binary: &Path,
    notes: &mut Vec<String>,
) -> Option<PostgresReport> {
    let mut report = PostgresReport::default();
    let mut ground = None;
    attempt("all of it", notes, || {
        ground = Some(Ground::new(settings, binary)?);
        Ok(())
    });
    let ground = ground?;
    report.version = ground.version();
    if let Some(warning) = ground.is_in_memory() {
        tell(notes, warning);
    }
    let steps: [Step; 4] = [
        ("coordinators", coordinators::measure),
        ("growth", growth::measure),
        ("wake-ups", wakeups::measure),
        ("idle", idle::measure),
    ];
    for (name, step) in steps {
        attempt(name, notes, || step(&ground, &mut report));
    }
    if report.pgbench.is_empty() {
        tell(notes, "the ceiling by pgbench is missing".to_owned());
    }
    Some(report)
}

type Step = (
    &'static str,
    fn(&Ground<'_>, &mut PostgresReport) -> anyhow::Result<()>,
);

/// Does one thing. The cluster's crate panics with the server's words; these become a note like any other failure.
fn attempt(name: &str, notes: &mut Vec<String>, thing: impl FnOnce() -> anyhow::Result<()>) {
    let done = catch_unwind(AssertUnwindSafe(thing));
    let done = done.unwrap_or_else(|panic| Err(anyhow!(words_of(&*panic))));
    if let Err(error) = done {
        tell(notes, format!("{name} WAS LEFT OUT: {error:#}"));
    }
}

fn tell(notes: &mut Vec<String>, words: String) {
    crate::progress(format_args!("PostgreSQL: {words}"));
    notes.push(format!("PostgreSQL: {words}"));
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
    words.unwrap_or_else(|| "it panicked without a word".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_and_a_panic_become_notes_with_their_words() {
        let mut notes = Vec::new();
        attempt("one", &mut notes, || Err(anyhow!("the disk is full")));
        attempt("two", &mut notes, || panic!("{} does not start", "initdb"));
        attempt("three", &mut notes, || Ok(()));
        assert_eq!(
            notes,
            [
                "PostgreSQL: one WAS LEFT OUT: the disk is full",
                "PostgreSQL: two WAS LEFT OUT: initdb does not start"
            ]
        );
    }
}
