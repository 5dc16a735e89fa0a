//! How the swarm's maps answer asks and keep what a run saved.

use super::Swarm;
use crate::id::{AgentId, TaskId};
use crate::lane::Lane;
use crate::lease::Lease;
use crate::message::{Delivery, DeliveryState};
use crate::path::LeasePath;
use crate::quality::Snapshot;
use crate::slice::{FinishedPage, Kept, Save, Slice};
use crate::task::{Task, TaskState, TaskStatus};
use crate::want::Ask;
use crate::{Agent, Presence, limits};

impl Swarm {
    pub(super) fn keep(&mut self, save: &Save<'_>) {
        self.head = save.head.expect("the last save has the head").clone();
        for former in save.forgotten_agents {
            self.agents.remove(&former.id);
            self.former_agents.insert(former.id.clone(), former.clone());
        }
        save.forgotten_tasks
            .iter()
            .for_each(|(id, _)| drop(self.tasks.remove(id)));
        save.ended_leases
            .iter()
            .for_each(|path| drop(self.leases.remove(path)));
        save.closed_lanes
            .iter()
            .for_each(|id| drop(self.lanes.remove(id)));
        for (agent, _) in &save.agents {
            self.agents.insert(agent.id.clone(), (*agent).clone());
        }
        for (id, at, beats) in &save.pulses {
            let agent = self.agents.get_mut(id).expect("whoever lives is known");
            agent.seen_at = *at;
            agent.heartbeats = *beats;
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
        for (row, _) in &save.deliveries {
            let key = (row.message.clone(), row.agent.clone());
            self.deliveries.insert(key, (*row).clone());
        }
        self.attempts.extend_from_slice(save.attempts);
        self.snapshots.extend_from_slice(save.snapshots);
        self.learnings.extend_from_slice(save.learnings);
        self.baseline = save.baseline.cloned().or(self.baseline.take());
        for token in save.tokens {
            self.tokens.insert(token.id.clone(), token.clone());
        }
        for (record, _) in &save.records {
            self.records.insert(record.key(), (*record).clone());
        }
        self.engrams
            .retain(|engram| !save.evicted_engrams.contains(&engram.entry.id));
        self.engrams.extend_from_slice(save.engrams);
        self.adopted.extend_from_slice(save.adopted);
        self.log.extend_from_slice(save.log);
    }

    pub(super) fn answer(&self, ask: &Ask, slice: &mut Slice) {
        match ask {
            Ask::Agent(id) => {
                slice.put_agent(id, self.agents.get(id).cloned());
                let former = self.former_agents.get(id).cloned();
                former
                    .into_iter()
                    .for_each(|row| slice.put_former_agent(row));
            }
            Ask::PresentAgents => {
                slice.ranges.present_agents = Some(self.agents_that(|agent| !agent.is_gone()));
            }
            Ask::QuietAgents { now, floor, limit } => {
                let mut ids = self.agents_that(|agent| {
                    agent.is_live()
                        && agent.seen_at + agent.silent_after <= *now
                        && *floor + agent.silent_after <= *now
                });
                ids.truncate(*limit);
                let asked = (*now, *floor, *limit);
                slice.ranges.quiet_agents.insert(asked, ids);
            }
            Ask::GoneAgents { before, limit } => {
                let left =
                    |agent: &Agent| matches!(agent.presence, Presence::Gone { at } if at < *before);
                let mut ids = self.agents_that(left);
                ids.truncate(*limit);
                slice.ranges.gone_agents.insert((*before, *limit), ids);
            }
            Ask::Task(id) => slice.put_task(id, self.tasks.get(id).cloned()),
            Ask::Numbered(number) => {
                let found = self.tasks_that(|task| task.number == *number).pop();
                slice.ranges.numbered.insert(*number, found);
            }
            Ask::Record(key) => slice.put_record(key, self.records.get(key).cloned()),
            Ask::Engrams => {
                let entries = self.engrams.iter().map(|engram| engram.entry.clone());
                slice.ranges.engrams = Some(entries.collect());
            }
            Ask::Kept => {
                let oldest = self.log.first().map(|logged| logged.seq);
                slice.ranges.kept = Some(Kept {
                    oldest_event: oldest.unwrap_or(self.head.seq + 1),
                    messages: self.messages.len() as u64,
                });
            }
            Ask::WatchedTasks { until, limit } => {
                let due = |task: &Task| task.watch.is_some_and(|watch| watch.look_at <= *until);
                let mut ids = self.tasks_that(due);
                ids.truncate(*limit);
                slice.ranges.watched_tasks.insert((*until, *limit), ids);
            }
            Ask::Dependants(id) => {
                let ids = self.tasks_that(|task| task.dependencies.contains(id));
                slice.ranges.dependants.insert(id.clone(), ids);
            }
            Ask::LaneById(id) => match self.lanes.get(id) {
                Some(lane) => slice.lanes.put(lane.clone()),
                None => slice.lanes.put_absent_id(*id),
            },
            Ask::LaneByKey(key) => match self.lanes.values().find(|lane| lane.key == *key) {
                Some(lane) => slice.lanes.put(lane.clone()),
                None => slice.lanes.put_absent(key),
            },
            Ask::Lanes { rep, from } => {
                let mut page: Vec<Lane> = self.lanes.values().cloned().collect();
                page.retain(|lane| lane.rep == *rep && lane.ready > 0);
                page.retain(|lane| from.is_none_or(|from| lane.position() >= from));
                page.sort_by_key(Lane::position);
                page.truncate(limits::LANES_PER_LOAD);
                slice.lanes.put_ready(rep, page);
            }
            Ask::HeldLanes(rep) => {
                let held = self
                    .lanes
                    .values()
                    .filter(|lane| lane.rep == *rep && lane.held > 0);
                slice.lanes.put_held(rep, held.cloned().collect());
            }
            Ask::LanesUnder(rep) => {
                slice
                    .lanes
                    .put_lanes_under(rep, self.reps.get(rep).copied().unwrap_or(0));
            }
            Ask::Queue { lane, from } => {
                let waits =
                    |task: &&Task| task.lane == Some(*lane) && task.status() == TaskStatus::Ready;
                let waiting = self.tasks.values().filter(waits);
                let mut page: Vec<_> = waiting.map(|task| (task.number, task.id.clone())).collect();
                page.retain(|(number, _)| number >= from);
                page.sort();
                page.truncate(limits::QUEUE_PER_LOAD);
                slice
                    .lanes
                    .put_queue(*lane, *from, page, limits::QUEUE_PER_LOAD);
            }
            Ask::LeasesNear(path) => {
                let found = self.leases_into(slice, |lease| lease.path.overlaps(path));
                slice.ranges.leases_near.insert(path.clone(), found);
            }
            Ask::LeasesOfAgent(agent) => {
                let found = self.leases_into(slice, |lease| lease.agent == *agent);
                slice.ranges.leases_of_agent.insert(agent.clone(), found);
            }
            Ask::LeasesOfTask(task) => {
                let found = self.leases_into(slice, |lease| lease.task.as_ref() == Some(task));
                slice.ranges.leases_of_task.insert(task.clone(), found);
            }
            Ask::DueLeases { until, limit } => {
                let mut found = self.leases_into(slice, |lease| lease.expires_at <= *until);
                found.truncate(*limit);
                slice.ranges.due_leases.insert((*until, *limit), found);
            }
            Ask::Message(id) => slice.put_message(id, self.messages.get(id).cloned()),
            Ask::Delivery(message, agent) => {
                let row = self.deliveries.get(&(message.clone(), agent.clone()));
                slice.put_delivery(message, agent, row.cloned());
            }
            Ask::Inbox(inbox) => {
                let rows = self.queued(|row| row.agent == inbox.agent);
                let kind_of = |row: &&Delivery| self.messages[&row.message].kind.clone();
                let wanted =
                    |row: &&Delivery| inbox.kinds.is_empty() || inbox.kinds.contains(&kind_of(row));
                let ids = rows.into_iter().filter(wanted).take(inbox.limit);
                let ids = ids.map(|row| row.message.clone()).collect();
                slice.ranges.inbox.insert(inbox.clone(), ids);
            }
            Ask::DueDeliveries { until, limit } => {
                let due = self.queued(|row| row.expires_at.is_some_and(|at| at <= *until));
                let keys = due.into_iter().take(*limit);
                let keys = keys
                    .map(|row| (row.message.clone(), row.agent.clone()))
                    .collect();
                slice.ranges.due_deliveries.insert((*until, *limit), keys);
            }
            Ask::Baseline => slice.ranges.baseline = Some(self.baseline.clone()),
            Ask::SnapshotOf(task) => {
                let of_task = |row: &&Snapshot| row.task.as_ref() == Some(task);
                let last = self.snapshots.iter().rev().find(of_task).cloned();
                slice.ranges.snapshots.insert(task.clone(), last);
            }
            Ask::Token(id) => {
                slice
                    .ranges
                    .tokens
                    .insert(id.clone(), self.tokens.get(id).cloned());
            }
            Ask::DueRetries { until, limit } => {
                let due = |task: &Task| matches!(task.state, TaskState::RetryWait { until: at } if at <= *until);
                let mut ids = self.tasks_that(due);
                ids.truncate(*limit);
                slice.ranges.due_retries.insert((*until, *limit), ids);
            }
            Ask::FinishedTasks {
                from,
                before,
                limit,
            } => {
                let ended = |task: &Task| task.status().is_final() && task.updated_at < *before;
                let tasks = self.tasks_that(|task| task.number >= *from && ended(task));
                let page = FinishedPage { tasks, next: None };
                slice.ranges.finished.insert((*from, *before, *limit), page);
            }
            Ask::Remembered(_) | Ask::Nonce(_) => unreachable!("no verb of core asks for {ask:?}"),
        }
    }

    fn agents_that(&self, keep: impl Fn(&Agent) -> bool) -> Vec<AgentId> {
        let kept = self.agents.values().filter(|agent| keep(agent));
        kept.map(|agent| agent.id.clone()).collect()
    }

    fn tasks_that(&self, keep: impl Fn(&Task) -> bool) -> Vec<TaskId> {
        let mut kept: Vec<&Task> = self.tasks.values().filter(|task| keep(task)).collect();
        kept.sort_by_key(|task| task.number);
        kept.into_iter().map(|task| task.id.clone()).collect()
    }

    fn leases_into(&self, slice: &mut Slice, keep: impl Fn(&Lease) -> bool) -> Vec<LeasePath> {
        let kept: Vec<&Lease> = self.leases.values().filter(|lease| keep(lease)).collect();
        kept.iter()
            .for_each(|lease| slice.put_lease((*lease).clone()));
        kept.into_iter().map(|lease| lease.path.clone()).collect()
    }

    fn queued(&self, keep: impl Fn(&Delivery) -> bool) -> Vec<&Delivery> {
        let rows = self.deliveries.values();
        let mut kept: Vec<&Delivery> = rows.filter(|row| keep(row)).collect();
        kept.retain(|row| row.state == DeliveryState::Queued);
        kept.sort_by_key(|row| row.number);
        kept
    }
}
