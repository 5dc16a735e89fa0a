//! What a client knows for certain, because it was told so.

/// One acknowledged change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    Created {
        tasks: Vec<String>,
    },
    Claimed {
        task: String,
        epoch: u64,
    },
    Progressed {
        task: String,
        epoch: u64,
        percent: u64,
    },
    Completed {
        task: String,
        epoch: u64,
    },
    Failed {
        task: String,
        epoch: u64,
        retries: bool,
    },
    Requeued {
        task: String,
        epoch: u64,
    },
    Sent {
        message: String,
        to: Option<String>,
        recipients: u64,
    },
    Received {
        messages: Vec<String>,
    },
    Acknowledged {
        message: String,
    },
    Leased {
        path: String,
        fencing: u64,
    },
    Extended {
        path: String,
        fencing: u64,
    },
    Unleased {
        path: String,
    },
    Beat,
    /// Acknowledged, and nothing was changed: no task, no lease to be had.
    Nothing,
}

/// A change whose answer was lost and that was never asked for again: it may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    Created { tasks: Vec<String> },
    Claimed { at_most: usize },
    Sent { message: String, to: Option<String> },
}

/// Everything that one client was told.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub agent: String,
    pub facts: Vec<Fact>,
    pub doubts: Vec<Doubt>,
    /// Answers that did not come.
    pub lost: u64,
    /// Answers that the ledger is away and nothing was done.
    pub not_done: u64,
    /// Answers that the ledger is away and nobody knows what was done.
    pub unknown: u64,
    /// Answers that came the second time, although the change had happened the first time.
    pub replayed: u64,
    /// Answers that were asked for again and came again.
    pub repeated: u64,
    /// Answers that nobody expected.
    pub surprises: Vec<String>,
}
