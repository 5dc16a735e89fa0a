//! The row of an agent: what it says about itself, what it does, and when it was last heard of.

use rusqlite::Connection;
use switchboard_core::{Agent, AgentId, FormerAgent, Timestamp};

use super::{Result, put, statements};
use crate::columns::{Values, former_agent, pulse, words_of_agent, work_of_agent};
use crate::table::print::sqlite::{update, upsert};
use crate::table::{AGENTS, FORMER_AGENTS, GONE_AGENTS, NEW, PULSE, WORDS, WORK};

statements! {
    PUT = upsert(&AGENTS, &[WORDS, PULSE], &[WORDS]);
    UPDATE = update(&AGENTS, &[WORK]);
    BEAT = update(&AGENTS, &[PULSE]);
    PUT_GONE = upsert(&GONE_AGENTS, &[WORDS, PULSE], &[WORDS]);
    UPDATE_GONE = update(&GONE_AGENTS, &[WORK]);
    FORMER = upsert(&FORMER_AGENTS, &[NEW], &[NEW]);
}

/// A new agent, or one that says something new about itself.
pub(super) fn put_agent(db: &Connection, agent: &Agent) -> Result {
    put(db, &PUT, |row| described(agent, row))?;
    update_agent(db, agent)
}

fn described(agent: &Agent, row: &mut impl Values) {
    words_of_agent(agent, row);
    pulse(agent.seen_at, agent.heartbeats, row);
    row.text(agent.id.as_str());
}

/// One that has signed off is kept apart.
pub(super) fn put_gone(db: &Connection, agent: &Agent) -> Result {
    put(db, &PUT_GONE, |row| described(agent, row))?;
    put(db, &UPDATE_GONE, |row| {
        work_of_agent(agent, row);
        row.text(agent.id.as_str());
    })?;
    drop_from(db, "agents", &agent.id)
}

pub(super) fn drop_from(db: &Connection, table: &str, agent: &AgentId) -> Result {
    db.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?"))?
        .execute([agent.as_str()])
        .map(drop)
}

pub(super) fn update_agent(db: &Connection, agent: &Agent) -> Result {
    put(db, &UPDATE, |row| {
        work_of_agent(agent, row);
        row.text(agent.id.as_str());
    })
}

pub(super) fn put_pulse(
    db: &Connection,
    agent: &AgentId,
    at: Timestamp,
    heartbeats: u64,
) -> Result {
    put(db, &BEAT, |row| {
        pulse(at, heartbeats, row);
        row.text(agent.as_str());
    })
}

/// What stays of an agent whose row is dropped.
pub(super) fn put_former(db: &Connection, former: &FormerAgent) -> Result {
    put(db, &FORMER, |row| former_agent(former, row))
}
