//! What must hold for any bytes of a stranger: one module per target, each with a function `check` that takes bytes.
//!
//! A check reads them as the product does and panics where a promise is broken. `tests/fuzz` runs each on its kept
//! corpus (`corpus/<target>`) and on what proptest makes of it; the targets of `cargo fuzz` (`/fuzz`) call the same
//! functions.

#![allow(clippy::unwrap_used)]

pub mod bodies;
pub mod certificates;
#[cfg(unix)]
pub mod files;
pub mod hrana;
pub mod http;
pub mod jobs;
pub mod ndjson;
pub mod queries;
pub mod redaction;
pub mod served;
pub mod signatures;
pub mod sql_guard;
pub mod squidrun;
pub mod tokens;

/// Every target, as its corpus and its file for `cargo fuzz` are named.
pub const TARGETS: &[&str] = &[
    "bodies",
    "certificates",
    "files",
    "hrana",
    "http",
    "jobs",
    "ndjson",
    "queries",
    "redaction",
    "signatures",
    "sql_guard",
    "squidrun",
    "tokens",
];
