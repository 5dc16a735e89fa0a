//! Takes a verb's changes into the working set, and notes what must be saved.

use super::{HeldPulse, Notices, Slice};
use crate::agent::{Agent, Presence};
use crate::changes::{Adopted, AdoptedRow, Changes, Prune, Pulse};
use crate::event::Logged;
use crate::id::AgentId;
use crate::idempotency::Remembered;
use crate::lease::Lease;
use crate::message::{Delivery, DeliveryState};
use crate::order::Order;
use crate::outbox::{Dispatch, Outgoing};
use crate::record::{Kind, Listed as _, Record};
use crate::row::{Row, RowKey};
use crate::task::{Task, TaskState, TaskStatus};
use crate::time::Timestamp;

impl Slice {
    /// Everything a decision wants written becomes visible to the verbs after it.
    pub fn apply(&mut self, changes: Changes, now: Timestamp) {
        for adopted in changes.adopted {
            self.adopt(adopted);
        }
        for key in changes.drops {
            self.remove(key);
        }
        let published = changes.published;
        if let Some(step) = &published {
            self.tell(step.event.clone());
        }
        for row in changes.puts {
            match row {
                Row::Task(task) => {
                    let own = published.as_deref();
                    let own = own.filter(|step| step.task.as_ref() == Some(&task.id));
                    self.apply_task(*task, own.map(|step| &step.event), now);
                }
                other => self.put(other, now),
            }
        }
        for pulse in changes.pulses {
            self.apply_pulse(&pulse);
        }
        if let Some(served) = changes.served {
            self.head.served_at = served.at;
            self.head.floor = served.floor.unwrap_or(self.head.floor);
            self.unsaved.head = true;
            self.unsaved.is_serving = true;
        }
        if let Some(epoch) = changes.epoch {
            self.head.epoch = epoch;
            self.unsaved.head = true;
        }
        for prune in &changes.prunes {
            self.forget_pruned(prune);
        }
        self.unsaved.prunes.extend(changes.prunes);
        for dispatch in changes.dispatches {
            self.tell(dispatch);
        }
        for event in changes.events {
            self.head.seq += 1;
            self.head.last_at = now;
            self.log.push(Logged {
                seq: self.head.seq,
                at: now,
                event,
            });
        }
    }

    /// An event for other nodes takes the next number of the outbox.
    fn tell(&mut self, event: Dispatch) {
        self.head.outbox += 1;
        self.unsaved.head = true;
        self.notices.told = true;
        let seq = self.head.outbox;
        let ordered = self.rows.records.touch(&Order::at(event.id.to_string()), 0);
        if let Some(Record::Order(order)) = ordered {
            (order.seq, order.attempt) = (seq, event.attempt);
        }
        self.ranges.records_changed(Kind::Outgoing);
        self.rows.records.put(Outgoing { seq, event }.into(), 0);
    }

    /// What is pruned must not be taken for a row that is there.
    fn forget_pruned(&mut self, prune: &Prune) {
        match prune {
            Prune::Remembered { before, .. } => {
                let is_kept = |row: Option<&Remembered>| row.is_some_and(|row| row.at >= *before);
                self.rows.answers.retain(|_, row| is_kept(row));
            }
            Prune::Records { kind, .. } => {
                self.rows.records.retain(|key, _| key.kind != *kind);
                self.ranges.records_changed(*kind);
            }
            Prune::Events { .. } | Prune::Messages { .. } | Prune::Nonces { .. } => {}
        }
    }

    /// What goes with a row of this kind: counters, answers to ranges that no longer hold, who is to be told.
    fn put(&mut self, row: Row, now: Timestamp) {
        match row {
            Row::Agent(agent) => self.apply_agent(*agent),
            Row::Task(task) => self.apply_task(*task, None, now),
            Row::Lease(lease) => self.apply_lease(*lease),
            Row::Message(mut message) => {
                message.rev += 1;
                self.head.message_number = self.head.message_number.max(message.number);
                self.head.last_message_at = self.head.last_message_at.max(message.created_at);
                self.rows.messages.put(*message, 0);
            }
            Row::Delivery(delivery) => self.apply_delivery(*delivery),
            Row::Record(record) => {
                if let Some(at) = record.due_at() {
                    self.notices.due_at(at);
                }
                self.notices.work_resumed |=
                    matches!(&*record, Record::Director(told) if told.hands_out(now));
                self.ranges.records_changed(record.kind());
                self.rows.records.put(*record, 0);
            }
            Row::Snapshot(snapshot) => {
                if let Some(task) = &snapshot.task {
                    let snapshot = Some((*snapshot).clone());
                    self.ranges.snapshots.insert(task.clone(), snapshot);
                }
                self.rows.snapshots.put(*snapshot, 0);
            }
            Row::Remembered(remembered) => {
                self.head.idempotency_rows += 1;
                self.head.idempotency_bytes += remembered.answer.len() as u64;
                self.rows.answers.put(*remembered, 0);
            }
            Row::FormerAgent(row) => self.rows.former_agents.put(*row, 0),
            Row::Attempt(row) => self.rows.attempts.put(*row, 0),
            Row::Baseline(row) => self.rows.baselines.put(*row, 0),
            Row::Learning(row) => self.rows.learnings.put(*row, 0),
            Row::Token(row) => self.rows.tokens.put(*row, 0),
            Row::Nonce(row) => self.rows.nonces.put(*row, 0),
        }
    }

