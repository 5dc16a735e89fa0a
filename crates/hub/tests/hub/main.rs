//! The hub over a real socket: what a stranger with an HTTP client sees.

#![allow(clippy::unwrap_used)]

mod broker;
mod bus;
mod by_hand;
mod by_hand_agents;
mod by_hand_both;
mod by_hand_many;
mod by_hand_postgres;
mod by_hand_rules;
mod by_hand_same;
mod by_hand_schema;
mod coordinators;
mod errors;
mod events;
mod exchange;
mod failing_reader;
mod files;
mod files_astray;
mod files_kit;
mod harness;
mod idempotency;
mod incidents;
mod lifecycle;
mod limits;
mod master_key;
mod memory;
mod nodes;
mod operations;
mod outage;
mod pause;
mod pipeline;
mod redirected;
mod replays;
mod rewound;
mod rights;
mod security;
mod signer;
mod squidrun;
mod squidrun_journal;
mod squidrun_kit;
mod steering;
mod strangers;
mod swarm_db;
mod telegram;
mod world;
