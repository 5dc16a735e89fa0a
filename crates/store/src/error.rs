//! How the world fails. The rules' refusals are elsewhere.

use switchboard_core::Timestamp;
use switchboard_core::iso::Printed;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was written; trying again later may help.
    #[error("the ledger cannot be used right now: {0}")]
    Unavailable(String),
    /// What was written last may or may not be durable. The process must end; the file is the truth.
    #[error("the ledger could not be synced to disk: {0}")]
    Fatal(String),
    /// The connection broke while a commit was under way, and nobody could say in time what became of it.
    #[error("the ledger became unavailable during a commit, the outcome is unknown: {0}")]
    InDoubt(String),
    #[error("the ledger is damaged: {0}")]
    Corrupt(String),
    #[error(
        "the ledger has schema version {found}, but this build supports only up to {known}; use a newer build of switchboard"
    )]
    NewerSchema { found: u32, known: u32 },
    /// Its rows are kept on elsewhere, and nobody may write here.
    #[error("{0}")]
    Moved(String),
    #[error(
        "the ledger was last served at {}, but this machine's clock shows {}, more than 30 days later; correct the clock or, if it \
         is right, start with --clock-is-right",
        Printed::new(*last).as_str(), Printed::new(*wall).as_str()
    )]
    ClockInDoubt { last: Timestamp, wall: Timestamp },
    #[error("'after' must be the 'next' of the previous page, not {0:?}")]
    BadCursor(String),
    #[error("{0}")]
    Open(String),
}
