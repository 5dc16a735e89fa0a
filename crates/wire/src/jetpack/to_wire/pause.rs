//! What holds new work back.

use switchboard_core::director::Hold;

use crate::jetpack::{PauseResponse, Paused};

/// The pause that holds.
pub fn paused(hold: &Hold) -> Paused {
    Paused {
        by: hold.by.clone(),
        why: hold.why.clone(),
        until: hold.until.map(Into::into),
    }
}

/// The answer to pause and resume.
pub fn steered(hold: Option<&Hold>) -> PauseResponse {
    PauseResponse {
        success: true,
        paused: hold.map(paused),
    }
}
