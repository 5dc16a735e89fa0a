//! A database that Jetpack's own tools made, and how its rows get into the ledger's file.
//!
//! [`Held::take`] makes sure that nobody else has it, [`import`] puts its rows into the ledger as if a hand had written
//! them. When that is done, where the file goes afterwards and what a person is told is the hub's business.

mod held;
mod import;
mod old;
mod order;
mod report;
#[cfg(test)]
mod tests;

pub use held::{Held, is_ledger};
pub use import::import;
pub use report::{Kind, Named, Report, Skipped};

/// Why a file cannot be held. Nothing of it was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("another program has it open")]
    InUse,
    #[error("it is not an intact database ({0})")]
    Damaged(String),
    #[error("it cannot be opened ({0})")]
    Unusable(String),
    #[error("it is a Switchboard ledger")]
    IsLedger,
}

/// Why nothing was imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    #[error("the old file could not be read: {0}")]
    Old(String),
    #[error("the ledger could not be written: {0}")]
    Ledger(String),
}