    fn remove(&mut self, key: RowKey) {
        match key {
            RowKey::Agent(id) => {
                self.pulses.remove(&id);
                self.ranges.agents_changed();
                self.rows.agents.remove(id);
            }
            RowKey::Task(id) => {
                if let Some(task) = self.rows.tasks.remove(id) {
                    self.head.moved(Some(task.status()), None);
                    self.ranges.dependants.clear();
                }
            }
            RowKey::Lease(path) => {
                if let Some(lease) = self.rows.leases.remove(path) {
                    self.head.leases = self.head.leases.saturating_sub(1);
                    self.ranges
                        .lease_changed(&lease.path, &lease.agent, lease.task.as_ref());
                }
            }
            RowKey::Record(key) => {
                self.ranges.records_changed(key.kind);
                self.rows.records.remove(key);
            }
            other => unreachable!("no decision removes {other:?}"),
        }
    }

    /// Whatever the hand made of the row, it is written anew, all of it, and under a new rev: so later notes of the row
    /// can tell that it is no longer as a hand left it.
    fn adopt(&mut self, adopted: Adopted) {
        match &adopted.row {
            AdoptedRow::Task(id) => {
                if let Some(task) = self.rows.tasks.touch(id, Task::DESCRIBED | Task::QUEUED) {
                    task.rev += 1;
                }
            }
            AdoptedRow::Agent(id) => {
                if let Some(agent) = self.rows.agents.touch(id, Agent::DESCRIBED) {
                    agent.rev += 1;
                }
            }
            AdoptedRow::Message(id) => {
                if let Some(message) = self.rows.messages.touch(id, 0) {
                    message.rev += 1;
                }
            }
            AdoptedRow::Lease(path) => match self.rows.leases.touch(path, 0) {
                Some(lease) => lease.rev += 1,
                None => drop(self.rows.leases.remove(path.clone())),
            },
            AdoptedRow::Baseline => {}
        }
        self.unsaved.adopted.push(adopted);
    }

    fn apply_agent(&mut self, mut agent: Agent) {
        agent.rev += 1;
        let before = self.rows.agents.get(&agent.id);
        let moved =
            before.is_none_or(|before| kind_of(&before.presence) != kind_of(&agent.presence));
        if moved {
            self.ranges.agents_changed();
            self.notices.agents_left |= !agent.is_live();
            if let Some(at) = agent.silent_at().filter(|_| agent.is_live()) {
                self.notices.due_at(at);
            }
        }
        let may_come_first = |agent: &Agent| agent.is_idle() && !agent.is_stopping();
        self.notices.agents_busied |= before.is_some_and(may_come_first) && !may_come_first(&agent);
        let is_redescribed = before.is_some_and(|before| !agent.is_described_as(before));
        match before.map(|before| (before.seen_at, before.heartbeats)) {
            None => {
                self.pulses.remove(&agent.id);
            }
            Some(before) if before != (agent.seen_at, agent.heartbeats) => {
                self.hold_pulse(&agent.id, agent.seen_at, agent.heartbeats);
            }
            Some(_) => {}
        }
        self.notices.changed_agents.push(agent.id.clone());
        let groups = if is_redescribed { Agent::DESCRIBED } else { 0 };
        self.rows.agents.put(agent, groups);
    }

    fn apply_pulse(&mut self, pulse: &Pulse) {
        let Some((agent, put)) = self.rows.agents.get_mut(&pulse.agent) else {
            return;
        };
        agent.seen_at = agent.seen_at.max(pulse.at);
        agent.heartbeats += u64::from(pulse.heartbeat);
        let (seen_at, heartbeats) = (agent.seen_at, agent.heartbeats);
        if !put.is_new {
            self.hold_pulse(&pulse.agent, seen_at, heartbeats);
        }
    }

