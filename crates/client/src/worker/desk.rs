//! What an agent has before it: the task at hand, and whether it is to let go of it.

use parking_lot::Mutex;
use switchboard_wire::jetpack::{Task, TaskPhase};
use tokio::sync::watch;

/// One agent's place; its heartbeat and its work both look at it.
pub(super) struct Desk {
    pub agent: String,
    pub slot: usize,
    current: watch::Sender<Option<Current>>,
    halt: Mutex<Option<watch::Sender<Option<Halt>>>>,
    /// Whether it was ordered to end.
    pub leave: watch::Sender<bool>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Current {
    pub task: String,
    pub number: u64,
    pub epoch: u64,
    pub phase: TaskPhase,
    /// As the program tells it; 0 if it does not.
    pub percent: u8,
    pub text: String,
}

/// Why work is broken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// The task goes back, no retry is spent.
    GiveBack(String),
    /// Somebody else has it: what was done is thrown away.
    Lost(String),
    /// The programs told of more than may be spent.
    Spent,
}

impl Desk {
    pub(super) fn new(agent: &str, slot: usize) -> Desk {
        Desk {
            agent: agent.to_owned(),
            slot,
            current: watch::channel(None).0,
            halt: Mutex::new(None),
            leave: watch::channel(false).0,
        }
    }

    /// Takes a task up; returns what rings when it is to be let go.
    pub(super) fn take(&self, task: &Task) -> watch::Receiver<Option<Halt>> {
        let (halt, halted) = watch::channel(None);
        *self.halt.lock() = Some(halt);
        self.current.send_replace(Some(Current {
            task: task.id.clone(),
            number: task.number,
            epoch: task.epoch,
            phase: TaskPhase::Analyzing,
            percent: 0,
            text: "preparing".to_owned(),
        }));
        halted
    }

    pub(super) fn put_down(&self) {
        self.current.send_replace(None);
        *self.halt.lock() = None;
    }

    pub(super) fn current(&self) -> watch::Receiver<Option<Current>> {
        self.current.subscribe()
    }

    pub(super) fn at(&self, phase: TaskPhase, text: &str) {
        self.change(|current| (current.phase, current.text) = (phase, text.to_owned()));
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Current)) {
        self.current.send_if_modified(|current| match current {
            Some(current) => {
                let before = current.clone();
                change(current);
                *current != before
            }
            None => false,
        });
    }

    /// Breaks the work on this task off, if that is what is at hand. The first reason holds.
    pub(super) fn halt(&self, task: &str, why: Halt) {
        let is_it = self
            .current
            .borrow()
            .as_ref()
            .is_some_and(|current| current.task == task);
        if let Some(halt) = self.halt.lock().as_ref().filter(|_| is_it) {
            halt.send_if_modified(|halt| {
                let is_first = halt.is_none();
                halt.get_or_insert(why);
                is_first
            });
        }
    }
}

/// Returns once the work is to be broken off, with the reason.
pub(super) async fn halted(halt: &watch::Receiver<Option<Halt>>) -> Halt {
    let mut halt = halt.clone();
    let why = halt
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|why| why.clone());
    match why {
        Some(why) => why,
        // Whoever could say so is gone.
        None => std::future::pending().await,
    }
}
