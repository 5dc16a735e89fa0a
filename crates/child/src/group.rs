//! A process group: a program and whatever it started.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::time::timeout;

use crate::END_WITHIN;

/// The program and whatever it started; killed when dropped, unless the program was waited for.
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

    /// The program was waited for; its number may be another's from now on.
    pub fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Politely first.
pub async fn end(child: &mut Child, group: &Group) -> io::Result<ExitStatus> {
    group.signal(Signal::TERM);
    match timeout(END_WITHIN, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            group.signal(Signal::KILL);
            child.wait().await
        }
    }
}

pub(crate) fn pid(id: Option<u32>) -> Option<Pid> {
    id.and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw)
}
