//! Direct SQL on the file: what a hand may write, what is refused, and that the ledger counts right after all of it.

#![allow(clippy::unwrap_used)]

mod desk;
mod guards;
mod laws;
mod pages;
mod stage;
mod words;
