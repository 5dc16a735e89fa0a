//! What a verb must see before it can decide, found out step by step.
//!
//! A verb looks at what is loaded and asks for what is not; it is asked again after each load until it
//! asks for nothing new. So a whole batch of verbs is loaded in a few rounds, whatever the engine.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::agent::Agent;
use crate::changes::Nonce;
use crate::director::{Director, Hold};
use crate::id::{AgentId, MessageId, TaskId, TokenId};
use crate::idempotency::{Key, Remembered};
use crate::lane::{Lane, LaneId, LaneKey, Position, Rep};
use crate::lease::Lease;
use crate::message::{Delivery, Message};
use crate::path::LeasePath;
use crate::quality::{Baseline, Snapshot};
use crate::record::{Kind, Listed, Record, RecordKey, RecordRange};
use crate::row::{Noun, RowKey};
use crate::served::ServedTime;
use crate::slice::{FinishedPage, InboxAsk, Kept, Slice};
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use crate::token::Token;

/// A row or a range of rows that a verb must see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// One row. For an agent without one, also what is left of it.
    Row(RowKey),
    /// Every agent that is not gone.
    PresentAgents,
    /// Live agents whose last stored sign of life is older than they may be silent, most overdue first. Those that
    /// may be silent for longer than the ledger is served again are left out.
    QuietAgents {
        now: Timestamp,
        floor: Timestamp,
        limit: usize,
    },
    /// Gone agents that left before this.
    GoneAgents {
        before: Timestamp,
        limit: usize,
    },
    /// The task that has this number.
    Numbered(u64),
    Dependants(TaskId),
    LaneById(LaneId),
    LaneByKey(LaneKey),
    /// The next lanes of a rep with waiting tasks, from a position on.
    Lanes {
        rep: Rep,
        from: Option<Position>,
    },
    /// All lanes of a rep with held tasks.
    HeldLanes(Rep),
    /// How many lanes are filed under a word.
    LanesUnder(Rep),
    /// The next waiting tasks of a lane, from a number on.
    Queue {
        lane: LaneId,
        from: u64,
    },
    /// Leases that might overlap with this path.
    LeasesNear(LeasePath),
    LeasesOfAgent(AgentId),
    LeasesOfTask(TaskId),
    Inbox(InboxAsk),
    SnapshotOf(TaskId),
    /// Private rows of an owner, by position.
    Records(RecordRange),
    /// Private rows of a kind, by when they are due.
    DueRecords {
        kind: Kind,
        until: Timestamp,
        limit: usize,
    },
    DueRetries {
        until: Timestamp,
        limit: usize,
    },
    /// Watched tasks that are worth a look.
    WatchedTasks {
        until: Timestamp,
        limit: usize,
    },
    DueLeases {
        until: Timestamp,
        limit: usize,
    },
    DueDeliveries {
        until: Timestamp,
        limit: usize,
    },
    /// How much is kept of what no counter of the head knows.
    Kept,
    /// Tasks that ended before an instant, looked for from a number on.
    FinishedTasks {
        from: u64,
        before: Timestamp,
        limit: usize,
    },
}

impl Ask {
    /// Whether the answer depends on rows that are changed but not saved yet. A single row that is not in the
    /// slice cannot have been changed; a range may miss what became part of it.
    pub fn is_range(&self) -> bool {
        !matches!(
            self,
            Ask::Row(_) | Ask::LaneById(_) | Ask::LaneByKey(_) | Ask::LanesUnder(_)
        )
    }
}

/// A slice, and the asks it could not answer yet.
pub struct Want<'a> {
    slice: &'a Slice,
    asks: Vec<Ask>,
}

impl<'a> Want<'a> {
    pub fn new(slice: &'a Slice) -> Self {
        Want {
            slice,
            asks: Vec::new(),
        }
    }

    /// What is still missing, each once however many asked for it.
    pub fn into_asks(mut self) -> Vec<Ask> {
        if self.asks.len() > 1 {
            let mut seen = HashSet::with_capacity_and_hasher(
                self.asks.len(),
                foldhash::fast::RandomState::default(),
            );
            self.asks.retain(|ask| seen.insert(ask.clone()));
        }
        self.asks
    }

    pub fn is_satisfied(&self) -> bool {
        self.asks.is_empty()
    }

