//! Rows that are only ever added, or replaced as a whole.

use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Remembered;
use switchboard_core::slice::Save;
use switchboard_core::token::Token;
use switchboard_core::{Attempt, Baseline, Engram, Learning, Metrics, Record, Snapshot};

use super::push;
use crate::Error;
use crate::columns::store_progress;
use crate::postgres::rows::Batch;
use crate::postgres::session::Query;
use crate::text::{Iso, list};

pub(super) fn save(save: &Save<'_>, queries: &mut Vec<Query>) -> Result<(), Error> {
    attempts(save, queries);
    quality(save, queries);
    learnings(save, queries);
    calls(save, queries);
    tokens(save, queries);
    engrams(save, queries);
    records(save, queries)
}

fn engrams(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (engram, _) in save.puts::<Engram>() {
        let entry = &engram.entry;
        batch
            .text(entry.id.as_str())
            .text(entry.scope.as_str())
            .text(entry.version.as_str())
            .int(entry.created_at.0)
            .text(entry.hash.as_str())
            .count(entry.bytes)
            .text(&*list(&entry.topics))
            .count(entry.from_seq)
            .count(entry.to_seq)
            .text(&*engram.body)
            .text(&*engram.words)
            .end();
    }
    push(
        queries,
        "INSERT INTO sb_engram(n, id, scope, version, created_at, hash, bytes, topics, from_seq, to_seq, body, words)
         SELECT (SELECT coalesce(max(n), 0) FROM sb_engram) + i, a, b, c, d, e, f, g, h, j, k, l
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) WITH ORDINALITY AS v(a, b, c, d, e, f, g, h, j, k, l, i)",
        batch,
    );
}

fn records(save: &Save<'_>, queries: &mut Vec<Query>) -> Result<(), Error> {
    let mut batch = Batch::default();
    for (record, _) in save.puts::<Record>() {
        let (kind, name) = record.key().names();
        let value =
            serde_json::to_string(record).map_err(|error| Error::Unavailable(error.to_string()))?;
        batch.text(kind).text(name).text(value.as_str()).end();
    }
    push(
        queries,
        "INSERT INTO sb_record(kind, key, value) SELECT * FROM unnest($1, $2, $3)
         ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
        batch,
    );
    Ok(())
}

fn attempts(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (attempt, _) in save.puts::<Attempt>() {
        batch
            .count(attempt.number)
            .count(attempt.epoch)
            .text(attempt.task.as_str())
            .text(attempt.agent.as_str())
            .int(attempt.claimed_at.0)
            .int(attempt.ended_at.0)
            .text(attempt.outcome.as_str())
            .text(attempt.failure.map(|kind| kind.as_str()))
            .text(attempt.message.as_deref())
            .text(attempt.details.as_deref())
            .text(attempt.suggested_action.as_deref())
            .text(store_progress(attempt.progress.as_ref()).as_deref())
            .end();
    }
    push(
        queries,
        "INSERT INTO sb_attempt(number, epoch, task, agent, claimed_at, ended_at, outcome, failure, message, details, suggested,
           progress) SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        batch,
    );
}

