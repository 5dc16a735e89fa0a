//! Why a worker cannot work, or not on this task.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::Error as HubError;

/// Why a worker ended.
#[derive(Debug, Error)]
pub enum WorkerError {
    #[error("the program '{0}' is not installed; install it, or name another with --exec")]
    NotInstalled(String),
    #[error(
        "agent {0} is served by another worker on this machine; choose another id, or stop that worker"
    )]
    IdTaken(String),
    #[error("{} is not in a git repository; run 'git init' there, or work without worktrees with --no-worktree", .0.display())]
    NoRepository(PathBuf),
    #[error("the repository at {} has no commit that a worktree could start from; make one first", .0.display())]
    NoCommit(PathBuf),
    #[error("reports cannot be kept in {}: {source}", dir.display())]
    Outbox { dir: PathBuf, source: io::Error },
    #[error("{0}")]
    Git(String),
    /// The task of `--once` did not succeed.
    #[error("#{number} {how}")]
    Once { number: u64, how: String },
    #[error(transparent)]
    Hub(#[from] HubError),
}

impl WorkerError {
    pub(super) fn outbox(dir: &Path) -> impl Fn(io::Error) -> WorkerError {
        let dir = dir.to_owned();
        move |source| WorkerError::Outbox {
            dir: dir.clone(),
            source,
        }
    }
}

/// Why no worktree could be had for a task.
#[derive(Debug, Error)]
pub enum TreeError {
    #[error("the worktree {} is locked; unlock it with 'git worktree unlock'", .0.display())]
    Locked(PathBuf),
    #[error("the worktree {} is in use by another worker", .0.display())]
    InUse(PathBuf),
    #[error("{} is in the way: no worker made it", .0.display())]
    InTheWay(PathBuf),
    #[error("the setup of the worktree failed: {0}")]
    Setup(String),
    #[error("{0}")]
    Git(String),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl TreeError {
    pub(super) fn file(path: &Path) -> impl Fn(io::Error) -> TreeError {
        let path = path.to_owned();
        move |source| TreeError::File {
            path: path.clone(),
            source,
        }
    }
}
