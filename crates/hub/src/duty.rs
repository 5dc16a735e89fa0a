//! Keeps a duty while this hub serves, and tells whoever does it whether it is held.
//!
//! A ledger that one hub serves alone has no duties: everything is its own, and nothing is written for it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::duty::Fence;
use switchboard_core::limits;
use switchboard_core::verb::{LeaveDuty, TakeDuty};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::hub::{Error, Hub};

/// Whoever could not renew it for this long does nothing more, a while before others may take it.
const BELIEVED_FOR: Duration = Duration::from_secs(10);
/// After a failure it is tried again so soon.
const RETRY: Duration = Duration::from_secs(1);

/// A duty of this hub, or of another one.
pub(crate) struct Duty {
    hub: Hub,
    name: &'static str,
    standing: Mutex<Standing>,
    /// What others are to know of it while it is held here.
    note: Mutex<Option<String>>,
    bell: Notify,
    news: Notify,
}

/// Whether it is held here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub is_held: bool,
    /// What verbs carry, where others could take it.
    pub fence: Option<Fence>,
    /// What its holder noted; of one that is held here, what the holder before did.
    pub note: Option<String>,
}

impl Duty {
    pub fn new(hub: &Hub, name: &'static str) -> Arc<Duty> {
        let standing = Standing {
            is_held: !hub.is_shared(),
            ..Standing::default()
        };
        Arc::new(Duty {
            hub: hub.clone(),
            name,
            standing: Mutex::new(standing),
            note: Mutex::new(None),
            bell: Notify::new(),
            news: Notify::new(),
        })
    }

    pub fn standing(&self) -> Standing {
        self.standing.lock().clone()
    }

    /// Until it is taken or lost, or its holder notes something. For the one who does it.
    pub async fn changed(&self) {
        self.news.notified().await;
    }

    /// What others show of it, and whoever takes it next begins with.
    pub fn note(&self, note: String) {
        let mut noted = self.note.lock();
        if noted.as_ref() != Some(&note) {
            *noted = Some(note);
            self.bell.notify_one();
        }
    }

    /// Takes and renews it until the hub stops; then others need not wait for it.
    pub async fn keep(self: Arc<Self>, stopping: CancellationToken) {
        if !self.hub.is_shared() {
            return;
        }
        let mut renewed_at = Instant::now();
        loop {
            let asked_at = Instant::now();
            let rest = match timeout(limits::DUTY_RENEWED_EVERY, self.take()).await {
                Ok(Ok(rest)) => {
                    renewed_at = asked_at;
                    rest
                }
                Ok(Err(Error::Stopping)) => return,
                Ok(Err(_)) | Err(_) => {
                    tracing::debug!("the duty {:?} is asked for again", self.name);
                    if renewed_at.elapsed() > BELIEVED_FOR {
                        self.is_now(Standing::default());
                    }
                    RETRY
                }
            };
            tokio::select! {
                () = sleep(rest) => {}
                () = self.bell.notified() => {}
                () = stopping.cancelled() => break,
            }
        }
        if let Some(fence) = self.standing().fence {
            let (duty, me) = (self.name, self.hub.shared.name.clone());
            let epoch = fence.epoch;
            let left = self.hub.run(LeaveDuty { duty, me, epoch }).await;
            if let Err(error) = left {
                tracing::debug!(%error, "others take the duty {duty:?} in a while");
            }
        }
    }

    /// Tells after which time to look again.
    async fn take(&self) -> Result<Duration, Error> {
        let (duty, me) = (self.name, self.hub.shared.name.clone());
        let known = self.standing();
        let note = self.note.lock().clone().filter(|_| known.is_held);
        let taken = self.hub.run(TakeDuty { duty, me, note }).await?;
        let (epoch, is_held) = (taken.epoch, taken.holder == self.hub.shared.name);
        let fence = is_held.then_some(Fence { duty, epoch });
        let note = match is_held && known.is_held {
            true => known.note,
            false => Some(taken.note).filter(|note| !note.is_empty()),
        };
        if is_held && !known.is_held {
            tracing::info!(epoch, "this coordinator now has the duty {duty:?}");
            *self.note.lock() = None;
        }
        self.is_now(Standing {
            is_held,
            fence,
            note,
        });
        let left = taken.until.since(self.hub.time());
        Ok(left.clamp(RETRY, limits::DUTY_RENEWED_EVERY))
    }

    fn is_now(&self, standing: Standing) {
        let mut known = self.standing.lock();
        if *known != standing {
            *known = standing;
            self.news.notify_one();
        }
    }
}
