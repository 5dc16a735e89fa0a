//! What may be read of a ledger: single rows by key, lists by filter and page.
//!
//! Surfaces ask in these words, stores answer in them; how a row is found is the store's business.

use std::borrow::Cow;

use crate::attempt::Attempt;
use crate::incident::Incident;
use crate::job::{Job, JobGroup};
use crate::record::{Kind, Listed};
use crate::token::Token;
use crate::{
    Agent, AgentId, Baseline, Delivery, Head, Learning, Lease, LeasePath, Logged, Message,
    MessageId, Phase, Priority, Record, RecordKey, RecordRange, Snapshot, Task, TaskId, TaskKind,
    TaskStatus, Timestamp,
};

/// Lists and single rows, as last committed. Every list is bounded.
pub trait Readable {
    /// Why nothing could be read.
    type Error;
    /// An error once what it reads is no longer the ledger. Asked before every read.
    fn check(&self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// An error if the ledger takes no writes, or will not for long, as far as can be told without one.
    fn is_ready(&self) -> Result<(), Self::Error> {
        Ok(())
    }
    /// What a person should know of the ledger though all goes well.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    fn head(&self) -> Result<Head, Self::Error>;
    fn task(&self, which: &TaskRef) -> Result<Option<Task>, Self::Error>;
    fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Pages<Task>, Self::Error>;
    /// The ended attempts at a task, oldest first.
    fn attempts(&self, task: u64) -> Result<Vec<Attempt>, Self::Error>;
    /// At most [`crate::limits::PAGE_MAX`] tasks that wait for this one.
    fn dependants(&self, task: &TaskId) -> Result<Vec<TaskId>, Self::Error>;
    /// The numbers of tasks that wait, in the order of claiming: by priority, then by age. Where they wait in very many
    /// lanes, some of the later ones may be missing.
    fn next_in_queue(&self, limit: usize) -> Result<Vec<u64>, Self::Error>;
    /// Tasks in the hands of agents, in no order.
    fn held_tasks(&self, limit: usize) -> Result<Vec<HeldTask>, Self::Error>;
    fn agent(&self, id: &AgentId) -> Result<Option<Agent>, Self::Error>;
    fn agents(&self, filter: &AgentFilter, page: &Page) -> Result<Pages<Agent>, Self::Error>;
    fn agent_counts(&self) -> Result<AgentCounts, Self::Error>;
    fn leases(&self, filter: &LeaseFilter, page: &Page) -> Result<Pages<Lease>, Self::Error>;
    fn message(&self, id: &MessageId) -> Result<Option<(Message, Vec<Delivery>)>, Self::Error>;
    /// Newest first.
    fn messages(&self, filter: &MessageFilter, page: &Page) -> Result<Pages<Message>, Self::Error>;
    /// What was sent to an agent after a point, oldest first, whether handed over or not.
    fn messages_since(
        &self,
        since: &MessageSince,
        now: Timestamp,
    ) -> Result<Vec<Message>, Self::Error>;
    fn baseline(&self) -> Result<Option<Baseline>, Self::Error>;
    /// Newest first.
    fn snapshots(
        &self,
        filter: &SnapshotFilter,
        page: &Page,
    ) -> Result<Pages<Snapshot>, Self::Error>;
    /// Learnings that have all the words, best first.
    fn learnings(&self, words: &str, limit: usize) -> Result<Vec<Learning>, Self::Error>;
    /// Texts of engrams that have all the words, best first.
    fn engram_texts(&self, words: &str, limit: usize) -> Result<Vec<Record>, Self::Error>;
    /// A private row.
    fn record(&self, key: &RecordKey) -> Result<Option<Record>, Self::Error>;
    /// Private rows of an owner, by position.
    fn records(&self, range: &RecordRange) -> Result<Vec<Record>, Self::Error>;
    /// How many private rows of a kind each owner has in its list, by owner.
    fn record_counts(&self, kind: Kind) -> Result<Vec<(String, u64)>, Self::Error>;
    /// Events after a number, in order.
    fn events(&self, after: u64, limit: usize) -> Result<Vec<Logged>, Self::Error>;
    /// The oldest event that is still kept.
    fn oldest_event(&self) -> Result<Option<u64>, Self::Error>;
    fn tokens(&self) -> Result<Vec<Token>, Self::Error>;
    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<Token>, Self::Error>;
    /// The key that all who serve this ledger sign with, where the ledger keeps it.
    fn shared_key(&self) -> Result<Option<[u8; 32]>, Self::Error> {
        Ok(None)
    }
}

impl<E> dyn Readable<Error = E> + '_ {
    /// A private row by its key.
    pub fn private<T: Listed>(&self, key: impl Into<Cow<'static, str>>) -> Result<Option<T>, E> {
        Ok(self.record(&T::at(key))?.and_then(T::out_of))
    }

