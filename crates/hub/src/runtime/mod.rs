//! The Runtime: this hub as one node among others.
//!
//! [`gateway`] makes the ledger a node at its first start, [`join`] follows an invitation, [`Peer`] calls another node
//! with tickets of its own. Who may join is for `core/node.rs` to say, what is said for `wire/runtime`; calls of others
//! come in through [`crate::http`].

mod gateway;
mod join;
mod peer;
mod peers;
mod pin;

pub use gateway::Own;
pub(crate) use gateway::opens;
pub use join::{Joining, join};
pub use peer::{Peer, Trouble, encoded};
pub use peers::Peers;
