//! The bus on real sockets: what a stranger with a socket and some JSON sees.

mod alive;
mod certificates;
mod crowd;
mod drift;
mod failures;
mod framing;
mod identity;
pub mod kit;
mod leaving;
mod mail;
mod memory;
mod operators;
mod orders;
mod receipts;
mod reconnect;
mod results;
mod roles;
mod snapshots;
mod work;
