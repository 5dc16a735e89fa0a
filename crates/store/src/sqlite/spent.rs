//! What the writer's connection did, for tests that hold operations to their cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::trace::{TraceEvent, TraceEventCodes};

use super::SqliteEngine;

impl SqliteEngine {
    /// Counts each statement that is run from now on.
    pub fn count_statements(&mut self, count: Arc<AtomicU64>) {
        let counted = move |_: TraceEvent<'_>| {
            count.fetch_add(1, Ordering::SeqCst);
        };
        self.db
            .trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(counted))
            .expect("a connection takes a trace");
    }

    /// Rows that were inserted, changed or deleted since it was opened.
    pub fn rows_written(&self) -> u64 {
        self.db.total_changes()
    }
}
