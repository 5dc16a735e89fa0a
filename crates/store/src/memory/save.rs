//! Writes what a batch changed: deletions first, because a key that went may have come again.

use std::sync::Arc;

use switchboard_core::changes::Prune;
use switchboard_core::slice::Save;
use switchboard_core::{DeliveryState, Logged, Message, MessageId};

use super::{Batch, Rows};

impl Batch {
    pub(super) fn save(&mut self, save: &Save<'_>) {
        let rows = Arc::make_mut(&mut self.rows);
        rows.delete(save);
        rows.put(save);
        for prune in save.prunes {
            let (count, bytes) = rows.prune(prune);
            self.pruned_answers.0 += count;
            self.pruned_answers.1 += bytes;
        }
        if let Some(head) = save.head {
            rows.head = head.clone();
            let (count, bytes) = self.pruned_answers;
            rows.head.idempotency_rows = head.idempotency_rows.saturating_sub(count);
            rows.head.idempotency_bytes = head.idempotency_bytes.saturating_sub(bytes);
        }
    }
}

impl Rows {
    fn delete(&mut self, save: &Save<'_>) {
        for former in save.forgotten_agents {
            self.agents.remove(&former.id);
            self.former_agents.insert(former.id.clone(), former.clone());
        }
        for (id, number) in save.forgotten_tasks {
            self.tasks.remove(id);
            self.attempts.retain(|attempt| attempt.number != *number);
        }
        for path in save.ended_leases {
            self.leases.remove(path);
        }
        for id in save.closed_lanes {
            self.lanes.remove(id);
        }
    }

    fn put(&mut self, save: &Save<'_>) {
        for (agent, new) in &save.agents {
            let mut row = (*agent).clone();
            if let Some(old) = self.agents.get(&agent.id).filter(|_| !new) {
                row.seen_at = old.seen_at;
                row.heartbeats = old.heartbeats;
            }
            self.agents.insert(agent.id.clone(), row);
        }
        for (id, at, heartbeats) in &save.pulses {
            if let Some(agent) = self.agents.get_mut(id) {
                agent.seen_at = *at;
                agent.heartbeats = *heartbeats;
            }
        }
        for (task, _) in &save.tasks {
            self.tasks.insert(task.id.clone(), (*task).clone());
        }
        for lane in &save.lanes {
            self.lanes.insert(lane.id, (*lane).clone());
        }
        for (rep, count) in &save.reps {
            self.reps.insert((*rep).clone(), *count);
        }
        for (lease, _) in &save.leases {
            self.leases.insert(lease.path.clone(), (*lease).clone());
        }
        for (message, _) in &save.messages {
            self.messages.insert(message.id.clone(), (*message).clone());
        }
        for (delivery, _) in &save.deliveries {
            let key = (delivery.message.clone(), delivery.agent.clone());
            self.deliveries.insert(key, (*delivery).clone());
        }
        for (record, _) in &save.records {
            self.records.insert(record.key(), (*record).clone());
        }
        let evicted = save.evicted_engrams;
        self.engrams
            .retain(|engram| !evicted.contains(&engram.entry.id));
        for engram in save.engrams {
            self.engrams.push(engram.clone());
        }
        self.attempts.extend_from_slice(save.attempts);
        self.snapshots.extend_from_slice(save.snapshots);
        if let Some(baseline) = save.baseline {
            self.baseline = Some(baseline.clone());
        }
        self.learnings.extend_from_slice(save.learnings);
        for (key, remembered) in save.remembered {
            self.remembered.insert(key.clone(), remembered.clone());
        }
        self.nonces.extend(save.nonces.iter().cloned());
        for token in save.tokens {
            self.tokens.insert(token.id.clone(), token.clone());
        }
        for logged in save.log {
            self.log.insert(logged.seq, logged.clone());
        }
    }

    /// Deletes the oldest rows of a kind; tells how many remembered answers went, and their bytes.
    fn prune(&mut self, prune: &Prune) -> (u64, u64) {
        match prune {
            Prune::Events {
                before,
                upto,
                limit,
            } => {
                let is_old = |logged: &&Logged| logged.at < *before && logged.seq < *upto;
                let old = self.log.values().filter(is_old);
                let old: Vec<u64> = old.map(|logged| logged.seq).take(*limit).collect();
                self.log.retain(|seq, _| !old.contains(seq));
                (0, 0)
            }
            Prune::Messages { before, limit } => {
                let mut old: Vec<&Message> = self.messages.values().collect();
                old.retain(|message| message.created_at < *before && !self.waits(&message.id));
                old.sort_by_key(|message| message.number);
                let old: Vec<MessageId> =
                    old.iter().take(*limit).map(|row| row.id.clone()).collect();
                self.messages.retain(|id, _| !old.contains(id));
                self.deliveries.retain(|(id, _), _| !old.contains(id));
                (0, 0)
            }
            Prune::Remembered { before, limit } => {
                let mut old: Vec<_> = self.remembered.iter().collect();
                old.retain(|(_, row)| row.at < *before);
                old.sort_by_key(|(key, row)| (row.at, (*key).clone()));
                old.truncate(*limit);
                let count = old.len() as u64;
                let bytes = old.iter().map(|(_, row)| row.answer.len() as u64).sum();
                let old: Vec<_> = old.into_iter().map(|(key, _)| key.clone()).collect();
                self.remembered.retain(|key, _| !old.contains(key));
                (count, bytes)
            }
            Prune::Nonces { before, limit } => {
                let mut old: Vec<_> = self.nonces.iter().cloned().collect();
                old.retain(|nonce| nonce.valid_until < *before);
                old.sort_by_key(|nonce| nonce.valid_until);
                for nonce in old.iter().take(*limit) {
                    self.nonces.remove(nonce);
                }
                (0, 0)
            }
        }
    }

    /// Whether anyone has still to fetch this message.
    fn waits(&self, message: &MessageId) -> bool {
        self.deliveries
            .values()
            .any(|delivery| delivery.message == *message && delivery.state == DeliveryState::Queued)
    }
}
