//! The values of rows, in the order in which statements that [`crate::table`] prints take them: groups, then the key.

use switchboard_core::attempt::Attempt;
use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Remembered;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, Baseline, Delivery, FormerAgent, Head, Lane, Learning, Lease, Message, Metrics, Record,
    RecordKey, Snapshot, Task, Timestamp,
};

use super::{
    counts, doing, doors, minutes, presence, shown, shown_message, store_progress, watch,
    worked_minutes,
};
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

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn new_task(task: &Task, row: &mut impl Values) {
    let failure = task.last_failure.as_ref();
    row.text(task.id.as_str())
        .text(task.about.title.as_str())
        .text(task.about.description.as_deref())
        .text(task.status().as_str())
        .text(task.about.priority.as_str())
        .text(task.about.kind.as_str())
        .list(task.dependencies.iter().map(|id| id.as_str()))
        .list(task.blockers.iter().map(|id| id.as_str()))
        .list(task.about.required_skills.iter())
        .list(&task.about.files)
        .int(task.about.estimated_minutes.map(i64::from))
        .int(i64::from(task.retries))
        .int(i64::from(task.about.max_retries))
        .text(failure.map(|failure| failure.message.as_str()))
        .text(failure.map(|failure| failure.kind.as_str()))
        .text(task.about.branch.as_deref())
        .iso(task.created_at)
        .iso(task.updated_at)
        .list(task.about.audience.iter().map(|id| id.as_str()))
        .text(task.on_dependency_failure.as_str())
        .count(task.rev)
        .int(task.lane.map(|lane| signed(lane.0)))
        .int(shown(task).at.0)
        .int(i64::from(task.dependants))
        .text(task.corr_id.as_str())
        .text(task.about.when_spent.as_str())
        .count(task.number);
}

/// What a claim, progress and a completion touch. What people wrote stays untouched, and so do its indexes.
pub(crate) fn work_of_task(task: &Task, row: &mut impl Values) {
    let shown = shown(task);
    row.text(task.status().as_str())
        .text(shown.assigned)
        .text(shown.claimed_at.as_ref().map(Iso::as_str))
        .iso(task.started_at)
        .text(shown.completed_at.as_ref().map(Iso::as_str))
        .int(worked_minutes(task))
        .text(task.result.as_deref())
        .text(task.snapshot.as_ref().map(|id| id.as_str()))
        .iso(task.updated_at)
        .count(task.epoch)
        .count(task.rev)
        .int(shown.at.0)
        .int(task.worked_ms.map(signed))
        .text(store_progress(task.progress.as_ref()).as_deref());
}

/// Where it waits and why: retries, dependencies and lanes.
pub(crate) fn queue_of_task(task: &Task, row: &mut impl Values) {
    let (deadline_at, stale_ms, look_at) = watch(task);
    let failure = task.last_failure.as_ref();
    row.list(task.blockers.iter().map(|id| id.as_str()))
        .int(i64::from(task.retries))
        .text(failure.map(|failure| failure.message.as_str()))
        .text(failure.map(|failure| failure.kind.as_str()))
        .text(shown(task).next_retry_at.as_ref().map(Iso::as_str))
        .list(task.previous_agents.iter().map(|id| id.as_str()))
        .int(task.lane.map(|lane| signed(lane.0)))
        .int(i64::from(task.dependants))
        .int(deadline_at)
        .int(stale_ms)
        .int(look_at)
        .int(i64::from(task.epoch_needed));
}

/// What people wrote.
pub(crate) fn words_of_task(task: &Task, row: &mut impl Values) {
    row.text(task.about.title.as_str())
        .text(task.about.description.as_deref())
        .text(task.about.priority.as_str())
        .text(task.about.kind.as_str())
        .list(task.about.required_skills.iter())
        .list(&task.about.files)
        .int(task.about.estimated_minutes.map(i64::from))
        .int(i64::from(task.about.max_retries))
        .text(task.about.branch.as_deref())
        .list(task.about.audience.iter().map(|id| id.as_str()))
        .text(task.about.when_spent.as_str());
}

/// What an agent does.
pub(crate) fn work_of_agent(agent: &Agent, row: &mut impl Values) {
    let doing = doing(agent);
    let current = doing.current;
    let phase = current.and_then(|current| current.phase);
    row.text(agent.status())
        .text(current.map(|current| current.task.as_str()))
        .iso(current.map(|current| current.since))
        .int(current.and_then(|current| current.percent).map(i64::from))
        .text(phase.map(|phase| phase.as_str()))
        .count(agent.completed)
        .count(agent.failed)
        .real(minutes(agent.runtime_ms))
        .iso(agent.last_active_at)
        .count(agent.rev)
        .count(agent.runtime_ms)
        .list(agent.holds.iter().map(|id| id.as_str()))
        .text(doing.commands.as_str())
        .text(doing.metrics.as_deref())
        .int(i64::from(agent.inbox))
        .text(doing.stream.as_str());
}

/// What an agent says about itself.
pub(crate) fn words_of_agent(agent: &Agent, row: &mut impl Values) {
    let machine = agent.machine.as_ref();
    let (presence, presence_at) = presence(agent);
    let (doors, silent_ms) = doors(agent);
    row.text(agent.name.as_str())
        .text(agent.kind.as_str())
        .list(agent.skills.iter())
        .int(i64::from(agent.capabilities.max_task_minutes))
        .int(i64::from(agent.capabilities.can_run_tests))
        .int(i64::from(agent.capabilities.can_run_build))
        .int(i64::from(agent.capabilities.can_access_browser))
        .text(machine.map(|machine| machine.id.as_str()))
        .text(machine.map(|machine| machine.hostname.as_str()))
        .int(machine.map(|machine| i64::from(machine.pid)))
        .iso(agent.registered_at)
        .text(presence)
        .int(presence_at.0)
        .int(i64::from(agent.key_generation))
        .text(&*doors)
        .int(silent_ms);
}

/// A sign of life.
pub(crate) fn pulse(at: Timestamp, heartbeats: u64, row: &mut impl Values) {
    row.iso(at).count(heartbeats).int(at.0);
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
        .text(lease.path.as_str());
}

pub(crate) fn new_message(message: &Message, row: &mut impl Values) {
    let (delivered_at, acknowledged_at) = shown_message(message);
    let handoff = message.handoff.as_ref();
    row.text(message.id.as_str())
        .text(message.kind.as_str())
        .text(message.from.as_str())
        .text(message.to.as_ref().map(|id| id.as_str()))
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

pub(crate) fn new_delivery(delivery: &Delivery, row: &mut impl Values) {
    row.text(delivery.message.as_str())
        .text(delivery.state.as_str())
        .int(delivery.delivered_at.map(|at| at.0))
        .int(delivery.acknowledged_at.map(|at| at.0))
        .int(delivery.expires_at.map(|at| at.0))
        .int(delivery.handing_until.map(|at| at.0))
        .count(delivery.number)
        .text(delivery.agent.as_str());
}

/// What became of a delivery.
pub(crate) fn fate_of_delivery(delivery: &Delivery, row: &mut impl Values) {
    row.text(delivery.state.as_str())
        .int(delivery.delivered_at.map(|at| at.0))
        .int(delivery.acknowledged_at.map(|at| at.0))
        .int(delivery.handing_until.map(|at| at.0))
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
        .count(attempt.number)
        .count(attempt.epoch);
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
