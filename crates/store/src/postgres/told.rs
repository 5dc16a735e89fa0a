//! What this process was told of the ledger and told others: a database that has less has lost something.
//!
//! That is so after a failover to a standby that had not received everything. By the number of the last event alone it
//! is not always noticed, since others may have written meanwhile; so each new connection is also asked for the last batches
//! of this process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use switchboard_core::Head;
use switchboard_core::verb::BeginEpoch;

use super::PostgresEngine;
use super::rows::signed;
use super::session::Query;
use crate::Error;
use crate::rows::Columns;

/// Batches of this process that are looked for.
const BATCHES_MAX: usize = 256;

/// The first of the batches named that is not in the log, unless it is older than all that is kept.
const MISSING: &str = "SELECT min(f) FROM unnest($1) f WHERE f >= (SELECT min(first) FROM sb_log)
  AND NOT EXISTS (SELECT 1 FROM sb_log WHERE first = f AND writer = $2)";

#[derive(Default)]
pub(super) struct Told {
    /// The last event that this process wrote, or saw in the head.
    upto: u64,
    /// The last one that it saw otherwise.
    seen: Arc<AtomicU64>,
    /// The first events of its last batches.
    firsts: VecDeque<u64>,
    /// The last epoch it knows of.
    epoch: u64,
    /// The connection is a new one.
    is_unchecked: bool,
}

impl Told {
    pub fn upto(&self) -> u64 {
        self.upto.max(self.seen.load(Ordering::Relaxed))
    }

    /// Where others note what they see.
    pub fn seen(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.seen)
    }

    pub fn connected(&mut self) {
        self.is_unchecked = true;
    }

    pub fn wrote(&mut self, first: Option<u64>, last: u64) {
        self.upto = self.upto.max(last);
        if let Some(first) = first {
            if self.firsts.len() == BATCHES_MAX {
                self.firsts.pop_front();
            }
            self.firsts.push_back(first);
        }
    }

    /// Takes a head for what there is.
    fn follow(&mut self, head: &Head) {
        if head.epoch.number == self.epoch {
            self.upto = self.upto.max(head.seq);
        } else {
            self.epoch = head.epoch.number;
            self.upto = head.seq;
            self.seen.store(head.seq, Ordering::Relaxed);
            self.firsts.retain(|first| *first <= head.epoch.after);
        }
        self.is_unchecked = false;
    }
}

impl PostgresEngine {
    /// What the head lacks of what was told before it was taken, unless the ledger says so already.
    pub(super) fn lost(&mut self, head: &Head, told: u64) -> Result<Option<BeginEpoch>, Error> {
        let is_short = head.seq < told;
        let missing = match is_short || self.told.is_unchecked {
            true => self.first_missing()?,
            false => None,
        };
        let common = missing.map_or(head.seq, |first| head.seq.min(first - 1));
        let is_said = head.epoch.number > self.told.epoch && common >= head.epoch.after;
        if (is_short || missing.is_some()) && !is_said {
            return Ok(Some(BeginEpoch { told, common }));
        }
        self.told.follow(head);
        Ok(None)
    }

    fn first_missing(&mut self) -> Result<Option<u64>, Error> {
        if self.told.firsts.is_empty() {
            return Ok(None);
        }
        let firsts = self.told.firsts.iter().map(|first| signed(*first));
        let query = Query::new(MISSING).ints(firsts).int(self.me);
        let rows = self.send(None, vec![query], None)?;
        let first = rows.first().and_then(|rows| rows.first());
        let first = first.map(|row| row.int(0)).transpose()?.flatten();
        Ok(first.map(i64::unsigned_abs).filter(|first| *first > 0))
    }
}
