//! The shell: moves bytes between the surfaces, the rules and the ledger.
//!
//! Every change is [`Hub::run`], every list is [`Hub::read`]; no surface calls the store.

mod accept;
mod auth;
mod broker;
pub mod bus;
mod call;
mod caretaker;
pub mod config;
pub mod data_dir;
mod duty;
mod files;
mod git;
mod greeting;
mod http;
pub mod hub;
pub mod jobs;
mod listener;
mod memory;
mod metrics;
mod projection;
mod raw_sql;
mod readers;
pub mod runtime;
mod sequencer;
mod serve;
mod spool;
mod sql;
pub mod squidrun;
mod stream;
mod surface;
pub mod swarm_db;
mod tail;
mod telegram;
mod time;
mod tls;
mod unserved;
mod wakeups;

pub use auth::table as rights;
pub use call::{Guard, Outcome};
pub use hub::{Error, Hub, HubConfig, Stats};
pub use serve::{Running, ServeError, serve};
