//! Everything about the engines that needs no hub, in one binary: what is linked once is built once.

// Clippy takes only functions that are marked as tests for tests.
#![allow(clippy::unwrap_used)]

mod copy;
mod damage;
mod hand;
mod laws;
mod memory;
mod postgres;
mod postgres_epochs;
mod postgres_hand;
mod postgres_read;
mod postgres_standby;
mod postgres_tail;
mod simulation;
mod sqlite;
mod sqlite_disk;
mod sqlite_hand;
