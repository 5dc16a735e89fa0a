//! The file door in the table of doors.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::job::Context;
use super::queue::IN_WORK_MAX;
use super::scanner::Scanner;
use crate::call::Calls;
use crate::config::{Config, Entry, count, read};
use crate::metrics::{counter, gauge};
use crate::serve::GRACE;
use crate::spool::Place;
use crate::surface::{Open, Opener, Surface};

pub(crate) const SURFACE: Surface = Surface {
    settings: &[SETTINGS],
    resolve: |config| config.files.dir = config.project.join(&config.files.dir),
    leaves: |config| vec![config.files.dir.clone()],
    ..Surface::new("files", |config, _| {
        let opener: Opener = Box::new(|app, config| open(&app.calls, config).map(Ok).boxed());
        Ok(config.files.enabled.then_some(opener))
    })
};

const HOUR: Duration = Duration::from_secs(3600);

#[rustfmt::skip]
const SETTINGS: &[Entry] = &[
    ("files.enabled", |d, g| read(g).map(|v| d.config.files.enabled = v)),
    ("files.dir", |d, g| read(g).map(|v| d.config.files.dir = v)),
    ("files.rescan_ms", |d, g| count(g).map(|v| d.config.files.rescan_every = Duration::from_millis(v.into()))),
    ("files.keep_hours", |d, g| count(g).map(|v| d.config.files.keep_for = HOUR * v)),
];

/// Requests that came as files.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub answered: AtomicU64,
    pub rejected: AtomicU64,
    /// Known and not answered yet.
    pub waiting: AtomicU64,
}

/// Makes the directories and begins to serve them. A directory that cannot be served is told of, and tried again.
async fn open(calls: &Arc<Calls>, config: &Config) -> Open {
    let tally = Arc::new(Tally::default());
    let context = Context {
        calls: Arc::clone(calls),
        place: Place::new(&config.project, &config.files.dir),
        disk: Semaphore::new(IN_WORK_MAX),
        tally: Arc::clone(&tally),
    };
    let mut scanner = Scanner::new(context, config.files.clone());
    scanner.open().await;
    let scanning = tokio::spawn(scanner.run());
    Open {
        addr: None,
        card: Vec::new(),
        line: None,
        figures: Some(Arc::new(move |out| figures(&tally, out))),
        close: Box::new(|| close(scanning).boxed()),
    }
}

/// Once the hub stops: lets what is in work finish, for as long as there is time.
async fn close(mut scanning: JoinHandle<()>) {
    match tokio::time::timeout(GRACE, &mut scanning).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!("serving request files crashed: {error}"),
        Err(_) => {
            tracing::warn!(
                "some request files are unfinished; they will be answered after the next start"
            );
            scanning.abort();
        }
    }
}

#[rustfmt::skip]
fn figures(tally: &Tally, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    counter(out, "files_answered", "Request files that were answered", read(&tally.answered))?;
    counter(out, "files_rejected", "Request files that were rejected as invalid or unsigned", read(&tally.rejected))?;
    gauge(out, "files_waiting", "Request files that wait for an answer", read(&tally.waiting))
}
