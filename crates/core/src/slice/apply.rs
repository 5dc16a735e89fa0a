//! Takes a verb's changes into the working set, and notes what must be saved.

use super::{Cell, HeldPulse, Notices, Slice};
use crate::agent::{Agent, Presence};
use crate::changes::{Adopted, AdoptedRow, Changes, Prune, Pulse};
use crate::event::Logged;
use crate::id::AgentId;
use crate::idempotency::Remembered;
use crate::lease::Lease;
use crate::message::{Delivery, DeliveryState};
use crate::path::LeasePath;
use crate::record::Record;
use crate::task::{Task, TaskState, TaskStatus};
use crate::time::Timestamp;

impl Slice {
    /// Everything a decision wants written becomes visible to the verbs after it.
    pub fn apply(&mut self, changes: Changes, now: Timestamp) {
        for adopted in changes.adopted {
            self.adopt(adopted);
        }
        for agent in changes.agents {
            self.apply_agent(agent);
        }
        for pulse in changes.pulses {
            self.apply_pulse(&pulse);
        }
        for former in changes.forgotten_agents {
            let id = former.id.clone();
            self.agents.insert(
                id.clone(),
                Cell {
                    row: None,
                    dirty: false,
                    new: false,
                },
            );
            self.pulses.remove(&id);
            self.dirty.agents.retain(|dirty| *dirty != id);
            self.ranges.agents_changed();
            self.former_agents.insert(id, former.clone());
            self.dirty.forgotten_agents.push(former);
        }
        for task in changes.tasks {
            self.apply_task(task);
        }
        for id in changes.forgotten_tasks {
            self.forget_task(id);
        }
        // First those that end: a path may be leased anew by the same decision.
        for path in changes.ended_leases {
            self.end_lease(path);
        }
        for lease in changes.leases {
            self.apply_lease(lease);
        }
        for mut message in changes.messages {
            message.rev += 1;
            self.head.message_number = self.head.message_number.max(message.number);
            self.head.last_message_at = self.head.last_message_at.max(message.created_at);
            put(
                &mut self.messages,
                &mut self.dirty.messages,
                message.id.clone(),
                message,
            );
        }
        for delivery in changes.deliveries {
            self.apply_delivery(delivery);
        }
        for record in changes.records {
            if let Some(at) = record.due_at() {
                self.notices.due_at(at);
            }
            self.notices.work_resumed |=
                matches!(&record, Record::Director(told) if told.hands_out(now));
            put(
                &mut self.records,
                &mut self.dirty.records,
                record.key(),
                record,
            );
        }
        if !(changes.engrams.is_empty() && changes.evicted_engrams.is_empty()) {
            self.ranges.engrams = None;
        }
        self.dirty.engrams.extend(changes.engrams);
        self.dirty.evicted_engrams.extend(changes.evicted_engrams);
        if let Some(baseline) = changes.baseline {
            self.ranges.baseline = Some(Some(baseline));
            self.dirty.baseline = true;
        }
        for snapshot in &changes.snapshots {
            if let Some(task) = &snapshot.task {
                self.ranges
                    .snapshots
                    .insert(task.clone(), Some(snapshot.clone()));
            }
        }
        for (key, remembered) in changes.remembered {
            self.head.idempotency_rows += 1;
            self.head.idempotency_bytes += remembered.answer.len() as u64;
            self.ranges
                .remembered
                .insert(key.clone(), Some(remembered.clone()));
            self.dirty.remembered.push((key, remembered));
        }
        for nonce in changes.nonces {
            self.ranges.nonces.insert(nonce.clone(), true);
            self.dirty.nonces.push(nonce);
        }
        for token in changes.tokens {
            self.ranges
                .tokens
                .insert(token.id.clone(), Some(token.clone()));
            self.dirty.tokens.push(token);
        }
        if let Some(served) = changes.served {
            self.head.served_at = served.at;
            self.head.floor = served.floor.unwrap_or(self.head.floor);
            self.dirty.head = true;
        }
        if let Some(epoch) = changes.epoch {
            self.head.epoch = epoch;
            self.dirty.head = true;
        }
        for prune in &changes.prunes {
            if let Prune::Remembered { before, .. } = prune {
                let is_kept = |row: &mut Option<Remembered>| {
                    row.as_ref().is_some_and(|row| row.at >= *before)
                };
                self.ranges.remembered.retain(|_, row| is_kept(row));
            }
        }
        self.dirty.attempts.extend(changes.attempts);
        self.dirty.snapshots.extend(changes.snapshots);
        self.dirty.learnings.extend(changes.learnings);
        self.dirty.prunes.extend(changes.prunes);
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

    /// Whatever the hand made of the row, it is written anew, all of it, and under a new rev: so later notes of the row
    /// can tell that it is no longer as a hand left it.
    fn adopt(&mut self, adopted: Adopted) {
        match &adopted.row {
            AdoptedRow::Task(id) => {
                if let Some(task) = touch(&mut self.tasks, &mut self.dirty.tasks, id) {
                    task.rev += 1;
                    self.dirty.redescribed_tasks.insert(id.clone());
                    self.dirty.requeued_tasks.insert(id.clone());
                }
            }
            AdoptedRow::Agent(id) => {
                if let Some(agent) = touch(&mut self.agents, &mut self.dirty.agents, id) {
                    agent.rev += 1;
                    self.dirty.redescribed_agents.push(id.clone());
                }
            }
            AdoptedRow::Message(id) => {
                if let Some(message) = touch(&mut self.messages, &mut self.dirty.messages, id) {
                    message.rev += 1;
                }
            }
            AdoptedRow::Lease(path) => {
                match touch(&mut self.leases, &mut self.dirty.leases, path) {
                    Some(lease) => lease.rev += 1,
                    None => self.dirty.ended_leases.push(path.clone()),
                }
            }
            AdoptedRow::Baseline => {}
        }
        self.dirty.adopted.push(adopted);
    }

    fn apply_agent(&mut self, mut agent: Agent) {
        agent.rev += 1;
        let before = self
            .agents
            .get(&agent.id)
            .and_then(|cell| cell.row.as_ref());
        let moved =
            before.is_none_or(|before| kind_of(&before.presence) != kind_of(&agent.presence));
        if moved {
            self.ranges.agents_changed();
            self.notices.agents_left |= !agent.is_live();
            if agent.is_live() {
                self.notices.due_at(agent.seen_at + agent.silent_after);
            }
        }
        let may_come_first = |agent: &Agent| agent.is_idle() && !agent.is_stopping();
        self.notices.agents_busied |= before.is_some_and(may_come_first) && !may_come_first(&agent);
        if before.is_some_and(|before| !agent.is_described_as(before)) {
            self.dirty.redescribed_agents.push(agent.id.clone());
        }
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
        put(
            &mut self.agents,
            &mut self.dirty.agents,
            agent.id.clone(),
            agent,
        );
    }

    fn apply_pulse(&mut self, pulse: &Pulse) {
        let Some(Cell {
            row: Some(agent),
            new,
            ..
        }) = self.agents.get_mut(&pulse.agent)
        else {
            return;
        };
        agent.seen_at = agent.seen_at.max(pulse.at);
        agent.heartbeats += u64::from(pulse.heartbeat);
        let (seen_at, heartbeats) = (agent.seen_at, agent.heartbeats);
        if !*new {
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

    fn apply_task(&mut self, mut task: Task) {
        task.rev += 1;
        let before = self.tasks.get(&task.id).and_then(|cell| cell.row.as_ref());
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
        if before.is_some_and(|before| !task.is_described_as(before)) {
            self.dirty.redescribed_tasks.insert(task.id.clone());
        }
        if before.is_some_and(|before| !task.is_queued_as(before)) {
            self.dirty.requeued_tasks.insert(task.id.clone());
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
        put(
            &mut self.tasks,
            &mut self.dirty.tasks,
            task.id.clone(),
            task,
        );
    }

    fn forget_task(&mut self, id: crate::TaskId) {
        let Some(Cell {
            row: Some(task), ..
        }) = self.tasks.remove(&id)
        else {
            return;
        };
        self.head.moved(Some(task.status()), None);
        self.ranges.dependants.clear();
        self.dirty.tasks.retain(|dirty| *dirty != id);
        self.dirty.forgotten_tasks.push((id.clone(), task.number));
        self.tasks.insert(
            id,
            Cell {
                row: None,
                dirty: false,
                new: false,
            },
        );
    }

    fn apply_lease(&mut self, mut lease: Lease) {
        lease.rev += 1;
        self.head.fencing = self.head.fencing.max(lease.fencing);
        self.notices.due_at(lease.expires_at);
        let before = self
            .leases
            .get(&lease.path)
            .and_then(|cell| cell.row.as_ref());
        match before {
            Some(before) => {
                self.ranges
                    .lease_changed(&before.path, &before.agent, before.task.as_ref());
            }
            None => self.head.leases += 1,
        }
        self.ranges
            .lease_changed(&lease.path, &lease.agent, lease.task.as_ref());
        put(
            &mut self.leases,
            &mut self.dirty.leases,
            lease.path.clone(),
            lease,
        );
    }

    fn end_lease(&mut self, path: LeasePath) {
        let Some(Cell {
            row: Some(lease), ..
        }) = self.leases.remove(&path)
        else {
            return;
        };
        self.head.leases = self.head.leases.saturating_sub(1);
        self.ranges
            .lease_changed(&lease.path, &lease.agent, lease.task.as_ref());
        self.dirty.leases.retain(|dirty| *dirty != path);
        self.dirty.ended_leases.push(path);
    }

    fn apply_delivery(&mut self, delivery: Delivery) {
        let key = (delivery.message.clone(), delivery.agent.clone());
        let queued = |delivery: &Delivery| delivery.state == DeliveryState::Queued;
        let before = self
            .deliveries
            .get(&key)
            .and_then(|cell| cell.row.as_ref())
            .is_some_and(queued);
        let change = i64::from(queued(&delivery)) - i64::from(before);
        self.head.queued_deliveries = self.head.queued_deliveries.saturating_add_signed(change);
        self.ranges.inbox_changed(&delivery.agent);
        if queued(&delivery) {
            self.notices.inboxes.push(delivery.agent.clone());
            if let Some(at) = delivery.expires_at {
                self.notices.due_at(at);
            }
        }
        put(
            &mut self.deliveries,
            &mut self.dirty.deliveries,
            key,
            delivery,
        );
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

/// Has a row written though nothing about it changed. `None` if there is none.
fn touch<'a, K: Clone + Eq + std::hash::Hash, T>(
    cells: &'a mut super::Map<K, Cell<T>>,
    dirty: &mut Vec<K>,
    key: &K,
) -> Option<&'a mut T> {
    let cell = cells.get_mut(key)?;
    let row = cell.row.as_mut()?;
    if !cell.dirty {
        cell.dirty = true;
        dirty.push(key.clone());
    }
    Some(row)
}

fn put<K: Clone + Eq + std::hash::Hash, T>(
    cells: &mut super::Map<K, Cell<T>>,
    dirty: &mut Vec<K>,
    key: K,
    row: T,
) {
    let cell = cells.entry(key.clone()).or_insert(Cell {
        row: None,
        dirty: false,
        new: true,
    });
    cell.new |= cell.row.is_none();
    cell.row = Some(row);
    if !cell.dirty {
        cell.dirty = true;
        dirty.push(key);
    }
}
