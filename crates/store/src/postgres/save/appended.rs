//! Rows that are only ever added, or replaced as a whole.

use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Remembered;
use switchboard_core::slice::Save;
use switchboard_core::token::Token;
use switchboard_core::{Attempt, Baseline, Learning, Record, Snapshot};

use super::push;
use crate::postgres::rows::Batch;
use crate::postgres::session::Query;
use crate::table::print::postgres::{append, insert, upsert};
use crate::table::print::statements;
use crate::table::{
    ANSWERS, ATTEMPTS, BASELINES, LEARNINGS, NEW, NONCES, RECORDS, SNAPSHOTS, TOKENS,
};
use crate::{Error, columns};

statements! {
    RECORD = upsert(&RECORDS, "kind, key", &[NEW]);
    ATTEMPT = insert(&ATTEMPTS, &[NEW]);
    SNAPSHOT = append(&SNAPSHOTS, NEW);
    BASELINE = upsert(&BASELINES, "id", &[NEW]);
    LEARNING = append(&LEARNINGS, NEW);
    ANSWER = append(&ANSWERS, NEW) + " ON CONFLICT (principal, operation, key) DO UPDATE
      SET n = excluded.n, body_hash = excluded.body_hash, answer = excluded.answer, at = excluded.at";
    NONCE = insert(&NONCES, &[NEW]) + " ON CONFLICT DO NOTHING";
    TOKEN = upsert(&TOKENS, "id", &[NEW]);
}

pub(super) fn save(save: &Save<'_>, queries: &mut Vec<Query>) -> Result<(), Error> {
    attempts(save, queries);
    quality(save, queries);
    learnings(save, queries);
    calls(save, queries);
    tokens(save, queries);
    records(save, queries)
}

fn records(save: &Save<'_>, queries: &mut Vec<Query>) -> Result<(), Error> {
    let mut batch = Batch::default();
    for (record, _) in save.puts::<Record>() {
        columns::record(record, &mut batch)
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        batch.end();
    }
    push(queries, &RECORD, batch);
    Ok(())
}

fn attempts(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (attempt, _) in save.puts::<Attempt>() {
        columns::attempt(attempt, &mut batch);
        batch.end();
    }
    push(queries, &ATTEMPT, batch);
}

fn quality(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (snapshot, _) in save.puts::<Snapshot>() {
        columns::snapshot(snapshot, &mut batch);
        batch.end();
    }
    push(queries, &SNAPSHOT, batch);
    let mut batch = Batch::default();
    for (baseline, _) in save.puts::<Baseline>() {
        columns::baseline(baseline, &mut batch);
        batch.end();
    }
    push(queries, &BASELINE, batch);
}

fn learnings(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (learning, _) in save.puts::<Learning>() {
        columns::learning(learning, &mut batch);
        batch.end();
    }
    push(queries, &LEARNING, batch);
}

fn calls(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (remembered, _) in save.puts::<Remembered>() {
        columns::answer(remembered, &mut batch);
        batch.end();
    }
    push(queries, &ANSWER, batch);
    let mut batch = Batch::default();
    for (nonce, _) in save.puts::<Nonce>() {
        columns::nonce(nonce, &mut batch);
        batch.end();
    }
    push(queries, &NONCE, batch);
}

fn tokens(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (token, _) in save.puts::<Token>() {
        columns::token(token, &mut batch);
        batch.end();
    }
    push(queries, &TOKEN, batch);
}
