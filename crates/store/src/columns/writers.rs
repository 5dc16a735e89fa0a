//! The values of rows, in the order in which statements that [`crate::table`] prints take them: groups, then the key.

use serde::Serialize;
use switchboard_core::attempt::Attempt;
use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Remembered;
use switchboard_core::token::Token;
use switchboard_core::{
    Baseline, Delivery, DeliveryState, Evidence, FormerAgent, Head, Lane, Learning, Lease, Message,
    Metrics, Priority, Record, RecordKey, Snapshot, Timestamp,
};

use super::task::store_progress;
use super::{counts, recipients, shown_message};
use crate::clock::Mark;
use crate::text::{Iso, list};

/// Where the values of a row go, one after the other.
pub(crate) trait Values {
    fn text<'a>(&mut self, value: impl Into<Option<&'a str>>) -> &mut Self;
    fn int(&mut self, value: impl Into<Option<i64>>) -> &mut Self;
    fn real(&mut self, value: impl Into<Option<f64>>) -> &mut Self;
    fn bytes<'a>(&mut self, value: impl Into<Option<&'a [u8]>>) -> &mut Self;

    fn count(&mut self, value: u64) -> &mut Self {
        self.int(signed(value))
    }

    /// A public instant, as text.
    fn iso(&mut self, at: impl Into<Option<Timestamp>>) -> &mut Self {
        let at = at.into().map(Iso::new);
        self.text(at.as_ref().map(Iso::as_str))
    }

    fn list<S: AsRef<str>>(&mut self, items: impl IntoIterator<Item = S>) -> &mut Self {
        self.text(&*list(items))
    }
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn former_agent(former: &FormerAgent, row: &mut impl Values) {
    row.text(former.name.as_str())
        .count(former.completed)
        .count(former.failed)
        .count(former.runtime_ms)
        .int(former.registered_at.0)
        .int(former.gone_at.0)
        .text(former.id.as_str());
}

pub(crate) fn lane(lane: &Lane, row: &mut impl Values) {
    row.text(lane.key.to_text().as_str())
        .text(&*lane.rep.0)
        .int(lane.key.priority as i64)
        .count(lane.head)
        .count(lane.ready)
        .count(lane.held)
        .count(lane.id.0);
}

pub(crate) fn lease(lease: &Lease, row: &mut impl Values) {
    row.text(lease.agent.as_str())
        .text(lease.task.as_ref().map(|id| id.as_str()))
        .iso(lease.acquired_at)
        .iso(lease.expires_at)
        .int(i64::from(lease.renewals))
        .count(lease.rev)
        .text(lease.path.prefix())
        .count(lease.fencing)
        .text(lease.spelled.as_ref().map(|_| lease.path.as_str()))
        .text(lease.spelling());
}

/// What only the hub reads, as JSON.
pub(crate) fn json_of(value: Option<&impl Serialize>) -> Option<String> {
    value
        .map(|value| serde_json::to_string(value).expect("a private value has only names for keys"))
}

pub(crate) fn new_message(message: &Message, row: &mut impl Values) {
    let (delivered_at, acknowledged_at) = shown_message(message);
    let handoff = message.handoff.as_ref();
    row.text(message.id.as_str())
        .text(message.kind.as_str())
        .text(message.from.as_str())
        .text(recipients(&message.to).as_deref())
        .text(&*message.payload)
        .int(i64::from(message.ack_required))
        .iso(acknowledged_at)
        .text(message.acknowledged.as_ref().map(|(by, _)| by.as_str()))
        .iso(delivered_at)
        .iso(message.expires_at)
        .iso(message.created_at)
        .count(message.rev)
        .text(message.corr_id.as_str())
        .text(handoff.map(|(task, _)| task.as_str()))
        .int(handoff.map(|(_, epoch)| signed(*epoch)))
        .int(message.given.map(|given| i64::from(given.session)))
        .int(message.given.map(|given| i64::from(given.number)))
        .text(json_of(message.afar.as_deref()).as_deref())
        .count(message.number);
}

/// What became of a message.
pub(crate) fn fate_of_message(message: &Message, row: &mut impl Values) {
    let (delivered_at, acknowledged_at) = shown_message(message);
    row.iso(acknowledged_at)
        .text(message.acknowledged.as_ref().map(|(by, _)| by.as_str()))
        .iso(delivered_at)
        .count(message.rev)
        .count(message.number);
}

/// One that failed is an expired one with a reason: builds that know no failed ones read it so.
fn stored_state(delivery: &Delivery) -> &'static str {
    match delivery.state {
        DeliveryState::Failed => DeliveryState::Expired.as_str(),
        state => state.as_str(),
    }
}

/// The usual one is not written, so that the index of all others stays small.
fn stored_priority(priority: Priority) -> Option<i64> {
    (priority != Priority::Medium).then_some(priority as i64)
}

pub(crate) fn new_delivery(delivery: &Delivery, row: &mut impl Values) {
    row.text(delivery.message.as_str())
        .text(stored_state(delivery))
        .int(delivery.delivered_at.map(|at| at.0))
        .int(delivery.acknowledged_at.map(|at| at.0))
        .int(delivery.expires_at.map(|at| at.0))
        .int(delivery.handing_until.map(|at| at.0))
        .int(stored_priority(delivery.priority))
        .text(delivery.via.map(|door| door.as_str()))
        .text(delivery.stream.as_deref())
        .text(delivery.reason.as_deref())
        .count(delivery.number)
        .text(delivery.agent.as_str());
}

