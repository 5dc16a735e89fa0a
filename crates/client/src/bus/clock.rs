//! The clock of this machine, for what the bus shows and never orders by.

use std::time::SystemTime;

use switchboard_wire::agentbus::message::WorkerState;
use switchboard_wire::agentbus::{Stage, UtcTime};

/// Now, by the wall.
pub(super) fn now() -> UtcTime {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    UtcTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A worker's state as of now, with nothing beyond what is required; an idle one has the number 0.
pub fn state(stage: Stage, issue_number: u64, attempt: u32) -> WorkerState<'static> {
    WorkerState {
        stage,
        issue_number,
        attempt,
        progress: None,
        repo: None,
        last_error_id: None,
        last_update_at: Some(now()),
    }
}