    /// A sign of life is not worth a write of its own: it waits for the next ones.
    fn hold_pulse(&mut self, agent: &AgentId, at: Timestamp, heartbeats: u64) {
        self.notices.pulsed.push(agent.clone());
        let since = self.pulses.get(agent).map_or(at, |held| held.since);
        let held = HeldPulse {
            at,
            heartbeats,
            since,
        };
        self.pulses.insert(agent.clone(), held);
    }

    fn apply_task(&mut self, mut task: Task, published: Option<&Dispatch>, now: Timestamp) {
        task.rev += 1;
        let before = self.rows.tasks.get(&task.id);
        let contract = task.contract.as_ref();
        let told = contract.map(|contract| contract.tell(before, &task, published.is_some(), now));
        let notices = contract.zip(told.as_ref()).map(|(contract, (told, _))| {
            let events = published.into_iter().chain(told);
            let notices = events.filter_map(|event| contract.notice(event));
            notices.collect::<Vec<_>>()
        });
        let mishap = contract.and_then(|contract| contract.mishap(told.as_ref()?, published, now));
        self.head
            .moved(before.map(Task::status), Some(task.status()));
        let waited_in = before
            .filter(|before| before.status() == TaskStatus::Ready)
            .and_then(|before| before.lane);
        task.lane = self.lanes.moved(before, &task, &mut self.head.lane);
        match &task.state {
            // Also when it only changed lanes: others may take it now.
            TaskState::Ready if waited_in != task.lane => self.notices.readied.extend(task.lane),
            TaskState::RetryWait { until } => self.notices.due_at(*until),
            TaskState::Ready
            | TaskState::Waiting
            | TaskState::Claimed { .. }
            | TaskState::InProgress { .. }
            | TaskState::NeedsPerson { .. }
            | TaskState::Completed { .. }
            | TaskState::Failed { .. }
            | TaskState::Canceled { .. } => {}
        }
        let mut groups = 0;
        if before.is_some_and(|before| task.about != before.about) {
            groups |= Task::DESCRIBED;
        }
        if before.is_some_and(|before| !task.is_queued_as(before)) {
            groups |= Task::QUEUED;
        }
        if before.is_none() {
            self.head.task_number = self.head.task_number.max(task.number);
            self.ranges.numbered.remove(&task.number);
            for dependency in &task.dependencies {
                self.ranges.dependants.remove(dependency);
            }
        }
        self.ranges.due_retries.clear();
        self.ranges.watched_tasks.clear();
        if let Some(watch) = &task.watch {
            self.notices.due_at(watch.look_at);
        }
        self.task_bytes += task.bytes();
        self.rows.tasks.put(task, groups);
        for notice in notices.unwrap_or_default() {
            self.put(notice.into(), now);
        }
        let (told, order) = told.unwrap_or_default();
        if let Some(order) = order {
            self.put(order.into(), now);
        }
        if let Some(mishap) = mishap {
            self.put(mishap.into(), now);
        }
        for dispatch in told {
            self.tell(dispatch);
        }
    }

    fn apply_lease(&mut self, mut lease: Lease) {
        lease.rev += 1;
        self.head.fencing = self.head.fencing.max(lease.fencing);
        self.notices.due_at(lease.expires_at);
        match self.rows.leases.get(&lease.path) {
            Some(before) => {
                self.ranges
                    .lease_changed(&before.path, &before.agent, before.task.as_ref());
            }
            None => self.head.leases += 1,
        }
        self.ranges
            .lease_changed(&lease.path, &lease.agent, lease.task.as_ref());
        self.rows.leases.put(lease, 0);
    }

    fn apply_delivery(&mut self, delivery: Delivery) {
        let key = (delivery.message.clone(), delivery.agent.clone());
        let queued = |delivery: &Delivery| delivery.state == DeliveryState::Queued;
        let before = self.rows.deliveries.get(&key).is_some_and(queued);
        let change = i64::from(queued(&delivery)) - i64::from(before);
        self.head.queued_deliveries = self.head.queued_deliveries.saturating_add_signed(change);
        self.ranges.inbox_changed(&delivery.agent);
        if queued(&delivery) {
            self.notices.inboxes.push(delivery.agent.clone());
            if let Some(at) = delivery.expires_at {
                self.notices.due_at(at);
            }
        }
        self.rows.deliveries.put(delivery, 0);
    }
}

impl Notices {
    fn due_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

/// Which of the lists of agents it is in.
fn kind_of(presence: &Presence) -> u8 {
    match presence {
        Presence::Live(_) => 0,
        Presence::Silent { .. } => 1,
        Presence::Gone { .. } => 2,
    }
}
