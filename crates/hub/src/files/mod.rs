//! The file door: requests that are put into a directory, answered by files beside them.
//!
//! Agents that share nothing but a file system with the hub write `requests/<name>.json` and wait for
//! `responses/<name>-response.json`. What a request means and what comes of it is the business of [`crate::call`]; here
//! files are found, kept in order, answered and put away. How to use it
//! is in `docs/files.md`.
//!
//! [`scanner`] is the loop, [`queue`] what it knows, [`job`] one request's way, [`act`] what is done about it,
//! [`request_file`] the steps on disk, [`place`] the directories; all stand on [`crate::spool`].

mod act;
mod job;
mod place;
mod queue;
mod request_file;
mod scanner;
mod surface;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::call::Calls;

#[cfg(test)]
pub(crate) use self::place::Dirs;
pub(crate) use self::surface::SURFACE;

/// What files are held against: a clock that was set forward makes none of them old.
fn now(calls: &Calls) -> SystemTime {
    let ledger_ms = u64::try_from(calls.hub.time().0).unwrap_or(0);
    SystemTime::now().min(UNIX_EPOCH + Duration::from_millis(ledger_ms))
}
