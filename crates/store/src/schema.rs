//! What the schemas of both dialects have in common: how a step is known again, and columns that need no step.

use crate::table::{self, ATTEMPTS, Column, GONE_AGENTS, HEADS, Kind, Owner, Table};
use crate::text::checksum;

/// Steps that were changed without a change for ledgers that are there: name and former checksum.
const FORMER: &[(&str, &str)] = &[
    // The document's columns did not come first.
    ("0001_ledger", "e23e287832558646"),
    ("0001_ledger", "f51b90621b4b3adc"),
];

/// Whether what was applied under this name is the step, or was it once.
pub(crate) fn is_step(name: &str, sql: &str, applied: &str) -> bool {
    applied == checksum(sql) || FORMER.contains(&(name, applied))
}

/// Statements that add the hub's own columns that are not there yet. A column of the hub's is thereby
/// described once, in [`crate::table`], and needs no step: builds that do not know it do without it.
pub(crate) fn missing(
    types: fn(Kind) -> &'static str,
    is_there: impl Fn(&Table, &Column) -> bool,
) -> Vec<String> {
    let mut statements = Vec::new();
    for table in table::public().chain([&GONE_AGENTS, &HEADS, &ATTEMPTS]) {
        for column in table.columns {
            let Some(born) = column.born.filter(|_| column.owner == Owner::Hub) else {
                continue;
            };
            if is_there(table, column) {
                continue;
            }
            let (table, name, kind) = (table.name, column.name, types(column.kind));
            let not_null = if born == "NULL" { "" } else { " NOT NULL" };
            statements.push(format!(
                "ALTER TABLE {table} ADD COLUMN {name} {kind}{not_null} DEFAULT {born}"
            ));
        }
    }
    statements
}
