//! Programs that we start: in a process group of their own or in a terminal of their own, watched and ended whole.
//!
//! Knows nothing of tasks, roles or the ledger. `typing` is the pure part of writing to a program as a person would.

pub mod git;
mod group;
pub mod orphans;
pub mod preset;
mod pty;
mod run;
pub mod stream;
mod tail;
pub mod typing;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

pub use group::{Group, StopBy, end};
pub use preset::Preset;
pub use pty::{Output, Pty, Size};
pub use run::{Cause, Ended, Piece, Pipe, Run, Running};
pub use tail::Tail;

/// What is told to end has so long before it is killed.
pub const END_WITHIN: Duration = Duration::from_secs(5);
/// In the environment of whatever must not outlive us; see [`orphans`].
pub const RUN_ID: &str = "SWITCHBOARD_RUN_ID";

/// A program that is to be started.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program and its arguments; never empty.
    pub argv: Vec<OsString>,
    /// Beside our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// Of our own environment only these; a `*` at the end stands for any rest. All of it if absent.
    pub only: Option<Vec<String>>,
    /// Ours if absent.
    pub dir: Option<PathBuf>,
    /// How it is told to end.
    pub stop: StopBy,
}

impl Program {
    /// A command line, split into words as a shell splits them; none if it has no word or an open quote.
    pub fn parse(line: &str) -> Option<Program> {
        let words = shlex::split(line).filter(|words| !words.is_empty())?;
        Some(Program::new(words))
    }

    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Program {
        Program {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Program::default()
        }
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Program {
        self.env.push((name.into(), value.into()));
        self
    }

    /// What is left of our own environment, unless it is all of it.
    fn inherited(&self) -> Option<Vec<(OsString, OsString)>> {
        let only = self.only.as_ref()?;
        let kept = std::env::vars_os().filter(|(name, _)| is_among(name, only));
        Some(kept.collect())
    }

    /// In a process group of its own, with pipes for all that it reads and writes.
    pub fn in_group(&self) -> io::Result<(Child, Group)> {
        let [program, args @ ..] = &self.argv[..] else {
            return Err(io::Error::other("there is no program"));
        };
        let mut command = Command::new(program);
        command.args(args);
        if let Some(kept) = self.inherited() {
            command.env_clear().envs(kept);
        }
        command.envs(self.env.iter().cloned());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.process_group(0).spawn()?;
        let group = Group::of(&child, self.stop);
        Ok((child, group))
    }

    /// In a terminal of its own.
    pub fn in_terminal(&self, size: Size) -> io::Result<(Pty, Output)> {
        pty::start(self, size)
    }
}

fn is_among(name: &OsStr, only: &[String]) -> bool {
    only.iter().any(|one| match one.strip_suffix('*') {
        Some(start) => name.as_encoded_bytes().starts_with(start.as_bytes()),
        None => name == OsStr::new(one),
    })
}

#[cfg(test)]
mod tests;
