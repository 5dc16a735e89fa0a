//! Direct SQL on PostgreSQL: what a hand may write, what is refused, and that the ledger counts right after all of it.

#![allow(clippy::unwrap_used)]

mod desk;
mod guards;
mod laws;
mod turns;
mod words;