/// What became of a delivery.
pub(crate) fn fate_of_delivery(delivery: &Delivery, row: &mut impl Values) {
    row.text(stored_state(delivery))
        .int(delivery.delivered_at.map(|at| at.0))
        .int(delivery.acknowledged_at.map(|at| at.0))
        .int(delivery.handing_until.map(|at| at.0))
        .text(delivery.via.map(|door| door.as_str()))
        .text(delivery.stream.as_deref())
        .text(delivery.reason.as_deref())
        .count(delivery.number)
        .text(delivery.agent.as_str());
}

pub(crate) fn attempt(attempt: &Attempt, row: &mut impl Values) {
    row.text(attempt.task.as_str())
        .text(attempt.agent.as_str())
        .int(attempt.claimed_at.0)
        .int(attempt.ended_at.0)
        .text(attempt.outcome.as_str())
        .text(attempt.failure.map(|kind| kind.as_str()))
        .text(attempt.message.as_deref())
        .text(attempt.details.as_deref())
        .text(attempt.suggested_action.as_deref())
        .text(store_progress(attempt.progress.as_ref()).as_deref())
        .text(store_evidence(&attempt.evidence).as_deref())
        .count(attempt.number)
        .count(attempt.epoch);
}

fn store_evidence(evidence: &[Evidence]) -> Option<String> {
    let printed = serde_json::to_string(evidence).expect("it is made of strings and numbers");
    (!evidence.is_empty()).then_some(printed)
}

pub(crate) fn snapshot(snapshot: &Snapshot, row: &mut impl Values) {
    row.text(snapshot.id.as_str())
        .text(snapshot.task.as_ref().map(|id| id.as_str()))
        .text(snapshot.agent.as_ref().map(|id| id.as_str()));
    metrics(&snapshot.metrics, row);
    row.iso(snapshot.recorded_at);
}

pub(crate) fn baseline(baseline: &Baseline, row: &mut impl Values) {
    metrics(&baseline.metrics, row);
    row.text(baseline.set_by.as_str())
        .iso(baseline.created_at)
        .iso(baseline.updated_at)
        .count(baseline.rev)
        .int(1);
}

fn metrics(found: &Metrics, row: &mut impl Values) {
    row.int(i64::from(found.build_success))
        .int(i64::from(found.type_errors))
        .int(i64::from(found.lint_errors))
        .int(i64::from(found.lint_warnings))
        .int(i64::from(found.tests_passing))
        .int(i64::from(found.tests_failing))
        .real(found.test_coverage);
}

pub(crate) fn learning(learning: &Learning, row: &mut impl Values) {
    row.text(learning.id.as_str())
        .text(learning.text.as_str())
        .text(learning.task.as_ref().map(|id| id.as_str()))
        .text(learning.agent.as_ref().map(|id| id.as_str()))
        .int(learning.created_at.0);
}

/// A private row, its key last.
pub(crate) fn record(record: &Record, row: &mut impl Values) -> serde_json::Result<()> {
    #[derive(serde::Serialize)]
    struct Body<'a> {
        v: u32,
        #[serde(flatten)]
        record: &'a Record,
    }
    let (RecordKey { kind, key }, position) = (record.key(), record.position());
    let v = kind.version();
    let value = serde_json::to_string(&Body { v, record })?;
    row.text(value.as_str())
        .text(position.map(|_| record.owner()))
        .int(position)
        .int(record.due_at().map(|at| at.0))
        .text(kind.as_str())
        .text(&*key);
    Ok(())
}

/// A kept answer.
pub(crate) fn answer(remembered: &Remembered, row: &mut impl Values) {
    let key = &remembered.key;
    row.text(&*key.principal)
        .text(key.operation)
        .text(&*key.key)
        .bytes(&remembered.body_hash[..])
        .bytes(&remembered.answer[..])
        .int(remembered.at.0);
}

pub(crate) fn nonce(nonce: &Nonce, row: &mut impl Values) {
    row.int(nonce.valid_until.0)
        .text(nonce.agent.as_str())
        .text(&*nonce.value);
}

/// The head, and where the clock stands.
pub(crate) fn head(head: &Head, mark: &Mark, row: &mut impl Values) {
    row.count(head.seq)
        .int(head.last_at.0)
        .count(head.task_number)
        .count(head.message_number)
        .count(head.lane)
        .count(head.fencing)
        .text(counts(head).as_str())
        .count(head.queued_deliveries)
        .count(head.leases)
        .count(head.idempotency_rows)
        .count(head.idempotency_bytes)
        .int(head.served_at.0)
        .int(head.floor.0)
        .int(head.last_message_at.0)
        .count(head.epoch.number)
        .count(head.epoch.after)
        .count(head.outbox)
        .int(mark.at.0)
        .int(mark.wall.0)
        .text(mark.boot.as_str())
        .int(mark.ran_ms());
}

pub(crate) fn token(token: &Token, row: &mut impl Values) {
    row.text(token.name.as_str())
        .text(token.grant().as_str())
        .bytes(&token.hash[..])
        .int(token.created_at.0)
        .int(token.revoked_at.map(|at| at.0))
        .text(token.id.as_str());
}
