//! The bus: workers and operators that stream over TCP.
//!
//! `wire::agentbus` knows the messages and the state of one connection; here are sockets, tasks and what goes on around them.

pub mod authority;
mod board;
pub mod budgets;
mod connection;
pub mod descriptors;
mod director;
pub mod drift;
mod frame;
mod fsm;
pub mod interfaces;
mod listen;
mod memory;
mod operator;
mod pipe;
mod proof;
mod registry;
mod relay;
mod server;
mod snapshot;
mod surface;
mod worker;

pub(crate) use surface::SURFACE;
