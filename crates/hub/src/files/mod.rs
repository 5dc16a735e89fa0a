//! The file door: requests that are put into a directory, answered by files beside them.
//!
//! Agents that share nothing but a file system with the hub write `requests/<name>.json` and wait for
//! `responses/<name>-response.json`. What a request means and what comes of it is the business of [`crate::http`], whose
//! path from an envelope to its answer this is; here files are found, kept in order, answered and put away. How to use it
//! is in `docs/files.md`.
//!
//! [`scanner`] is the loop, [`queue`] what it knows, [`job`] one request's way, [`act`] what is done about it,
//! [`request_file`] the steps on disk, [`place`] the directories, [`cleanup`] the end of old files.

mod act;
mod cleanup;
mod hints;
mod job;
mod place;
mod queue;
mod request_file;
mod scanner;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use self::job::Context;
use self::place::Place;
use self::queue::IN_WORK_MAX;
use self::scanner::Scanner;
use crate::config::Config;
use crate::http::{App, Shared};

/// What files are held against: a clock that was set forward makes none of them old.
fn now(app: &App) -> SystemTime {
    let ledger_ms = u64::try_from(app.hub.time().0).unwrap_or(0);
    SystemTime::now().min(UNIX_EPOCH + Duration::from_millis(ledger_ms))
}

/// The door, open.
pub struct Door(JoinHandle<()>);

impl Door {
    /// Makes the directories, if the settings say so, and begins to serve them. A directory that cannot be served is
    /// told of, and tried again.
    pub async fn open(app: &Shared, config: &Config) -> Option<Door> {
        if !config.files.enabled {
            return None;
        }
        let context = Context {
            app: app.clone(),
            place: Place::new(&config.project, &config.files.dir),
            disk: Semaphore::new(IN_WORK_MAX),
        };
        let mut scanner = Scanner::new(context, config.files.clone());
        scanner.open().await;
        Some(Door(tokio::spawn(scanner.run())))
    }

    /// Once the hub stops: lets what is in work finish, for as long as `grace` allows.
    pub async fn close(mut self, grace: Duration) {
        match tokio::time::timeout(grace, &mut self.0).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the file door ended badly: {error}"),
            Err(_) => {
                tracing::warn!(
                    "request files were left in work; they are answered at the next start"
                );
                self.0.abort();
            }
        }
    }
}
