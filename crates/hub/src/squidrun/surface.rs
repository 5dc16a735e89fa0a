//! The directory in the table of doors.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::task::JoinHandle;

use super::directory::{Context, Tally};
use super::keeper::Keeper;
use crate::config::{AuthMode, Config, Entry, count, read};
use crate::http::App;
use crate::metrics::counter;
use crate::serve::GRACE;
use crate::spool::Place;
use crate::surface::{Open, Opener, Surface};

pub(crate) const SURFACE: Surface = Surface {
    settings: &[SETTINGS],
    resolve: |config| config.squidrun.dir = config.project.join(&config.squidrun.dir),
    leaves: |config| vec![config.squidrun.dir.clone()],
    ..Surface::new("squidrun", |config, _| {
        let opener: Opener = Box::new(|app, config| open(app, config).map(Ok).boxed());
        Ok(config.squidrun.enabled.then_some(opener))
    })
};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[rustfmt::skip]
const SETTINGS: &[Entry] = &[
    ("squidrun.enabled", |d, g| read(g).map(|v| d.config.squidrun.enabled = v)),
    ("squidrun.dir", |d, g| read(g).map(|v| d.config.squidrun.dir = v)),
    ("broker.triggers", |d, g| read(g).map(|v| d.config.squidrun.triggers = v)),
    ("squidrun.journal_days", |d, g| count(g).map(|v| d.config.squidrun.journal_for = DAY * v)),
];

/// Takes the directory and begins to serve it. One that cannot be served is told of, and tried again.
async fn open(app: &Arc<App>, config: &Config) -> Open {
    let tally = Arc::new(Tally::default());
    let context = Arc::new(Context {
        hub: app.calls.hub.clone(),
        broker: app.broker.clone(),
        roles: Arc::clone(&config.broker.roles),
        trusts_files: config.auth == AuthMode::None || config.squidrun.triggers,
        place: Place::new(&config.project, &config.squidrun.dir),
        settings: config.squidrun.clone(),
        stopping: app.calls.stopping.clone(),
        tally: Arc::clone(&tally),
    });
    let mut keeper = Keeper::new(context);
    keeper.enter().await;
    let serving = tokio::spawn(keeper.run());
    Open {
        addr: None,
        card: Vec::new(),
        line: None,
        figures: Some(Arc::new(move |out| figures(&tally, out))),
        close: Box::new(|| close(serving).boxed()),
    }
}

/// Once the hub stops: what was logged goes into the journal, for as long as there is time.
async fn close(mut serving: JoinHandle<()>) {
    match tokio::time::timeout(GRACE, &mut serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!("serving the directory of SquidRun crashed: {error}"),
        // The next start goes on where it ended.
        Err(_) => serving.abort(),
    }
}

#[rustfmt::skip]
fn figures(tally: &Tally, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    counter(out, "triggers_said", "Trigger files whose messages were accepted", read(&tally.said))?;
    counter(out, "triggers_rejected", "Trigger files that were refused", read(&tally.rejected))?;
    counter(out, "journal_recovered", "Messages that were found in the journal alone", read(&tally.recovered))
}
