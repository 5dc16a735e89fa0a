//! A process group: a program and whatever it started.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::process::Child;
use tokio::time::timeout;

use crate::END_WITHIN;

/// The program and whatever it started; killed when dropped.
#[derive(Debug)]
pub struct Group {
    id: Option<Pid>,
    stop: StopBy,
}

/// The signal that a program is told first to end with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopBy {
    /// As Ctrl-C does.
    #[default]
    Int,
    /// As `kill` does.
    Term,
    /// As a terminal does that is closed.
    Hup,
}

impl From<StopBy> for Signal {
    fn from(stop: StopBy) -> Signal {
        match stop {
            StopBy::Int => Signal::INT,
            StopBy::Term => Signal::TERM,
            StopBy::Hup => Signal::HUP,
        }
    }
}

impl Group {
    pub(crate) fn of(child: &Child, stop: StopBy) -> Self {
        let id = pid(child.id());
        Self { id, stop }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.id {
            // One that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills what the program left running, at once after it was waited for.
    ///
    /// While one of its processes lives, no other group gets its number.
    pub fn bury(mut self) {
        self.signal(Signal::KILL);
        self.id = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Politely first: by the program's own signal, then as `kill` does.
pub async fn end(child: &mut Child, group: &Group) -> io::Result<ExitStatus> {
    let first = Signal::from(group.stop);
    let second = Some(Signal::TERM).filter(|term| *term != first);
    for signal in std::iter::once(first).chain(second) {
        group.signal(signal);
        if let Ok(status) = timeout(END_WITHIN, child.wait()).await {
            return status;
        }
    }
    group.signal(Signal::KILL);
    child.wait().await
}

pub(crate) fn pid(id: Option<u32>) -> Option<Pid> {
    id.and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw)
}
