//! The shell: moves bytes between the surfaces, the rules and the ledger.
//!
//! Every change is [`Hub::run`], every list is [`Hub::read`]; no surface calls the store.

mod caretaker;
pub mod hub;
mod readers;
mod sequencer;
mod wakeups;

pub use hub::{Error, Guard, Hub, HubConfig, Outcome, Stats};
