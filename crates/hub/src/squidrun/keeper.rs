//! The task that has the directory: takes its lock, begins the session, and serves triggers and journal meanwhile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::talk::Session;
use switchboard_core::verb::BeginSession;
use switchboard_wire::IsoTime;
use tokio::time::sleep;

use super::directory::{Context, Dirs};
use super::journal::Follower;
use super::status;
use super::triggers::Triggers;
use crate::data_dir::ignore_all;
use crate::spool::Lock;

/// A directory that cannot be served is tried again so soon.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub struct Keeper {
    context: Arc<Context>,
    lock: Option<Arc<Lock>>,
    /// The session that began when this hub took the directory.
    session: Option<Session>,
    triggers: Triggers,
    follower: Follower,
    /// What was last complained of.
    trouble: Option<String>,
}

impl Keeper {
    pub fn new(context: Arc<Context>) -> Keeper {
        Keeper {
            triggers: Triggers::new(Arc::clone(&context)),
            follower: Follower::new(Arc::clone(&context)),
            context,
            lock: None,
            session: None,
            trouble: None,
        }
    }

    /// Takes the directory, unless another hub has it. Then the session has begun, and `session.md` is there.
    pub async fn enter(&mut self) -> bool {
        match self.take().await {
            Ok(is_ours) => {
                self.trouble = None;
                is_ours
            }
            Err(error) => {
                self.complain(&error.to_string());
                false
            }
        }
    }

    /// Serves until the hub stops. What was taken and not said by then is said after the next start.
    pub async fn run(mut self) {
        let stopping = self.context.stopping.clone();
        while !stopping.is_cancelled() {
            if self.enter().await
                && let Some(lock) = self.lock.clone()
            {
                let (triggers, follower) = (&mut self.triggers, &mut self.follower);
                tokio::select! {
                    () = stopping.cancelled() => break,
                    () = triggers.run(&lock) => {}
                    () = follower.run() => {}
                }
            }
            tokio::select! {
                () = stopping.cancelled() => break,
                () = sleep(RETRY_AFTER) => {}
            }
        }
        if self.lock.is_some() {
            self.follower.catch_up().await;
        }
    }

    async fn take(&mut self) -> io::Result<bool> {
        let (held, place) = (self.lock.take(), self.context.place.clone());
        let taken = tokio::task::spawn_blocking(move || {
            let base = place.enter()?;
            // Before anything is in it, so that one of ours is told from one that was there.
            ignore_all(&place.path());
            let lock = match held.filter(|held| held.is_of(&base)) {
                Some(held) => Some(held),
                None => Lock::take(&base)?.map(Arc::new),
            };
            let found = lock.is_some().then(|| status::session(&base)).transpose()?;
            Ok::<_, io::Error>((lock, found.unwrap_or_default()))
        });
        let (lock, found) = taken.await.map_err(io::Error::other)??;
        let Some(lock) = lock else {
            let path = self.context.place.path();
            let said = format!("another hub serves {}", path.display());
            return Err(io::Error::other(said));
        };
        self.lock = Some(lock);
        let hub = &self.context.hub;
        let known = self
            .session
            .take()
            .filter(|session| session.number >= found);
        let (session, is_new) = match known {
            Some(session) => (session, false),
            None => {
                let begun = hub.run(BeginSession { at_least: found }).await;
                (begun.map_err(io::Error::other)?, true)
            }
        };
        let number = session.number;
        let (began_at, now) = (IsoTime::from(session.began_at), IsoTime::from(hub.wall()));
        self.session = Some(session);
        self.context.broker.begins(number);
        let write = move |dirs: &Dirs| status::write(&dirs.base, number, began_at, now);
        self.context.with(write).await?;
        if is_new {
            tracing::info!(
                "session {number} begins in {}",
                self.context.place.path().display()
            );
            self.follower.begin(number).await;
        }
        // What was in a directory that was removed is written again.
        self.follower.is_news = true;
        Ok(true)
    }

    /// Says what is wrong, once.
    fn complain(&mut self, what: &str) {
        if self.trouble.as_deref() != Some(what) {
            tracing::warn!(
                "the directory of SquidRun cannot be served: {what}; the hub continues without it, and retries"
            );
            self.trouble = Some(what.to_owned());
        }
    }
}
