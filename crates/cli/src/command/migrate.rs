//! `switchboard migrate`: moves the ledger from SQLite to PostgreSQL, or back.
//!
//! What is copied, how it is verified and how it goes on after an interruption is the store's business (`copy`). This
//! file finds out where from and where to, holds the data directory meanwhile, and shows how far it is.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use switchboard_hub::config::{Config, Overrides, StoreAt};
use switchboard_hub::data_dir::{DataDir, DataDirError};
use switchboard_store::Error;
use switchboard_store::copy::{self, Copied, Key, KeyFile, Phase, Place, Summary};

use super::up::store_url;
use crate::context::Context;
use crate::failure::Failure;
use crate::project;

/// Move the ledger to another store: from SQLite to PostgreSQL, or back
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Stop every hub first. The target must be empty. Everything is copied: tasks, agents, messages, events,
tokens, keys. Then both ledgers are read again and compared row by row and event by event. No hub
serves the target until the copy is finished. The source keeps its rows and is marked as moved:
hubs do not serve it and direct SQL writes are refused until 'switchboard up --abandon-move'.
A SQLite file marked as moved may be the target again; it is then kept under another name.
If the migration is interrupted, run the same command again to resume it.

Examples:
  switchboard migrate --to postgres://swarm@db/swarm
  switchboard migrate --store postgres://swarm@db/swarm --to sqlite:.switchboard/switchboard.db
  switchboard migrate --to postgres://swarm@db/swarm --verify-only")]
pub struct Args {
    /// Target: postgres://USER@HOST/DATABASE, sqlite:FILE, or a file name
    #[arg(long, value_name = "URL")]
    to: String,
    /// Source [default: this project's ledger]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Only compare the two ledgers, change nothing
    #[arg(long)]
    verify_only: bool,
    /// Project directory [default: the enclosing git repository's main worktree, else the current directory]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Configuration file [default: switchboard.toml in the project, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = context.options.data_dir.as_deref();
    let from = args.config(args.store.as_deref(), data_dir, &context.here)?;
    // The other settings were just understood, so whatever is wrong now is wrong with the target.
    let to = args.config(Some(&args.to), data_dir, &context.here);
    let to = to.map_err(|failure| Failure::Failed(format!("--to: {failure}")))?;
    let (source, target) = (place(&from.store)?, place(&to.store)?);
    let next = next_step(data_dir, &target);
    let verify_only = args.verify_only;
    let began = Instant::now();
    let moved = {
        let (source, target) = (source.clone(), target.clone());
        // The store waits for its connections by itself, which it must not do among our tasks.
        let work = move || move_ledger(&source, &target, &from, verify_only);
        tokio::task::spawn_blocking(work).await
    };
    let summary =
        moved.map_err(|error| Failure::Failed(format!("the migration crashed: {error}")))??;
    let report = Report {
        success: true,
        from: source.to_string(),
        to: target.to_string(),
        tables: summary.tables,
        rows: summary.rows,
        resumed_rows: summary.resumed,
        events: summary.events,
        seconds: began.elapsed().as_secs_f64(),
        verified: true,
        notes: summary.notes,
    };
    report.print(verify_only, &next, context)
}

impl Args {
    /// The settings of a hub on this store.
    fn config(
        &self,
        store: Option<&str>,
        data_dir: Option<&Path>,
        here: &Path,
    ) -> Result<Config, Failure> {
        let data_dir = data_dir.map(|dir| ("data_dir", here.join(dir).display().to_string()));
        let store = store.map(|url| ("store.url", with_scheme(url, here)));
        let flags = Overrides {
            project: self.project.as_ref().map(|project| here.join(project)),
            settings: data_dir.into_iter().chain(store).collect(),
        };
        let file = self.config.as_ref().map(|file| here.join(file));
        let loaded = project::load(here, file.as_deref(), flags);
        let loaded = loaded.map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(loaded.config)
    }
}

/// What is no URL is a file.
fn with_scheme(url: &str, here: &Path) -> String {
    const SCHEMES: [&str; 4] = ["sqlite:", "file:", "postgres:", "postgresql:"];
    if url.contains("://") || SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return store_url(url, here);
    }
    store_url(&format!("sqlite:{url}"), here)
}

fn place(store: &StoreAt) -> Result<Place, Failure> {
    store
        .place()
        .map_err(|error| Failure::Failed(error.to_string()))
}

fn move_ledger(
    source: &Place,
    target: &Place,
    config: &Config,
    verify_only: bool,
) -> Result<Summary, Failure> {
    let bar = Bar::new();
    let mut watch = |step: Copied| {
        bar.show(step);
        ControlFlow::Continue(())
    };
    let done = if verify_only {
        copy::verify(source, target, &NoKey, &mut watch)
    } else {
        if let Place::Sqlite(file) = source
            && !file.is_file()
        {
            return Err(Failure::Failed(format!(
                "there is no ledger at {}; pass one with --store",
                file.display()
            )));
        }
        // A file that is made is its owner's alone; the next 'up' lets in whom the settings let in.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let held = DataDir::open_as(&config.data_dir, config.store_mode);
        let held = held.map_err(|error| Failure::Failed(held_by(error)))?;
        let held = Held(held);
        match copy::run(source, target, &held, &mut watch) {
            Err(copy::Failure::Served { name, wait, .. }) => {
                bar.waits(&name);
                std::thread::sleep(wait);
                copy::run(source, target, &held, &mut watch)
            }
            done => done,
        }
    };
    bar.end();
    done.map_err(|failure| Failure::Failed(failure.to_string()))
}

