//! The directories of `.squidrun/`, and what everything that serves them works with.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use switchboard_wire::squidrun::Roles;
use tokio_util::sync::CancellationToken;

use super::Says;
use crate::config::Squidrun;
use crate::hub::Hub;
use crate::spool::{Cleaned, Place};

/// The directories, open.
#[derive(Debug)]
pub struct Dirs {
    pub base: OwnedFd,
    /// What scripts put there.
    pub triggers: OwnedFd,
    /// What is being said.
    pub taken: OwnedFd,
    pub rejected: OwnedFd,
    pub handoffs: OwnedFd,
}

pub const TRIGGERS: &str = "triggers";
pub const RUNTIME: &str = "runtime";

pub struct Context {
    pub hub: Hub,
    pub broker: Arc<dyn Says>,
    pub place: Place,
    pub roles: Arc<Roles>,
    pub settings: Squidrun,
    /// Whether what files say is believed. Where callers prove who they are, they are not.
    pub trusts_files: bool,
    pub stopping: CancellationToken,
    pub tally: Arc<Tally>,
}

/// Trigger files, and rows of the journal.
#[derive(Debug, Default)]
pub struct Tally {
    pub said: AtomicU64,
    pub rejected: AtomicU64,
    /// Messages that others journaled and that arrived no other way.
    pub recovered: AtomicU64,
}

impl Dirs {
    /// Opens all directories, and makes those that are missing.
    pub fn open(place: &Place) -> io::Result<Dirs> {
        let base = place.enter()?;
        let inner = |name: &str| place.enter_inner(&base, name);
        Ok(Dirs {
            triggers: inner(TRIGGERS)?,
            taken: inner("triggers/taken")?,
            rejected: inner("triggers/rejected")?,
            handoffs: inner("handoffs")?,
            base,
        })
    }

    /// What is removed once it has been lying for long.
    pub fn cleaned(&self) -> [Cleaned<'_>; 1] {
        [(&self.rejected, |_| true)]
    }
}

impl Context {
    /// Does something with the directories, off the threads that serve.
    pub async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        errand: impl FnOnce(&Dirs) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let context = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || errand(&Dirs::open(&context.place)?));
        done.await.map_err(io::Error::other)?
    }
}
