//! A reader that can be taken away, so that only what waits for it notices.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use switchboard_core::attempt::Attempt;
use switchboard_core::record::Kind;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, AgentId, Baseline, Delivery, Head, Learning, Lease, Logged, Message, MessageId, Record,
    RecordKey, RecordRange, Snapshot, Task, TaskId, Timestamp,
};
use switchboard_store::{
    AgentCounts, AgentFilter, Error, HeldTask, LeaseFilter, MessageFilter, MessageSince, Page,
    Pages, Readable, Reader, SnapshotFilter, TaskFilter, TaskRef,
};

use crate::world::World;

pub struct FailingReader {
    pub inner: Box<dyn Reader>,
    pub world: World,
    pub key: Arc<Mutex<Option<[u8; 32]>>>,
}

macro_rules! unless_away {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $kind),*) -> Result<$out, Error> {
            World::refuse(&self.world.0.readers_away, &self.world.0.refused_reads)?;
            self.inner.$name($($arg),*)
        })*
    };
}

impl Readable for FailingReader {
    type Error = Error;

    unless_away! {
        head() -> Head;
        task(which: &TaskRef) -> Option<Task>;
        tasks(filter: &TaskFilter, page: &Page) -> Pages<Task>;
        attempts(task: u64) -> Vec<Attempt>;
        dependants(task: &TaskId) -> Vec<TaskId>;
        next_in_queue(limit: usize) -> Vec<u64>;
        held_tasks(limit: usize) -> Vec<HeldTask>;
        agent(id: &AgentId) -> Option<Agent>;
        agents(filter: &AgentFilter, page: &Page) -> Pages<Agent>;
        agent_counts() -> AgentCounts;
        leases(filter: &LeaseFilter, page: &Page) -> Pages<Lease>;
        message(id: &MessageId) -> Option<(Message, Vec<Delivery>)>;
        messages(filter: &MessageFilter, page: &Page) -> Pages<Message>;
        messages_since(since: &MessageSince, now: Timestamp) -> Vec<Message>;
        baseline() -> Option<Baseline>;
        snapshots(filter: &SnapshotFilter, page: &Page) -> Pages<Snapshot>;
        learnings(words: &str, limit: usize) -> Vec<Learning>;
        engram_texts(words: &str, limit: usize) -> Vec<Record>;
        record(key: &RecordKey) -> Option<Record>;
        records(range: &RecordRange) -> Vec<Record>;
        record_counts(kind: Kind) -> Vec<(String, u64)>;
        events(after: u64, limit: usize) -> Vec<Logged>;
        oldest_event() -> Option<u64>;
        tokens() -> Vec<Token>;
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<Token>, Error> {
        World::refuse(&self.world.0.readers_away, &self.world.0.refused_reads)?;
        World::refuse(&self.world.0.tokens_away, &self.world.0.refused_reads)?;
        self.inner.token_by_hash(hash)
    }

    /// Not counted: nobody's call asks for it.
    fn shared_key(&self) -> Result<Option<[u8; 32]>, Error> {
        World::refuse(&self.world.0.readers_away, &AtomicU64::new(0))?;
        Ok(*self.key.lock().unwrap())
    }
}
