//! `switchboard restore`: puts a backup and its key back, where no hub runs.
//!
//! The copy is made and checked beside the ledger. How it takes the ledger's place and gets its epoch is the store's
//! business (`copy::restore`).

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use switchboard_hub::config::StoreAt;
use switchboard_hub::data_dir::{DataDir, DataDirError, Key, Keys};
use switchboard_store::Wall;
use switchboard_store::copy::{self, Restored};

use super::backup::{beside, copy_into, key_beside};
use super::migrate::held_by;
use crate::context::Context;
use crate::failure::Failure;
use crate::project;

/// Put a backup and its key back in the place of the ledger
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Stop the hub first. The backup is checked before anything is changed. The ledger that it replaces is kept beside it, with
its key, under a name that contains 'before-restore'. The ledger goes on in a new epoch: clients that follow the event
log learn that the events after the backup are gone.

Examples:
  switchboard restore .switchboard/backups/switchboard-backup-20260119T100000Z.db
  switchboard --data-dir /var/lib/switchboard restore swarm.db")]
pub struct Args {
    /// The backup; its key is read from the file of the same name with .key at the end, if there is one
    file: PathBuf,
    /// Ledger to replace [default: this project's]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Trust the clock of this machine, however old the backup is
    #[arg(long)]
    clock_is_right: bool,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = context.data_dir();
    let ledger = match args.to {
        Some(file) => context.here.join(file),
        None => of_project(&data_dir, context)?,
    };
    let failed = |reason: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "{} was not restored: {reason}",
            args.file.display()
        ))
    };
    if !args.file.is_file() {
        return Err(failed(&"there is no such file"));
    }
    if args.file.canonicalize().ok() == ledger.canonicalize().ok() {
        return Err(failed(&"it is the ledger itself"));
    }
    let key = Keys::read_at(key_beside(&args.file)).map_err(|error| failed(&error))?;
    let held = DataDir::open(&data_dir).map_err(|error| failed(&held_by(error)))?;
    let wall = match args.clock_is_right {
        true => Wall::Trusted,
        false => Wall::Checked,
    };
    let restored = put_back(&args.file, &ledger, wall).map_err(|error| failed(&error))?;
    let told = put_key_back(&held.keys(), key, restored.kept.as_deref());
    let told = told.map_err(|error| failed(&error))?;
    let screen = &mut context.screen;
    let Restored { epoch, kept } = restored;
    if screen.json() {
        let answer = serde_json::json!({ "success": true, "ledger": ledger, "from": args.file, "kept": kept, "key": key.is_some(), "epoch": epoch.number });
        return Ok(screen.value(&answer)?);
    }
    screen.line(format_args!(
        "{} is restored from {}, up to event {}, and goes on in epoch {}",
        ledger.display(),
        args.file.display(),
        epoch.after,
        epoch.number
    ))?;
    screen.line(told)?;
    if let Some(kept) = kept {
        screen.line(format_args!(
            "what was there before is kept as {}",
            kept.display()
        ))?;
    }
    Ok(screen.line("Next: switchboard up")?)
}

fn of_project(data_dir: &Path, context: &Context) -> Result<PathBuf, Failure> {
    match project::configured(data_dir, &context.here) {
        StoreAt::Sqlite(file) => Ok(file),
        StoreAt::Postgres(url) => Err(Failure::Failed(format!(
            "nothing was restored: the ledger is in PostgreSQL at {url:?}; restore it with PostgreSQL's own tools (pg_restore)"
        ))),
    }
}

fn put_back(file: &Path, ledger: &Path, wall: Wall) -> Result<Restored, String> {
    if let Some(folder) = ledger.parent() {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let partial = beside(ledger);
    // Reading the backup may leave these beside it.
    let traces = ["-wal", "-shm"].map(|end| with_end(file, end));
    let traces = traces.into_iter().filter(|trace| !trace.exists());
    let traces: Vec<PathBuf> = traces.collect();
    let restored = copy_into(file, &partial)
        .and_then(|_| copy::restore(&partial, ledger, wall).map_err(|error| error.to_string()));
    // What is left of a copy that did not get its place, and of its log.
    let left = ["", "-wal", "-shm"].map(|end| with_end(&partial, end));
    for trace in traces.into_iter().chain(left) {
        let _ = fs::remove_file(trace);
    }
    restored
}

fn with_end(file: &Path, end: &str) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(end);
    name.into()
}

/// The key that the ledger had until now goes with it.
fn put_key_back(
    keys: &Keys,
    key: Option<Key>,
    kept: Option<&Path>,
) -> Result<&'static str, DataDirError> {
    let own = keys.own()?;
    if let (Some(own), Some(kept)) = (&own, kept) {
        Keys::keep_at(&key_beside(kept), own)?;
    }
    match (key, own) {
        (Some(key), _) => {
            keys.keep_own(&key)?;
            Ok("its key is restored, too")
        }
        (None, Some(_)) => Ok("the backup has no key; the one in the data directory stays"),
        (None, None) => Ok(
            "there is no key, in the backup or in the data directory; the next start creates one, and all agents and tokens need new keys",
        ),
    }
}