    /// Private rows of an owner, by position.
    pub fn privates<T: Listed>(&self, range: &RecordRange) -> Result<Vec<T>, E> {
        let found = self.records(range)?.into_iter();
        Ok(found.filter_map(T::out_of).collect())
    }

    /// What waits for a person, whatever it is, the longest first: at most so many of each kind.
    pub fn for_steward(&self, limit: usize) -> Result<Vec<ForSteward>, E> {
        let needs_person = TaskFilter {
            statuses: vec![TaskStatus::NeedsPerson],
            ..TaskFilter::default()
        };
        let page = Page { after: None, limit };
        let jobs = self.privates::<Job>(&Job::in_group(JobGroup::Steward, limit))?;
        let tasks = self.tasks(&needs_person, &page)?.rows;
        let incidents = self.privates::<Incident>(&Incident::range(false, limit))?;
        let jobs = jobs.into_iter().map(ForSteward::Job);
        let tasks = tasks.into_iter().map(ForSteward::Task);
        let incidents = incidents.into_iter().map(ForSteward::Incident);
        let mut all: Vec<ForSteward> = jobs.chain(tasks).chain(incidents).collect();
        all.sort_by_key(ForSteward::since);
        Ok(all)
    }
}

/// Something that waits for a person. An acknowledgement that is overdue is an incident.
#[derive(Clone, Debug, PartialEq)]
pub enum ForSteward {
    /// It needs intervention or approval, or reached a limit.
    Job(Job),
    /// It needs review.
    Task(Task),
    Incident(Incident),
}

impl ForSteward {
    pub fn since(&self) -> Timestamp {
        match self {
            ForSteward::Job(job) => job.updated_at,
            ForSteward::Task(task) => task.updated_at,
            ForSteward::Incident(incident) => incident.first_at,
        }
    }
}

/// What is shown of a task that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTask {
    pub agent: AgentId,
    pub id: TaskId,
    pub number: u64,
    pub status: TaskStatus,
    pub retries: u32,
    pub phase: Option<Phase>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskRef {
    Id(TaskId),
    Number(u64),
}

/// A piece of a list: after a cursor of the page before, at most `limit` rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub after: Option<String>,
    pub limit: usize,
}

impl Page {
    /// The largest first one: all of what is few.
    pub fn first() -> Self {
        Page {
            after: None,
            limit: crate::limits::PAGE_MAX,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages<T> {
    pub rows: Vec<T>,
    /// The cursor of the next page. A page may be short and still have one.
    pub next: Option<String>,
}

/// Empty lists and `None` filter nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    pub statuses: Vec<TaskStatus>,
    pub priorities: Vec<Priority>,
    pub kinds: Vec<TaskKind>,
    pub holder: Option<AgentId>,
    pub skill: Option<String>,
    pub branch: Option<String>,
    pub newest_first: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFilter {
    /// Public words: idle, busy, error, offline, shutting_down.
    pub statuses: Vec<String>,
    /// Agents that signed off are left out unless asked for.
    pub with_gone: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    pub idle: u64,
    pub busy: u64,
    pub error: u64,
    pub offline: u64,
    pub shutting_down: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseFilter {
    pub agent: Option<AgentId>,
    pub task: Option<TaskId>,
    /// Only leases that overlap with this.
    pub near: Option<LeasePath>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFilter {
    pub from: Option<AgentId>,
    pub to: Option<AgentId>,
    pub kinds: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSince {
    pub agent: AgentId,
    /// After this instant, or after this message.
    pub since: Since,
    pub kinds: Vec<String>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    Instant(Timestamp),
    Message(MessageId),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFilter {
    pub task: Option<TaskId>,
}
