//! Waiting for the thing itself.

use std::thread;
use std::time::{Duration, Instant};

/// Far more than anything here takes; whoever waits longer has found a hang.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often to look. Only decides how quickly a test goes on, never whether it passes.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Looks until there is something, and fails with `what` if there never is.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "waited {PATIENCE:?} in vain: {what}"
        );
        thread::sleep(LOOK_EVERY);
    }
}
