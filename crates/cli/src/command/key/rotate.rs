//! `switchboard key rotate`: another master key in the place of the one that holds.
//!
//! It is put where it is kept, and hubs that run look there every second. One that does not take it up is said.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_hub::config::{Overrides, StoreAt};
use switchboard_hub::data_dir::{Key, Keys};
use switchboard_store::postgres::secret;

use super::super::up::store_url;
use crate::context::Context;
use crate::discover::{self, Found, HubFile};
use crate::failure::Failure;
use crate::project;
use crate::screen::{Tone, paint};

/// A hub looks every second; a busy one gets a while.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(20);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Replace the master key; agent keys and tokens derived from the old one stop working
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use it if others may have seen the key. Every agent key and token stops working at once: each agent that signs needs a
new key ('switchboard agent add ID'), each person and program a new token ('switchboard token create NAME').
Certificates of the bus stay valid. A running hub uses the new key within a second; on PostgreSQL all hubs do.

Examples:
  switchboard key rotate
  switchboard key rotate --store postgres://swarm@db/swarm")]
pub struct Args {
    /// The ledger whose key to replace [default: this project's]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    success: bool,
    ledger: String,
    /// Whether the hub that runs here uses the new key; absent where none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_up: Option<bool>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = context.data_dir();
    let found = discover::look(&data_dir);
    let store = ledger(&args, &data_dir, &found, &context.here)?;
    let place = store.place().map_err(failed)?.settled().to_string();
    let dir = data_dir.clone();
    // The store waits for its connections by itself, which it must not do among our tasks.
    let replaced = tokio::task::spawn_blocking(move || replace(&store, &dir)).await;
    replaced.map_err(failed)??;
    let taken_up = match &found {
        Found::Running { hub, .. } => Some(is_taken_up(context, hub, &data_dir).await?),
        Found::Gone { .. } | Found::Unreadable { .. } | Found::Nothing => None,
    };
    let report = Report {
        success: true,
        ledger: place,
        taken_up,
    };
    report.print(context)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the key was not replaced: {error}"))
}

/// What is named, else what is served, with the password that the settings may have for it.
fn ledger(args: &Args, data_dir: &Path, found: &Found, here: &Path) -> Result<StoreAt, Failure> {
    let store = args.store.as_deref();
    let store = store.map(|url| ("store.url", store_url(url, here)));
    let data_dir = ("data_dir", data_dir.display().to_string());
    let flags = Overrides {
        project: None,
        settings: store.into_iter().chain([data_dir]).collect(),
    };
    let named = project::load(here, None, flags)
        .map_err(failed)?
        .config
        .store;
    let same = |served: &StoreAt| {
        let place = |store: &StoreAt| store.place().ok().map(|at| at.settled().to_string());
        place(served) == place(&named)
    };
    match project::served(found) {
        Some(served) if args.store.is_none() && !same(&served) => Ok(served),
        Some(_) | None => Ok(named),
    }
}

fn replace(store: &StoreAt, data_dir: &Path) -> Result<(), Failure> {
    let keys = Keys::of(data_dir);
    let new: Key = Keys::fresh().map_err(failed)?;
    match store {
        StoreAt::Sqlite(file) => {
            if keys.own().map_err(failed)?.is_none() {
                return Err(failed(format!(
                    "there is none in {} yet; the first 'switchboard up' on {} creates it",
                    data_dir.display(),
                    file.display()
                )));
            }
            keys.keep_own(&new).map_err(failed)
        }
        StoreAt::Postgres(url) => {
            let address = url.address().map_err(failed)?;
            let old = secret::replace(&address, &new).map_err(failed)?;
            if !data_dir.is_dir() {
                return Ok(());
            }
            keys.follow(&old, &new).map_err(|error| {
                Failure::Failed(format!(
                    "the key was replaced in the ledger, but not in {}: {error}; restart the hub",
                    data_dir.display()
                ))
            })
        }
    }
}

/// Whether the hub that runs proves to have the new key.
async fn is_taken_up(context: &Context, hub: &HubFile, data_dir: &Path) -> Result<bool, Failure> {
    let client = context.client_for(&hub.url(), Some((data_dir, hub)))?;
    let began = Instant::now();
    while client.admin().healthy().await.is_err() {
        if began.elapsed() > TAKEN_UP_WITHIN {
            return Ok(false);
        }
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
    Ok(true)
}

impl Report {
    fn print(&self, context: &mut Context) -> Result<(), Failure> {
        let screen = &mut context.screen;
        if screen.json() {
            return Ok(screen.value(self)?);
        }
        screen.line(format_args!(
            "{} has a new master key; agent keys and tokens derived from the old one no longer work",
            self.ledger
        ))?;
        match self.taken_up {
            Some(true) => screen.line("the running hub uses it")?,
            Some(false) => screen.line(paint(
                "the running hub does not use it yet; stop it and restart it with 'switchboard up'",
                Tone::Warn,
            ))?,
            None => {}
        }
        Ok(screen.line(
            "Next: run 'switchboard agent add ID' for each agent that signs, and 'switchboard token create NAME' for each token",
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(store: Option<&str>) -> Args {
        Args {
            store: store.map(str::to_owned),
        }
    }

    #[test]
    fn the_ledger_is_the_one_named_else_the_one_of_the_project() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(discover::DATA_DIR);
        let store = |named| ledger(&args(named), &dir, &Found::Nothing, root.path()).unwrap();
        assert_eq!(store(None), StoreAt::Sqlite(dir.join("switchboard.db")));
        assert!(matches!(
            store(Some("postgres://h/d")),
            StoreAt::Postgres(_)
        ));
        let file = StoreAt::Sqlite(root.path().join("x.db"));
        assert_eq!(store(Some("sqlite:x.db")), file);
    }

    #[test]
    fn a_key_that_is_not_there_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let store = StoreAt::Sqlite(root.path().join("x.db"));
        let said = replace(&store, root.path()).unwrap_err().to_string();
        assert!(said.contains("switchboard up"), "{said}");
        let keys = Keys::of(root.path());
        keys.keep_own(&[7; 32]).unwrap();
        replace(&store, root.path()).unwrap();
        assert_ne!(keys.own().unwrap(), Some([7; 32]));
    }
}
