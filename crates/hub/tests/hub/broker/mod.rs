//! The broker on real sockets: what a stranger with a WebSocket client and some JSON sees.

mod background;
mod bad_input;
mod claims;
mod delivery;
mod directory;
mod frames;
mod identity;
pub mod kit;
mod tasks;
