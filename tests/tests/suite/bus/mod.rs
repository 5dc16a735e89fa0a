//! The bus with the real binary: workers and operators over sockets, beside every other door.

mod commands;
mod crash;
mod crowd;
mod cuts;
mod docs;
mod identity;
mod interop;
pub mod peer;
mod settings;
pub mod swarm;
