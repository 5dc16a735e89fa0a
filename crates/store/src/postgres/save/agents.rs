//! Rows of agents: what they say about themselves, what they do, and when they were last heard of.

use std::collections::HashSet;

use switchboard_core::slice::Save;
use switchboard_core::{Agent, AgentId, FormerAgent};

use crate::columns::{former_agent, pulse, words_of_agent, work_of_agent};
use crate::postgres::by_hand::Hand;
use crate::postgres::rows::Batch;
use crate::postgres::session::Query;
use crate::table::print::postgres::{update, upsert};
use crate::table::print::statements;
use crate::table::{AGENTS, FORMER_AGENTS, GONE_AGENTS, NEW, PULSE, WORDS, WORK};

statements! {
    PUT = upsert(&AGENTS, "id", &[WORK, PULSE, WORDS]);
    UPDATE = update(&AGENTS, &[WORK, PULSE]);
    BEAT = update(&AGENTS, &[PULSE]);
    GONE = upsert(&GONE_AGENTS, "id", &[WORK, PULSE, WORDS]);
    FORMER = upsert(&FORMER_AGENTS, "id", &[NEW]);
}

pub(super) fn save(save: &Save<'_>, hand: &Hand, queries: &mut Vec<Query>) {
    let (mut put, mut changed, mut pulses) = (Batch::default(), Batch::default(), Batch::default());
    let (mut gone, mut left, mut back) = (Batch::default(), Vec::new(), Vec::new());
    let mut written: HashSet<&AgentId> = HashSet::new();
    for (agent, how) in save.puts::<Agent>() {
        written.insert(&agent.id);
        if agent.is_gone() || how.is_new || hand.is_noted() || how.has(Agent::DESCRIBED) {
            // Those that signed off are kept apart.
            let batch = match agent.is_gone() {
                true => &mut gone,
                false => &mut put,
            };
            push_doing(agent, batch);
            words_of_agent(agent, batch);
            batch.text(agent.id.as_str()).end();
            match agent.is_gone() {
                true => left.push(agent.id.as_str()),
                false if how.is_new => {}
                false => back.push(agent.id.as_str()),
            }
        } else {
            push_doing(agent, &mut changed);
            changed.text(agent.id.as_str()).end();
        }
    }
    // A row that is written anyway carries its last sign of life.
    for (agent, at, heartbeats) in &save.pulses {
        if !written.contains(agent) {
            pulse(*at, *heartbeats, &mut pulses);
            pulses.text(agent.as_str()).end();
        }
    }
    for (table, ids) in [("agents", left), ("sb_gone_agent", back)] {
        if !ids.is_empty() {
            queries.push(drop_from(table, ids));
        }
    }
    let batches = [
        (&PUT, put),
        (&UPDATE, changed),
        (&BEAT, pulses),
        (&GONE, gone),
    ];
    for (sql, batch) in batches {
        if !batch.is_empty() {
            queries.push(Query::rows(sql.as_str(), batch));
        }
    }
}

fn drop_from<'a>(table: &str, ids: impl IntoIterator<Item = &'a str>) -> Query {
    Query::new(format!("DELETE FROM {table} WHERE id = ANY($1)")).texts(ids)
}

pub(super) fn forget(save: &Save<'_>, queries: &mut Vec<Query>) {
    let gone: Vec<&str> = save.drops::<Agent>().map(|(id, _)| id.as_str()).collect();
    if !gone.is_empty() {
        for table in ["agents", "sb_gone_agent", "sb_sql_agent"] {
            queries.push(drop_from(table, gone.iter().copied()));
        }
    }
    let mut batch = Batch::default();
    for (former, _) in save.puts::<FormerAgent>() {
        former_agent(former, &mut batch);
        batch.end();
    }
    super::push(queries, &FORMER, batch);
}

fn push_doing(agent: &Agent, batch: &mut Batch) {
    work_of_agent(agent, batch);
    pulse(agent.seen_at, agent.heartbeats, batch);
}
