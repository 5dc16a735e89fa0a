//! Leases: one agent at a time may edit what a path covers.

use crate::id::{AgentId, TaskId};
use crate::path::LeasePath;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub path: LeasePath,
    /// As it was written by SQL, where that is not the normal form: the key of its row, by which it is renewed and deleted
    /// there.
    pub spelled: Option<Box<str>>,
    pub agent: AgentId,
    pub task: Option<TaskId>,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
    pub renewals: u32,
    /// Grows over the whole ledger; whoever checks it can refuse a holder of the past.
    pub fencing: u64,
    pub rev: u64,
}

impl Lease {
    /// What its row is called.
    pub fn spelling(&self) -> &str {
        self.spelled.as_deref().unwrap_or(self.path.as_str())
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}
