//! The hub over a real socket: what a stranger with an HTTP client sees.

#![allow(clippy::unwrap_used)]

mod errors;
mod events;
mod harness;
mod idempotency;
mod lifecycle;
mod limits;
mod operations;
mod redirected;
mod security;
mod signer;
mod steering;
