//! Writes what a batch changed: deletions first, because a key that went may have come again.

use std::collections::BTreeMap;

use super::Ledger;
use crate::agent::Agent;
use crate::changes::Prune;
use crate::event::Logged;
use crate::id::MessageId;
use crate::lease::Lease;
use crate::message::{DeliveryState, Message};
use crate::record::{Record, RecordKey, RecordRange};
use crate::row::Noun;
use crate::slice::Save;
use crate::task::Task;

impl Ledger {
    pub fn save(&mut self, save: &Save<'_>) {
        self.delete(save);
        self.put(save);
        for prune in save.prunes {
            let (count, bytes) = self.prune(prune);
            self.pruned_answers.0 += count;
            self.pruned_answers.1 += bytes;
        }
        if let Some(head) = save.head {
            self.head = head.clone();
            let (count, bytes) = std::mem::take(&mut self.pruned_answers);
            self.head.idempotency_rows = head.idempotency_rows.saturating_sub(count);
            self.head.idempotency_bytes = head.idempotency_bytes.saturating_sub(bytes);
        }
    }

    fn delete(&mut self, save: &Save<'_>) {
        for (id, _) in save.drops::<Agent>() {
            self.agents.remove(id);
        }
        for (id, _) in save.drops::<Task>() {
            self.tasks.remove(id);
            self.attempts.retain(|attempt| attempt.task != *id);
        }
        for (path, _) in save.drops::<Lease>() {
            self.leases.remove(path);
        }
        for (key, _) in save.drops::<Record>() {
            self.records.remove(key);
        }
        for id in save.closed_lanes {
            self.lanes.remove(id);
        }
    }

    fn put(&mut self, save: &Save<'_>) {
        for (agent, put) in save.puts::<Agent>() {
            let mut row = agent.clone();
            if let Some(old) = self.agents.get(&agent.id).filter(|_| !put.is_new) {
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
        for lane in &save.lanes {
            self.lanes.insert(lane.id, (*lane).clone());
        }
        for (rep, count) in &save.reps {
            self.reps.insert((*rep).clone(), *count);
        }
        into(save, &mut self.former_agents);
        into(save, &mut self.tasks);
        into(save, &mut self.leases);
        into(save, &mut self.messages);
        into(save, &mut self.deliveries);
        into(save, &mut self.records);
        into(save, &mut self.answers);
        into(save, &mut self.nonces);
        into(save, &mut self.tokens);
        self.attempts.extend(rows(save));
        self.snapshots.extend(rows(save));
        self.learnings.extend(rows(save));
        self.baseline = rows(save).next().or(self.baseline.take());
        self.adopted.extend_from_slice(save.adopted);
        self.log.extend_from_slice(save.log);
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
                let old = self.log.iter().filter(is_old);
                let old: Vec<u64> = old.map(|logged| logged.seq).take(*limit).collect();
                self.log.retain(|logged| !old.contains(&logged.seq));
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
                let mut old: Vec<_> = self.answers.iter().collect();
                old.retain(|(_, row)| row.at < *before);
                old.sort_by_key(|(key, row)| (row.at, (*key).clone()));
                old.truncate(*limit);
                let count = old.len() as u64;
                let bytes = old.iter().map(|(_, row)| row.answer.len() as u64).sum();
                let old: Vec<_> = old.into_iter().map(|(key, _)| key.clone()).collect();
                self.answers.retain(|key, _| !old.contains(key));
                (count, bytes)
            }
            Prune::Nonces { before, limit } => {
                let mut old: Vec<_> = self.nonces.values().cloned().collect();
                old.retain(|nonce| nonce.valid_until < *before);
                old.sort_by_key(|nonce| nonce.valid_until);
                for nonce in old.iter().take(*limit) {
                    self.nonces.remove(&nonce.key());
                }
                (0, 0)
            }
            Prune::Records {
                kind,
                owner,
                before,
                limit,
            } => {
                let mut old = self.records_in(&RecordRange {
                    kind: *kind,
                    owner: (*owner).into(),
                    after: None,
                    newest_first: false,
                    limit: *limit,
                });
                old.retain(|row| row.position().is_some_and(|at| at < before.0));
                let old: Vec<RecordKey> = old.iter().map(|row| row.key()).collect();
                self.records.retain(|key, _| !old.contains(key));
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

fn rows<'a, T: Noun + 'a>(save: &Save<'a>) -> impl Iterator<Item = T> + use<'a, T> {
    save.puts::<T>().map(|(row, _)| row.clone())
}

fn into<'a, T: Noun + 'a>(save: &Save<'a>, map: &mut BTreeMap<T::Key, T>)
where
    T::Key: Ord,
{
    map.extend(rows::<T>(save).map(|row| (row.key(), row)));
}
