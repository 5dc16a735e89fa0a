//! What an operation costs in things that do not depend on the machine, measured on a hub in this process.
//!
//! [`Bench`] serves a ledger through [`meter::Metered`] and reads the counters around one call at a time. Each figure stands
//! for many calls of the same kind, because now and then a table of hashes grows, a page is split or pruned.
//! `costs.md` holds what was measured last; the test compares.

mod bench;
mod client;
pub mod ground;
pub mod meter;
pub mod table;

pub use bench::Bench;
