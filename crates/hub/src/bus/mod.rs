//! The bus: workers and operators that stream over TCP.
//!
//! `wire::agentbus` knows the messages and the state of one connection; here are sockets, tasks and what goes on around them.

pub mod descriptors;
pub mod drift;
pub mod interfaces;
