//! Notices that files of the authority changed or that a certificate ended, and says so.
//!
//! Looking at four files costs a few microseconds, so they are looked at often: a revoked worker is out well within
//! a second, and no event of the file system can be missed. Files that cannot be read change nothing; they are
//! complained about once, and the last good ones go on counting.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use switchboard_core::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::clock::Clock;
use super::error::AuthorityError;
use super::folder::{Folder, Stamp};
use super::trust::Trust;

/// How many times something changed.
pub type Generation = u64;

/// Looks until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    task: JoinHandle<()>,
}

/// What is looked at, and what was last seen there.
pub(super) struct Watched {
    folder: Folder,
    pub clock: Clock,
    latest: RwLock<Latest>,
    generation: watch::Sender<Generation>,
}

struct Latest {
    trust: Arc<Trust>,
    stamp: Stamp,
    /// Something ends by itself then.
    ends_at: Option<Timestamp>,
}

const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Watched {
    pub fn open(folder: Folder, clock: Clock) -> Result<Watched, AuthorityError> {
        // Before reading: what changes meanwhile is noticed at the next look.
        let stamp = folder.stamp();
        let trust = Trust::load(&folder, &clock)?;
        let now = clock.now();
        warn_of(&trust, now);
        let latest = Latest {
            ends_at: trust.known.next_end(now),
            trust: Arc::new(trust),
            stamp,
        };
        Ok(Watched {
            folder,
            clock,
            latest: RwLock::new(latest),
            generation: watch::Sender::new(0),
        })
    }

    pub fn trust(&self) -> Arc<Trust> {
        self.latest.read().trust.clone()
    }

    pub fn generations(&self) -> watch::Receiver<Generation> {
        self.generation.subscribe()
    }

    pub fn watch(self: &Arc<Self>) -> Watcher {
        let watched = Arc::clone(self);
        let task = tokio::spawn(async move {
            let mut ticks = interval(LOOK_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let watched = Arc::clone(&watched);
                if let Err(error) = tokio::task::spawn_blocking(move || watched.look()).await {
                    tracing::error!("checking the certificates failed: {error}");
                }
            }
        });
        Watcher { task }
    }

    /// One look; reads the files again if there is reason to.
    fn look(&self) {
        let stamp = self.folder.stamp();
        let now = self.clock.now();
        {
            let latest = self.latest.read();
            let ended = latest.ends_at.is_some_and(|at| at <= now);
            if latest.stamp == stamp && !ended {
                return;
            }
        }
        let loaded = Trust::load(&self.folder, &self.clock);
        let mut latest = self.latest.write();
        match loaded {
            Ok(trust) => {
                warn_of(&trust, now);
                latest.trust = Arc::new(trust);
            }
            Err(error) => tracing::error!(
                "the new certificates cannot be used, the last valid ones stay in use: {error}"
            ),
        }
        latest.stamp = stamp;
        latest.ends_at = latest.trust.known.next_end(now);
        drop(latest);
        self.generation.send_modify(|generation| *generation += 1);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn warn_of(trust: &Trust, now: Timestamp) {
    if trust.director_ends_soon(now) {
        tracing::warn!(
            "the director's certificate expires soon or has expired; renew it with 'switchboard cert rotate --director'"
        );
    }
}