    pub fn slice(&self) -> &'a Slice {
        self.slice
    }

    fn or_ask<T>(&mut self, known: Option<T>, ask: impl FnOnce() -> Ask) -> Option<T> {
        if known.is_none() {
            self.asks.push(ask());
        }
        known
    }

    pub fn row<T: Noun>(&mut self, key: &T::Key) -> Option<&'a T> {
        let known = self.slice.known::<T>(key);
        self.or_ask(known, || Ask::Row(T::named(key.clone())))
            .flatten()
    }

    pub fn agent(&mut self, id: &AgentId) -> Option<&'a Agent> {
        self.row(id)
    }

    pub fn present_agents(&mut self) -> Option<&'a [AgentId]> {
        self.or_ask(self.slice.ranges.present_agents.as_deref(), || {
            Ask::PresentAgents
        })
    }

    pub fn quiet_agents(
        &mut self,
        now: Timestamp,
        floor: Timestamp,
        limit: usize,
    ) -> &'a [AgentId] {
        let known = self
            .slice
            .ranges
            .quiet_agents
            .get(&(now, floor, limit))
            .map(Vec::as_slice);
        self.or_ask(known, || Ask::QuietAgents { now, floor, limit })
            .unwrap_or_default()
    }

    pub fn gone_agents(&mut self, before: Timestamp, limit: usize) -> &'a [AgentId] {
        let known = self
            .slice
            .ranges
            .gone_agents
            .get(&(before, limit))
            .map(Vec::as_slice);
        self.or_ask(known, || Ask::GoneAgents { before, limit })
            .unwrap_or_default()
    }

    pub fn task(&mut self, id: &TaskId) -> Option<&'a Task> {
        self.row(id)
    }

    pub fn dependants(&mut self, id: &TaskId) -> &'a [TaskId] {
        let known = self.slice.ranges.dependants.get(id).map(Vec::as_slice);
        self.or_ask(known, || Ask::Dependants(id.clone()))
            .unwrap_or_default()
    }

    /// The lane that a task counts in at the moment.
    pub fn lane_of(&mut self, task: &Task) -> Option<&'a Lane> {
        let id = task
            .lane
            .filter(|_| task.status() == TaskStatus::Ready || task.holder().is_some())?;
        let lane = self
            .or_ask(self.slice.lanes.known(id), || Ask::LaneById(id))
            .flatten()?;
        // A lane that is left may close, and then its word has one lane less.
        self.or_ask(self.slice.lanes.lanes_under(&lane.rep), || {
            Ask::LanesUnder(lane.rep.clone())
        });
        Some(lane)
    }

    /// A lane by its key; if there is none yet, also what is needed to make it.
    pub fn lane_for(&mut self, key: &LaneKey) -> Option<&'a Lane> {
        let found = self.or_ask(self.slice.lanes.by_key(key), || Ask::LaneByKey(key.clone()))?;
        if found.is_none() {
            for skill in key.skills.iter() {
                let rep = Rep(skill.clone());
                self.or_ask(self.slice.lanes.lanes_under(&rep), || {
                    Ask::LanesUnder(rep.clone())
                });
            }
            let rep = key.rep(|skill| {
                self.slice
                    .lanes
                    .lanes_under(&Rep(skill.into()))
                    .unwrap_or(0)
            });
            self.or_ask(self.slice.lanes.lanes_under(&rep), || {
                Ask::LanesUnder(rep.clone())
            });
        }
        found
    }

    pub fn ask(&mut self, ask: Ask) {
        self.asks.push(ask);
    }

    pub fn held_lanes(&mut self, rep: &Rep) -> Vec<&'a Lane> {
        let known = self.slice.lanes.held_under(rep).map(Iterator::collect);
        self.or_ask(known, || Ask::HeldLanes(rep.clone()))
            .unwrap_or_default()
    }

    pub fn leases_near(&mut self, path: &LeasePath) -> impl Iterator<Item = &'a Lease> + use<'a> {
        let known = self.leases_or_none(self.slice.ranges.leases_near.get(path));
        let found = self.or_ask(known, || Ask::LeasesNear(path.clone()));
        let slice = self.slice;
        found
            .into_iter()
            .flatten()
            .filter_map(|path| slice.lease(path))
    }

    pub fn leases_of_agent(
        &mut self,
        agent: &AgentId,
    ) -> impl Iterator<Item = &'a Lease> + use<'a> {
        let known = self.leases_or_none(self.slice.ranges.leases_of_agent.get(agent));
        let found = self.or_ask(known, || Ask::LeasesOfAgent(agent.clone()));
        let slice = self.slice;
        found
            .into_iter()
            .flatten()
            .filter_map(|path| slice.lease(path))
    }

    pub fn leases_of_task(&mut self, task: &TaskId) -> impl Iterator<Item = &'a Lease> + use<'a> {
        let known = self.leases_or_none(self.slice.ranges.leases_of_task.get(task));
        let found = self.or_ask(known, || Ask::LeasesOfTask(task.clone()));
        let slice = self.slice;
        found
            .into_iter()
            .flatten()
            .filter_map(|path| slice.lease(path))
    }

    /// While there is no lease at all, nobody needs to look for one.
    fn leases_or_none(&self, known: Option<&'a Vec<LeasePath>>) -> Option<&'a Vec<LeasePath>> {
        const NONE: &Vec<LeasePath> = &Vec::new();
        known.or((self.slice.head.leases == 0).then_some(NONE))
    }

    pub fn message(&mut self, id: &MessageId) -> Option<&'a Message> {
        self.row(id)
    }

    pub fn delivery(&mut self, message: &MessageId, agent: &AgentId) -> Option<&'a Delivery> {
        self.row(&(message.clone(), agent.clone()))
    }

    pub fn inbox(&mut self, ask: &InboxAsk) -> &'a [MessageId] {
        let known = self.slice.ranges.inbox.get(ask).map(Vec::as_slice);
        self.or_ask(known, || Ask::Inbox(ask.clone()))
            .unwrap_or_default()
    }

    pub fn baseline(&mut self) -> Option<&'a Baseline> {
        self.row(&())
    }

    pub fn snapshot_of(&mut self, task: &TaskId) -> Option<&'a Snapshot> {
        let known = self.slice.ranges.snapshots.get(task).map(Option::as_ref);
        self.or_ask(known, || Ask::SnapshotOf(task.clone()))
            .flatten()
    }

    pub fn remembered(&mut self, key: &Key) -> Option<&'a Remembered> {
        self.row(key)
    }

    /// As far as is known.
    pub fn nonce_was_seen(&mut self, nonce: &Nonce) -> bool {
        self.row::<Nonce>(&nonce.key()).is_some()
    }

    pub fn token(&mut self, id: &TokenId) -> Option<&'a Token> {
        self.row(id)
    }

    pub fn due_retries(&mut self, until: Timestamp, limit: usize) -> &'a [TaskId] {
        let known = self
            .slice
            .ranges
            .due_retries
            .get(&(until, limit))
            .map(Vec::as_slice);
        self.or_ask(known, || Ask::DueRetries { until, limit })
            .unwrap_or_default()
    }

    pub fn watched_tasks(&mut self, until: Timestamp, limit: usize) -> &'a [TaskId] {
        let known = self
            .slice
            .ranges
            .watched_tasks
            .get(&(until, limit))
            .map(Vec::as_slice);
        self.or_ask(known, || Ask::WatchedTasks { until, limit })
            .unwrap_or_default()
    }

    /// The task under a number, if there is one.
    pub fn numbered(&mut self, number: u64) -> Option<&'a Task> {
        let known = self.slice.ranges.numbered.get(&number);
        let id = self
            .or_ask(known, || Ask::Numbered(number))
            .and_then(Option::as_ref)?;
        self.task(id)
    }

    pub fn record(&mut self, key: &RecordKey) -> Option<&'a Record> {
        self.row(key)
    }

    /// A private row by its key.
    pub fn private<T: Listed + 'a>(&mut self, key: impl Into<Cow<'static, str>>) -> Option<&'a T> {
        self.record(&T::at(key)).and_then(T::of)
    }

    /// Private rows of an owner, by position.
    pub fn privates<T: Listed + 'a>(&mut self, range: &RecordRange) -> Vec<&'a T> {
        debug_assert_eq!(range.kind, T::KIND);
        let known = self.slice.ranges.records.get(range);
        let found = self.or_ask(known, || Ask::Records(range.clone()));
        self.of_kind(found)
    }

    /// Private rows that are due, the most overdue first.
    pub fn due_privates<T: Listed + 'a>(&mut self, until: Timestamp, limit: usize) -> Vec<&'a T> {
        let kind = T::KIND;
        let known = self.slice.ranges.due_records.get(&(kind, until, limit));
        let found = self.or_ask(known, || Ask::DueRecords { kind, until, limit });
        self.of_kind(found)
    }

    fn of_kind<T: Listed + 'a>(&self, found: Option<&'a Vec<RecordKey>>) -> Vec<&'a T> {
        let keys = found.into_iter().flatten();
        let rows = keys.filter_map(|key| self.slice.row::<Record>(key));
        rows.filter_map(T::of).collect()
    }

    /// What keeps everyone from new work, if anything does.
    pub fn hold(&mut self, now: Timestamp) -> Option<Hold> {
        self.private::<Director>("")?.hold(now)
    }

    /// Which time counts; as if always served, while that is not known.
    pub fn served_time(&mut self) -> ServedTime {
        self.private::<ServedTime>("").cloned().unwrap_or_default()
    }

    pub fn kept(&mut self) -> Option<Kept> {
        self.or_ask(self.slice.ranges.kept, || Ask::Kept)
    }

    pub fn due_leases(
        &mut self,
        until: Timestamp,
        limit: usize,
    ) -> impl Iterator<Item = &'a Lease> + use<'a> {
        let known = self.slice.ranges.due_leases.get(&(until, limit));
        let found = self.or_ask(known, || Ask::DueLeases { until, limit });
        let slice = self.slice;
        found
            .into_iter()
            .flatten()
            .filter_map(|path| slice.lease(path))
    }

    pub fn due_deliveries(&mut self, until: Timestamp, limit: usize) -> &'a [(MessageId, AgentId)] {
        let known = self
            .slice
            .ranges
            .due_deliveries
            .get(&(until, limit))
            .map(Vec::as_slice);
        self.or_ask(known, || Ask::DueDeliveries { until, limit })
            .unwrap_or_default()
    }

    pub fn finished_tasks(
        &mut self,
        from: u64,
        before: Timestamp,
        limit: usize,
    ) -> Option<&'a FinishedPage> {
        let known = self.slice.ranges.finished.get(&(from, before, limit));
        self.or_ask(known, || Ask::FinishedTasks {
            from,
            before,
            limit,
        })
    }
}
