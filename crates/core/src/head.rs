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
    pub epoch: LedgerEpoch,
    /// The number of the last event that other nodes were told.
    pub outbox: u64,
}

/// A stretch of the ledger's life in which no event is taken back.
///
/// A failover to a database that had not received everything ends one: numbers of events that were told are given to
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerEpoch {
    /// The first is 1.
    pub number: u64,
    /// Events up to here are those of the epoch before.
    pub after: u64,
}

impl Default for LedgerEpoch {
    fn default() -> Self {
        LedgerEpoch {
            number: 1,
            after: 0,
        }
    }
}

impl LedgerEpoch {
    /// After which event to go on for one who has seen up to `seen` in `epoch`, if something of that may not hold any more.
    ///
    /// Of epochs before the last nobody knows where they ended: then it is all to be read again.
    pub fn rewinds(self, epoch: u64, seen: u64, latest: u64) -> Option<u64> {
        if epoch == self.number {
            return (seen > latest).then_some(0);
        }
        match epoch.checked_add(1) == Some(self.number) {
            true => Some(seen.min(self.after)),
            false => Some(0),
        }
    }
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
            epoch: LedgerEpoch::default(),
            outbox: 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_seen_what_was_taken_back_goes_on_where_the_epochs_part() {
        let epoch = LedgerEpoch {
            number: 3,
            after: 90,
        };
        for (given, seen, expected) in [
            (3, 100, None),
            (3, 101, Some(0)),
            (2, 89, Some(89)),
            (2, 90, Some(90)),
            (2, 95, Some(90)),
            (1, 5, Some(0)),
            (4, 5, Some(0)),
            (u64::MAX, 5, Some(0)),
        ] {
            assert_eq!(epoch.rewinds(given, seen, 100), expected, "{given}.{seen}");
        }
    }
}
