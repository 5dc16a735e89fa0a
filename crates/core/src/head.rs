//! The ledger's head: one row of counters that every batch takes first.

use crate::task::TaskStatus;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last event's number; the next one takes this plus one.
    pub seq: u64,
    pub last_at: Timestamp,
    pub task_number: u64,
    pub message_number: u64,
    pub lane: u64,
    pub fencing: u64,
    /// Tasks by status, in the order of [`TaskStatus::ALL`].
    pub tasks: [u64; TaskStatus::ALL.len()],
    pub queued_deliveries: u64,
    pub leases: u64,
    pub idempotency_rows: u64,
    pub idempotency_bytes: u64,
    /// When a hub last said that it serves.
    pub served_at: Timestamp,
    /// The end of the last outage: silence counts only after it.
    pub floor: Timestamp,
    /// Message times strictly increase.
    pub last_message_at: Timestamp,
}

impl Default for Head {
    fn default() -> Self {
        Head {
            seq: 0,
            last_at: Timestamp::ZERO,
            task_number: 0,
            message_number: 0,
            lane: 0,
            fencing: 0,
            tasks: [0; TaskStatus::ALL.len()],
            queued_deliveries: 0,
            leases: 0,
            idempotency_rows: 0,
            idempotency_bytes: 0,
            served_at: Timestamp::ZERO,
            floor: Timestamp::ZERO,
            last_message_at: Timestamp::ZERO,
        }
    }
}

impl Head {
    pub fn count(&self, status: TaskStatus) -> u64 {
        self.tasks[status as usize]
    }

    pub fn tasks_total(&self) -> u64 {
        self.tasks.iter().sum()
    }

    pub(crate) fn moved(&mut self, from: Option<TaskStatus>, to: Option<TaskStatus>) {
        if let Some(from) = from {
            self.tasks[from as usize] = self.tasks[from as usize].saturating_sub(1);
        }
        if let Some(to) = to {
            self.tasks[to as usize] += 1;
        }
    }
}
