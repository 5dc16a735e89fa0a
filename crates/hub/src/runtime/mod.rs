//! The Runtime: this hub as one node among others.
//!
//! [`outbox`] shows what this node tells, [`intake`] takes in what others do, [`work`] carries events between them.
//! [`gateway`] makes the ledger a node at its first start, [`join`] follows an invitation, [`Peer`] calls another node
//! with tickets of its own. [`Skills`] are what capabilities need on this machine, [`judge`] compares results with contracts. Who may join is for `core/node.rs` to say, what is said for `wire/runtime`; calls of others
//! come in through [`crate::http`].

#[cfg(debug_assertions)]
pub(crate) mod broken;
mod control;
mod gateway;
mod intake;
mod join;
mod judge;
mod outbox;
mod peer;
mod peers;
mod pin;
mod skills;
mod surface;
mod work;

pub use control::{control, is_cut};
pub(crate) use gateway::opens;
pub use gateway::{Own, node_id};
pub use intake::take_in;
pub use join::{Joining, join};
pub(crate) use judge::{find, judge, judged};
pub use outbox::{Place, look_again, page};
pub use peer::{Peer, Trouble, encoded};
pub use peers::Peers;
pub use skills::Skills;
pub(crate) use surface::SURFACE;
