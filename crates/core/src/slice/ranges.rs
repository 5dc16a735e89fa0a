//! Answers to asks that are not a single row. A change that could alter an answer drops it.

use super::Map;
use crate::id::{AgentId, MessageId, TaskId};
use crate::path::LeasePath;
use crate::quality::Snapshot;
use crate::record::{Kind, RecordKey, RecordRange};
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub struct Ranges {
    pub present_agents: Option<Vec<AgentId>>,
    pub quiet_agents: Map<(Timestamp, Timestamp, usize), Vec<AgentId>>,
    pub gone_agents: Map<(Timestamp, usize), Vec<AgentId>>,
    pub dependants: Map<TaskId, Vec<TaskId>>,
    pub leases_near: Map<LeasePath, Vec<LeasePath>>,
    pub leases_of_agent: Map<AgentId, Vec<LeasePath>>,
    pub leases_of_task: Map<TaskId, Vec<LeasePath>>,
    pub inbox: Map<InboxAsk, Vec<MessageId>>,
    pub snapshots: Map<TaskId, Option<Snapshot>>,
    pub due_retries: Map<(Timestamp, usize), Vec<TaskId>>,
    pub watched_tasks: Map<(Timestamp, usize), Vec<TaskId>>,
    pub numbered: Map<u64, Option<TaskId>>,
    pub records: Map<RecordRange, Vec<RecordKey>>,
    pub due_records: Map<(Kind, Timestamp, usize), Vec<RecordKey>>,
    pub due_leases: Map<(Timestamp, usize), Vec<LeasePath>>,
    pub due_deliveries: Map<(Timestamp, usize), Vec<(MessageId, AgentId)>>,
    pub kept: Option<Kept>,
    pub finished: Map<(u64, Timestamp, usize), FinishedPage>,
}

/// Waiting messages of one agent; with kinds, only those.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InboxAsk {
    pub agent: AgentId,
    pub kinds: Vec<String>,
    pub limit: usize,
    pub order: InboxOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InboxOrder {
    Oldest,
    /// The most urgent first, and of those the oldest.
    MostUrgent,
}

/// Tasks that ended long ago, and where to go on looking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinishedPage {
    pub tasks: Vec<TaskId>,
    /// `None` when the end was reached.
    pub next: Option<u64>,
}

/// How much is kept of what no counter of the head knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of the oldest event; of the next one if there is none.
    pub oldest_event: u64,
    pub messages: u64,
}

impl Ranges {
    pub(super) fn clear(&mut self) {
        *self = Ranges::default();
    }

    pub(super) fn lease_changed(
        &mut self,
        path: &LeasePath,
        agent: &AgentId,
        task: Option<&TaskId>,
    ) {
        self.leases_near.retain(|near, _| !near.overlaps(path));
        self.leases_of_agent.remove(agent);
        if let Some(task) = task {
            self.leases_of_task.remove(task);
        }
        self.due_leases.clear();
    }

    pub(super) fn inbox_changed(&mut self, agent: &AgentId) {
        self.inbox.retain(|ask, _| ask.agent != *agent);
        self.due_deliveries.clear();
    }

    pub(super) fn records_changed(&mut self, kind: Kind) {
        self.records.retain(|range, _| range.kind != kind);
        self.due_records.retain(|(of, ..), _| *of != kind);
    }

    pub(super) fn agents_changed(&mut self) {
        self.present_agents = None;
        self.quiet_agents.clear();
        self.gone_agents.clear();
    }
}
