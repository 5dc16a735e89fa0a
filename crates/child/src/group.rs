//! A process group: a program and whatever it started.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::time::timeout;

use crate::END_WITHIN;

/// The program and whatever it started; killed when dropped.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    pub(crate) fn of(child: &Child) -> Self {
        Self(pid(child.id()))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // One that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills what the program left running, at once after it was waited for.
    ///
    /// While one of its processes lives, no other group gets its number.
    pub fn bury(mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Politely first: as Ctrl-C does, then as `kill` does.
pub async fn end(child: &mut Child, group: &Group) -> io::Result<ExitStatus> {
    for signal in [Signal::INT, Signal::TERM] {
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