fn quality(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (snapshot, _) in save.puts::<Snapshot>() {
        batch
            .text(snapshot.id.as_str())
            .text(snapshot.task.as_ref().map(|id| id.as_str()))
            .text(snapshot.agent.as_ref().map(|id| id.as_str()))
            .text(Iso::new(snapshot.recorded_at).as_str());
        push_metrics(&snapshot.metrics, &mut batch);
        batch.end();
    }
    push(
        queries,
        "INSERT INTO quality_snapshots(rowid, id, task_id, agent_id, recorded_at, build_success, type_errors, lint_errors,
           lint_warnings, tests_passing, tests_failing, test_coverage)
         SELECT (SELECT coalesce(max(rowid), 0) FROM quality_snapshots) + i, a, b, c, d, e, f, g, h, j, k, l
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) WITH ORDINALITY AS v(a, b, c, d, e, f, g, h, j, k, l, i)",
        batch,
    );
    let mut batch = Batch::default();
    for (baseline, _) in save.puts::<Baseline>() {
        batch
            .text(baseline.set_by.as_str())
            .text(Iso::new(baseline.created_at).as_str())
            .text(Iso::new(baseline.updated_at).as_str())
            .count(baseline.rev);
        push_metrics(&baseline.metrics, &mut batch);
        batch.end();
    }
    push(
        queries,
        "INSERT INTO quality_baseline(id, set_by, created_at, updated_at, rev, build_success, type_errors, lint_errors,
           lint_warnings, tests_passing, tests_failing, test_coverage)
         SELECT 1, * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (id) DO UPDATE SET set_by = excluded.set_by, created_at = excluded.created_at,
           updated_at = excluded.updated_at, rev = excluded.rev, build_success = excluded.build_success,
           type_errors = excluded.type_errors, lint_errors = excluded.lint_errors, lint_warnings = excluded.lint_warnings,
           tests_passing = excluded.tests_passing, tests_failing = excluded.tests_failing,
           test_coverage = excluded.test_coverage",
        batch,
    );
}

fn push_metrics(found: &Metrics, batch: &mut Batch) {
    batch
        .int(i64::from(found.build_success))
        .int(i64::from(found.type_errors))
        .int(i64::from(found.lint_errors))
        .int(i64::from(found.lint_warnings))
        .int(i64::from(found.tests_passing))
        .int(i64::from(found.tests_failing))
        .real(found.test_coverage);
}

fn learnings(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (learning, _) in save.puts::<Learning>() {
        batch
            .text(learning.id.as_str())
            .text(learning.text.as_str())
            .text(learning.task.as_ref().map(|id| id.as_str()))
            .text(learning.agent.as_ref().map(|id| id.as_str()))
            .int(learning.created_at.0)
            .end();
    }
    push(
        queries,
        "INSERT INTO sb_learning(n, id, text, task, agent, created_at)
         SELECT (SELECT coalesce(max(n), 0) FROM sb_learning) + i, a, b, c, d, e
         FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS v(a, b, c, d, e, i)",
        batch,
    );
}

fn calls(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (remembered, _) in save.puts::<Remembered>() {
        let key = &remembered.key;
        batch
            .text(&*key.principal)
            .text(key.operation)
            .text(&*key.key)
            .bytes(&remembered.body_hash[..])
            .bytes(&remembered.answer[..])
            .int(remembered.at.0)
            .end();
    }
    push(
        queries,
        "INSERT INTO sb_answer(n, principal, operation, key, body_hash, answer, at)
         SELECT (SELECT coalesce(max(n), 0) FROM sb_answer) + i, a, b, c, d, e, f
         FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY AS v(a, b, c, d, e, f, i)
         ON CONFLICT (principal, operation, key) DO UPDATE SET n = excluded.n, body_hash = excluded.body_hash,
           answer = excluded.answer, at = excluded.at",
        batch,
    );
    let mut batch = Batch::default();
    for (nonce, _) in save.puts::<Nonce>() {
        batch
            .text(nonce.agent.as_str())
            .text(&*nonce.value)
            .int(nonce.valid_until.0)
            .end();
    }
    push(
        queries,
        "INSERT INTO sb_nonce(agent, value, valid_until) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING",
        batch,
    );
}

fn tokens(save: &Save<'_>, queries: &mut Vec<Query>) {
    let mut batch = Batch::default();
    for (token, _) in save.puts::<Token>() {
        batch
            .text(token.id.as_str())
            .text(token.name.as_str())
            .text(token.grant().as_str())
            .bytes(&token.hash[..])
            .int(token.created_at.0)
            .int(token.revoked_at.map(|at| at.0))
            .end();
    }
    push(
        queries,
        "INSERT INTO sb_token(id, name, scope, hash, created_at, revoked_at) SELECT * FROM unnest($1, $2, $3, $4, $5, $6)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, scope = excluded.scope, hash = excluded.hash,
           created_at = excluded.created_at, revoked_at = excluded.revoked_at",
        batch,
    );
}