pub(super) fn held_by(error: DataDirError) -> String {
    match error {
        DataDirError::Held { path, holder } => format!(
            "{holder} serves the ledger of {}; stop it, then run this command again",
            path.display()
        ),
        other => other.to_string(),
    }
}

/// The data directory, where a SQLite ledger has its key.
struct Held(DataDir);

impl KeyFile for Held {
    fn key(&self) -> Result<Option<Key>, Error> {
        self.0
            .keys()
            .own()
            .map_err(|error| Error::Open(error.to_string()))
    }

    fn keep(&self, key: &Key) -> Result<(), Error> {
        self.0
            .keys()
            .keep_own(key)
            .map_err(|error| Error::Open(error.to_string()))
    }
}

/// To compare rows takes no key.
struct NoKey;

impl KeyFile for NoKey {
    fn key(&self) -> Result<Option<Key>, Error> {
        Ok(None)
    }

    fn keep(&self, _: &Key) -> Result<(), Error> {
        Err(Error::Open("a comparison keeps no key".to_owned()))
    }
}

/// How far it is, on a terminal.
struct Bar(ProgressBar);

const REDRAW_EVERY: Duration = Duration::from_millis(200);

impl Bar {
    fn new() -> Bar {
        if !io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let template = "{prefix} {msg:18} {wide_bar} {percent:>3}% of {human_len} rows, {eta} left";
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        let bar = ProgressBar::new(0).with_style(style);
        bar.enable_steady_tick(REDRAW_EVERY);
        Bar(bar)
    }

    fn waits(&self, ledger: &str) {
        self.0.println(format!(
            "waiting to see whether a hub still serves {ledger}"
        ));
    }

    fn show(&self, step: Copied) {
        let prefix = match step.phase {
            Phase::Copying => "copying  ",
            Phase::Verifying => "verifying",
        };
        if step.rows < self.0.position() {
            self.0.reset_eta();
        }
        self.0.set_prefix(prefix);
        self.0.set_message(step.table);
        self.0.set_length(step.of);
        self.0.set_position(step.rows);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    success: bool,
    from: String,
    to: String,
    tables: usize,
    rows: u64,
    resumed_rows: u64,
    events: u64,
    seconds: f64,
    verified: bool,
    notes: Vec<String>,
}

impl Report {
    fn print(&self, verify_only: bool, next: &str, context: &mut Context) -> Result<(), Failure> {
        let screen = &mut context.screen;
        if screen.json() {
            return Ok(screen.value(self)?);
        }
        let Report {
            from,
            to,
            tables,
            rows,
            events,
            seconds,
            ..
        } = self;
        let what = format!("{rows} rows in {tables} tables, with {events} events");
        if verify_only {
            screen.line(format_args!(
                "{from} and {to} are the same: {what}, compared in {seconds:.1} s"
            ))?;
        } else {
            screen.line(format_args!(
                "{from} was copied to {to} in {seconds:.1} s, and every row and event compared: {what}"
            ))?;
        }
        if self.resumed_rows > 0 {
            screen.line(format_args!(
                "{} of these rows were copied by an earlier run",
                self.resumed_rows
            ))?;
        }
        for note in &self.notes {
            screen.line(format_args!("note: {note}"))?;
        }
        if !verify_only {
            screen.line(format_args!(
                "{from} is marked as moved and can no longer be served or written ('switchboard up --abandon-move' undoes this). Next: {next}"
            ))?;
        }
        Ok(())
    }
}

/// The command that starts a hub on the target. A password is left to the person.
fn next_step(data_dir: Option<&Path>, target: &Place) -> String {
    let data_dir = data_dir.map_or_else(String::new, |dir| {
        format!(" --data-dir '{}'", dir.display())
    });
    format!(
        "switchboard up --store '{target}'{data_dir}   (or set [store] url in switchboard.toml)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Migrate {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        let words = std::iter::once("migrate").chain(line.split_whitespace());
        Migrate::parse_from(words).args
    }

    #[test]
    fn what_is_no_url_is_a_file_from_here() {
        let here = Path::new("/here");
        for (given, url) in [
            ("x.db", "sqlite:/here/x.db"),
            ("/abs/x.db", "sqlite:/abs/x.db"),
            ("sqlite:x.db", "sqlite:/here/x.db"),
            ("postgres://h/d", "postgres://h/d"),
            ("mysql://h/d", "mysql://h/d"),
        ] {
            assert_eq!(with_scheme(given, here), url);
        }
    }

    #[test]
    fn the_next_step_starts_a_hub_on_the_target() {
        let given = args("--to postgres://me:secret@h/d");
        let (here, dir) = (Path::new("/here"), Some(Path::new("d")));
        let from = given.config(None, dir, here).unwrap();
        let to = given.config(Some(&given.to), dir, here).unwrap();
        assert_eq!(from.data_dir, Path::new("/here/d"));
        assert_eq!(from.store, StoreAt::Sqlite("/here/d/switchboard.db".into()));
        let next = next_step(dir, &place(&to.store).unwrap());
        assert!(
            next.starts_with("switchboard up --store 'postgres://me@h/d' --data-dir 'd'"),
            "{next}"
        );
    }

    #[test]
    fn an_address_that_nobody_understands_is_told() {
        let given = args("--to mysql://h/d");
        let said = given
            .config(Some(&given.to), None, Path::new("/here"))
            .unwrap_err();
        assert!(said.to_string().contains("postgres://"), "{said}");
    }
}
