//! Answers asks by looking at every row.

use super::Ledger;
use crate::agent::{Agent, Presence};
use crate::id::{AgentId, TaskId};
use crate::lane::Position;
use crate::lease::Lease;
use crate::limits;
use crate::message::{Delivery, DeliveryState};
use crate::path::LeasePath;
use crate::quality::Snapshot;
use crate::record::{Record, RecordKey, RecordRange};
use crate::row::RowKey;
use crate::slice::{FinishedPage, InboxAsk, InboxOrder, Kept, Slice};
use crate::task::{Task, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::want::Ask;

impl Ledger {
    pub fn answer(&self, ask: &Ask, slice: &mut Slice) {
        match ask {
            Ask::Row(key) => self.answer_row(key, slice),
            Ask::PresentAgents => {
                let ids = self.agents_into(slice, |agent| !agent.is_gone());
                slice.ranges.present_agents = Some(ids);
            }
            Ask::QuietAgents { now, floor, limit } => {
                let mut quiet: Vec<&Agent> = self.agents.values().collect();
                let is_due = |agent: &Agent| {
                    let limit = agent.silent_after;
                    limit.is_some_and(|limit| agent.seen_at.max(*floor) + limit <= *now)
                };
                quiet.retain(|agent| agent.is_live() && is_due(agent));
                quiet.sort_by_key(|agent| (agent.silent_at(), agent.id.clone()));
                quiet.truncate(*limit);
                let ids = put_agents(slice, &quiet);
                let asked = (*now, *floor, *limit);
                slice.ranges.quiet_agents.insert(asked, ids);
            }
            Ask::GoneAgents { before, limit } => {
                let mut gone: Vec<(Timestamp, &Agent)> = Vec::new();
                for agent in self.agents.values() {
                    match agent.presence {
                        Presence::Gone { at } if at < *before => gone.push((at, agent)),
                        Presence::Gone { .. } | Presence::Silent { .. } | Presence::Live(_) => {}
                    }
                }
                gone.sort_by_key(|(at, agent)| (*at, agent.id.clone()));
                let gone: Vec<&Agent> = gone
                    .into_iter()
                    .map(|(_, agent)| agent)
                    .take(*limit)
                    .collect();
                let ids = put_agents(slice, &gone);
                slice.ranges.gone_agents.insert((*before, *limit), ids);
            }
            Ask::Numbered(number) => {
                let found = self.tasks.values().find(|task| task.number == *number);
                if let Some(task) = found {
                    slice.put_task(&task.id, Some(task.clone()));
                }
                let id = found.map(|task| task.id.clone());
                slice.ranges.numbered.insert(*number, id);
            }
            Ask::Kept => {
                let oldest = self.log.first().map(|logged| logged.seq);
                slice.ranges.kept = Some(Kept {
                    oldest_event: oldest.unwrap_or(self.head.seq + 1),
                    messages: self.messages.len() as u64,
                });
            }
            Ask::Records(range) => {
                let found = self.records_in(range);
                let keys = put_records(slice, &found);
                slice.ranges.records.insert(range.clone(), keys);
            }
            Ask::DueRecords { kind, until, limit } => {
                let mut due: Vec<&Record> = self.records.values().collect();
                due.retain(|row| {
                    row.kind() == *kind && row.due_at().is_some_and(|at| at <= *until)
                });
                due.sort_by_key(|row| (row.due_at(), row.key()));
                due.truncate(*limit);
                let keys = put_records(slice, &due);
                let asked = (*kind, *until, *limit);
                slice.ranges.due_records.insert(asked, keys);
            }
            Ask::Dependants(id) => {
                let waiting = self.by_number(|task| task.dependencies.contains(id));
                let ids = waiting.iter().map(|task| task.id.clone()).collect();
                slice.ranges.dependants.insert(id.clone(), ids);
            }
            Ask::LaneById(_)
            | Ask::LaneByKey(_)
            | Ask::Lanes { .. }
            | Ask::HeldLanes(_)
            | Ask::LanesUnder(_)
            | Ask::Queue { .. } => self.answer_lanes(ask, slice),
            Ask::LeasesNear(path) => {
                let found = self.leases_into(slice, |lease| are_near(&lease.path, path));
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
            Ask::Inbox(ask) => self.answer_inbox(ask, slice),
            Ask::SnapshotOf(task) => {
                let of_task = |row: &&_| Self::is_of(row, task);
                let last = self.snapshots.iter().rev().find(of_task).cloned();
                slice.ranges.snapshots.entry(task.clone()).or_insert(last);
            }
            Ask::DueRetries { .. }
            | Ask::WatchedTasks { .. }
            | Ask::DueLeases { .. }
            | Ask::DueDeliveries { .. }
            | Ask::FinishedTasks { .. } => self.answer_due(ask, slice),
        }
    }

    fn answer_row(&self, key: &RowKey, slice: &mut Slice) {
        match key {
            RowKey::Agent(id) => {
                let row = self.agents.get(id).cloned();
                if let (None, Some(former)) = (&row, self.former_agents.get(id)) {
                    slice.put_row(former.clone());
                }
                slice.put_agent(id, row);
            }
            RowKey::Task(id) => slice.put_task(id, self.tasks.get(id).cloned()),
            RowKey::Message(id) => slice.load(id.clone(), self.messages.get(id).cloned()),
            RowKey::Delivery(key) => slice.load(key.clone(), self.deliveries.get(key).cloned()),
            RowKey::Baseline(()) => slice.load((), self.baseline.clone()),
            RowKey::Record(key) => slice.load(key.clone(), self.records.get(key).cloned()),
            RowKey::Token(id) => slice.load(id.clone(), self.tokens.get(id).cloned()),
            RowKey::Remembered(key) => slice.load(key.clone(), self.answers.get(key).cloned()),
            RowKey::Nonce(key) => slice.load(key.clone(), self.nonces.get(key).cloned()),
            other => unreachable!("no verb asks for {other:?}"),
        }
    }

    fn answer_lanes(&self, ask: &Ask, slice: &mut Slice) {
        match ask {
            Ask::LaneById(id) => match self.lanes.get(id) {
                Some(lane) => slice.lanes.put(lane.clone()),
                None => slice.lanes.put_absent_id(*id),
            },
            Ask::LaneByKey(key) => match self.lanes.values().find(|lane| lane.key == *key) {
                Some(lane) => slice.lanes.put(lane.clone()),
                None => slice.lanes.put_absent(key),
            },
            Ask::Lanes { rep, from } => {
                let mut lanes: Vec<_> = self.lanes.values().collect();
                lanes.retain(|lane| lane.rep == *rep && lane.ready > 0);
                lanes.retain(|lane| from.is_none_or(|from: Position| lane.position() >= from));
                lanes.sort_by_key(|lane| lane.position());
                lanes.truncate(limits::LANES_PER_LOAD);
                slice
                    .lanes
                    .put_ready(rep, lanes.into_iter().cloned().collect());
            }
            Ask::HeldLanes(rep) => {
                let lanes = self.lanes.values();
                let held = lanes.filter(|lane| lane.rep == *rep && lane.held > 0);
                slice.lanes.put_held(rep, held.cloned().collect());
            }
            Ask::LanesUnder(rep) => {
                let count = self.reps.get(rep).copied().unwrap_or(0);
                slice.lanes.put_lanes_under(rep, count);
            }
            Ask::Queue { lane, from } => {
                let mut waiting = self.by_number(|task| {
                    task.lane == Some(*lane)
                        && task.status() == TaskStatus::Ready
                        && task.number >= *from
                });
                waiting.truncate(limits::QUEUE_PER_LOAD);
                let page = waiting.iter().map(|task| (task.number, task.id.clone()));
                let page = page.collect();
                slice
                    .lanes
                    .put_queue(*lane, *from, page, limits::QUEUE_PER_LOAD);
            }
            other => unreachable!("{other:?} is not about lanes"),
        }
    }

    fn answer_inbox(&self, ask: &InboxAsk, slice: &mut Slice) {
        let mut waiting: Vec<_> = Vec::new();
        for delivery in self.deliveries.values() {
            if delivery.agent != ask.agent || delivery.state != DeliveryState::Queued {
                continue;
            }
            let Some(message) = self.messages.get(&delivery.message) else {
                continue;
            };
            if ask.kinds.is_empty() || ask.kinds.contains(&message.kind) {
                waiting.push((message, delivery));
            }
        }
        waiting.sort_by_key(|(message, delivery)| match ask.order {
            InboxOrder::Oldest => (None, message.number),
            InboxOrder::MostUrgent => (Some(delivery.priority), message.number),
        });
        waiting.truncate(ask.limit);
        let mut ids = Vec::new();
        for (message, delivery) in waiting {
            slice.put_row(message.clone());
            slice.put_row(delivery.clone());
            ids.push(message.id.clone());
        }
        slice.ranges.inbox.insert(ask.clone(), ids);
    }

    fn answer_due(&self, ask: &Ask, slice: &mut Slice) {
        match ask {
            Ask::DueRetries { until, limit } => {
                let mut due: Vec<(Timestamp, &Task)> = Vec::new();
                for task in self.tasks.values() {
                    if let TaskState::RetryWait { until: at } = task.state
                        && at <= *until
                    {
                        due.push((at, task));
                    }
                }
                due.sort_by_key(|(at, task)| (*at, task.number));
                due.truncate(*limit);
                let mut ids = Vec::new();
                for (_, task) in due {
                    slice.put_task(&task.id, Some(task.clone()));
                    ids.push(task.id.clone());
                }
                slice.ranges.due_retries.insert((*until, *limit), ids);
            }
            Ask::WatchedTasks { until, limit } => {
                let mut due: Vec<(Timestamp, &Task)> = Vec::new();
                for task in self.tasks.values() {
                    due.extend(task.watch.map(|watch| (watch.look_at, task)));
                }
                due.retain(|(at, _)| at <= until);
                due.sort_by_key(|(at, task)| (*at, task.number));
                let ids = due.into_iter().take(*limit);
                let ids = ids.map(|(_, task)| task.id.clone()).collect();
                slice.ranges.watched_tasks.insert((*until, *limit), ids);
            }
            Ask::DueLeases { until, limit } => {
                let mut due: Vec<&Lease> = self.leases.values().collect();
                due.retain(|lease| lease.expires_at <= *until);
                due.sort_by_key(|lease| (lease.expires_at, lease.path.clone()));
                due.truncate(*limit);
                let paths = put_leases(slice, &due);
                slice.ranges.due_leases.insert((*until, *limit), paths);
            }
            Ask::DueDeliveries { until, limit } => {
                let mut due: Vec<&Delivery> = self.deliveries.values().collect();
                due.retain(|delivery| delivery.state == DeliveryState::Queued);
                due.retain(|delivery| delivery.expires_at.is_some_and(|at| at <= *until));
                due.sort_by_key(|row| (row.expires_at, row.number, row.agent.clone()));
                due.truncate(*limit);
                let mut keys = Vec::new();
                for row in due {
                    slice.put_row(row.clone());
                    keys.push((row.message.clone(), row.agent.clone()));
                }
                slice.ranges.due_deliveries.insert((*until, *limit), keys);
            }
            Ask::FinishedTasks {
                from,
                before,
                limit,
            } => {
                let mut ended = self.by_number(|task| {
                    task.number >= *from && task.status().is_final() && task.updated_at < *before
                });
                let next = ended.get(*limit).map(|task| task.number);
                ended.truncate(*limit);
                for task in &ended {
                    slice.put_task(&task.id, Some((*task).clone()));
                }
                let tasks = ended.iter().map(|task| task.id.clone()).collect();
                let page = FinishedPage { tasks, next };
                slice.ranges.finished.insert((*from, *before, *limit), page);
            }
            other => unreachable!("{other:?} is not about what is due"),
        }
    }

    fn agents_into(&self, slice: &mut Slice, keep: impl Fn(&Agent) -> bool) -> Vec<AgentId> {
        let found: Vec<&Agent> = self.agents.values().filter(|agent| keep(agent)).collect();
        put_agents(slice, &found)
    }

    fn leases_into(&self, slice: &mut Slice, keep: impl Fn(&Lease) -> bool) -> Vec<LeasePath> {
        let found: Vec<&Lease> = self.leases.values().filter(|lease| keep(lease)).collect();
        put_leases(slice, &found)
    }

    pub fn records_in(&self, range: &RecordRange) -> Vec<&Record> {
        let (position, key) = range.begins_after();
        let begin = (position, key.to_owned());
        let place = |row: &Record| row.place().map(|at| (at.position, at.key.into_owned()));
        let mut rows: Vec<&Record> = self.records.values().collect();
        rows.retain(|row| row.kind() == range.kind && row.owner() == range.owner);
        rows.retain(|row| match range.newest_first {
            false => place(row).is_some_and(|at| at > begin),
            true => place(row).is_some_and(|at| at < begin),
        });
        rows.sort_by_key(|row| place(row));
        if range.newest_first {
            rows.reverse();
        }
        rows.truncate(range.limit);
        rows
    }

    /// The tasks that `keep` keeps, oldest first.
    pub fn by_number(&self, keep: impl Fn(&Task) -> bool) -> Vec<&Task> {
        let mut tasks: Vec<&Task> = self.tasks.values().filter(|task| keep(task)).collect();
        tasks.sort_by_key(|task| task.number);
        tasks
    }

    fn is_of(snapshot: &Snapshot, task: &TaskId) -> bool {
        snapshot.task.as_ref() == Some(task)
    }
}

fn put_agents(slice: &mut Slice, agents: &[&Agent]) -> Vec<AgentId> {
    for agent in agents {
        slice.put_agent(&agent.id, Some((*agent).clone()));
    }
    agents.iter().map(|agent| agent.id.clone()).collect()
}

fn put_records(slice: &mut Slice, rows: &[&Record]) -> Vec<RecordKey> {
    for row in rows {
        slice.put_row((*row).clone());
    }
    rows.iter().map(|row| row.key()).collect()
}

fn put_leases(slice: &mut Slice, leases: &[&Lease]) -> Vec<LeasePath> {
    for lease in leases {
        slice.put_row((*lease).clone());
    }
    leases.iter().map(|lease| lease.path.clone()).collect()
}

/// One's prefix lies at or above the other's.
fn are_near(left: &LeasePath, right: &LeasePath) -> bool {
    left.prefix_ancestors().any(|dir| dir == right.prefix())
        || right.prefix_ancestors().any(|dir| dir == left.prefix())
}
