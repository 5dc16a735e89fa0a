//! A ledger in memory, for tests: the model that engines are compared with, so it must be obviously right.
//!
//! Rows lie in plain maps; every range is found by looking at all of them.

use std::collections::BTreeMap;

use crate::agent::{Agent, FormerAgent};
use crate::attempt::Attempt;
use crate::changes::{Adopted, Nonce};
use crate::event::Logged;
use crate::head::Head;
use crate::id::{AgentId, MessageId, TaskId, TokenId};
use crate::idempotency::{Key, Remembered};
use crate::lane::{Lane, LaneId, Rep};
use crate::lease::Lease;
use crate::memory::Learning;
use crate::message::{Delivery, DeliveryState, Message};
use crate::path::LeasePath;
use crate::quality::{Baseline, Snapshot};
use crate::record::{Record, RecordKey};
use crate::task::{Task, TaskState};
use crate::time::Timestamp;
use crate::token::Token;

mod load;
mod save;

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub head: Head,
    pub log: Vec<Logged>,
    pub agents: BTreeMap<AgentId, Agent>,
    pub former_agents: BTreeMap<AgentId, FormerAgent>,
    pub tasks: BTreeMap<TaskId, Task>,
    pub attempts: Vec<Attempt>,
    pub lanes: BTreeMap<LaneId, Lane>,
    /// How many lanes are filed under a word.
    pub reps: BTreeMap<Rep, u64>,
    pub leases: BTreeMap<LeasePath, Lease>,
    pub messages: BTreeMap<MessageId, Message>,
    pub deliveries: BTreeMap<(MessageId, AgentId), Delivery>,
    /// In the order of recording, like the learnings.
    pub snapshots: Vec<Snapshot>,
    pub baseline: Option<Baseline>,
    pub learnings: Vec<Learning>,
    pub answers: BTreeMap<Key, Remembered>,
    pub nonces: BTreeMap<(AgentId, Box<str>), Nonce>,
    pub tokens: BTreeMap<TokenId, Token>,
    pub records: BTreeMap<RecordKey, Record>,
    /// Notes of hand writes that were taken up.
    pub adopted: Vec<Adopted>,
    /// Remembered answers that the batch deleted so far: rows and bytes that its head does not know of.
    pruned_answers: (u64, u64),
}

impl Ledger {
    /// When the next row is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        let retries = self.tasks.values().filter_map(|task| match task.state {
            TaskState::RetryWait { until } => Some(until),
            TaskState::Waiting
            | TaskState::Ready
            | TaskState::Claimed { .. }
            | TaskState::InProgress { .. }
            | TaskState::NeedsPerson { .. }
            | TaskState::Completed { .. }
            | TaskState::Failed { .. }
            | TaskState::Canceled { .. } => None,
        });
        let leases = self.leases.values().map(|lease| lease.expires_at);
        let queued = self
            .deliveries
            .values()
            .filter(|delivery| delivery.state == DeliveryState::Queued);
        let messages = queued.filter_map(|delivery| delivery.expires_at);
        let live = self.agents.values().filter(|agent| agent.is_live());
        let silence = live.filter_map(Agent::silent_at);
        let watches = self.tasks.values().filter_map(|task| task.watch);
        let watches = watches.map(|watch| watch.look_at);
        let records = self.records.values().filter_map(Record::due_at);
        let due = retries.chain(leases).chain(messages).chain(records);
        due.chain(silence).chain(watches).min()
    }
}
