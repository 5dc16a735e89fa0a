//! What a client knows for certain, because it was told so.

use std::collections::BTreeSet;
use std::time::Duration;

use super::order::State;

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
    /// One task, looked at; `None` if there was none of that name.
    Saw {
        task: String,
        state: Option<State>,
    },
    /// All tasks that there were.
    Listed {
        tasks: BTreeSet<String>,
    },
    Beat,
    /// Acknowledged, and nothing was changed: no task, no lease to be had.
    Nothing,
}

impl Fact {
    /// The task that was changed.
    pub fn task(&self) -> Option<&str> {
        match self {
            Fact::Created { tasks } => tasks.first().map(String::as_str),
            Fact::Claimed { task, .. }
            | Fact::Progressed { task, .. }
            | Fact::Completed { task, .. }
            | Fact::Failed { task, .. }
            | Fact::Requeued { task, .. } => Some(task),
            Fact::Sent { .. }
            | Fact::Received { .. }
            | Fact::Acknowledged { .. }
            | Fact::Leased { .. }
            | Fact::Extended { .. }
            | Fact::Unleased { .. }
            | Fact::Saw { .. }
            | Fact::Listed { .. }
            | Fact::Beat
            | Fact::Nothing => None,
        }
    }
}

/// A fact, and when it became one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learnt {
    pub fact: Fact,
    /// When it was first asked for, since the world began.
    pub called: Duration,
    pub answered: Duration,
    /// How far the record of the hub's disk had come, if there is one.
    pub disk: u64,
}

impl Learnt {
    /// After everything else.
    pub fn at_last(fact: Fact) -> Learnt {
        Learnt {
            fact,
            called: Duration::MAX,
            answered: Duration::MAX,
            disk: u64::MAX,
        }
    }
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
    pub facts: Vec<Learnt>,
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
