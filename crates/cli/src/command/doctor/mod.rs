//! `switchboard doctor`: looks at everything a hub needs, and says what to do about what is wrong.
//!
//! One file per subject; each returns its lines, and `run` puts them together. Nothing is changed by a look: no file is
//! made or written, also where no hub runs, and where the directory could not be written to anyway.

mod config;
mod data_dir;
mod git;
mod hub;
mod key;
mod ledger;
mod link;
mod log;
mod tasks;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_hub::config::{Config, Overrides, StoreAt};
use switchboard_hub::data_dir::Holder;

use crate::context::Context;
use crate::discover::Found;
use crate::failure::Failure;
use crate::project;
use crate::screen::{Table, Tone, cell, toned};

/// Check this project's hub, ledger and configuration
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Checks whether 'switchboard up' would start (settings, permissions, key, schema, a ledger that was
moved), the store that the running hub serves, ready tasks that no online agent can take,
.jetpack/swarm.db, and whether git would commit files of the hub. It changes nothing.
Every line says ok, warn or fail, and what to do. The exit code is 1 if a check fails.

Examples:
  switchboard doctor
  switchboard doctor --deep
  switchboard doctor --json | jq '.checks[] | select(.state != \"ok\")'")]
pub struct Args {
    /// Also replay the event log against every task, and compare every index with its table
    #[arg(long)]
    deep: bool,
}

/// What one look found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub text: String,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    Warn,
    Fail,
}

/// What there is to look at.
pub struct Scene {
    pub here: PathBuf,
    /// The settings, if they can be understood.
    pub config: Option<Config>,
    pub data_dir: PathBuf,
    /// The hub that is found from here, running or not.
    pub found: Found,
    /// Whoever has the data directory for itself: a hub runs, or begins or ends just now.
    pub holder: Option<Holder>,
    /// What is served, or would be.
    pub store: StoreAt,
}

impl Scene {
    fn new(context: &Context) -> Scene {
        let here = context.here.clone();
        let loaded = project::load(&here, None, Overrides::default());
        let data_dir = context.data_dir();
        Scene {
            config: loaded.ok().map(|loaded| loaded.config),
            holder: Holder::of(&data_dir),
            store: context.ledger(),
            here,
            data_dir,
            found: context.find(),
        }
    }

    /// The directory that the hub is for.
    fn project(&self) -> PathBuf {
        match &self.config {
            Some(config) => config.project.clone(),
            None => project::around(&self.here),
        }
    }
}

impl Check {
    pub fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            text: text.into(),
        }
    }

    pub fn warn(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Warn,
            text: text.into(),
        }
    }

    pub fn fail(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Fail,
            text: text.into(),
        }
    }
}

#[derive(Serialize)]
struct Report {
    success: bool,
    checks: Vec<Check>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let scene = Scene::new(context);
    let mut checks = config::checks(&scene.here);
    checks.extend(data_dir::checks(&scene));
    checks.extend(ledger::checks(&scene, args.deep).await);
    checks.extend(log::checks(&scene, args.deep).await);
    checks.extend(link::check(&scene));
    checks.extend(key::checks(&scene.data_dir));
    checks.extend(git::check(&scene));
    checks.extend(hub::checks(context, &scene).await);
    let failed = checks
        .iter()
        .filter(|check| check.state == State::Fail)
        .count();
    let report = Report {
        success: failed == 0,
        checks,
    };
    let screen = &mut context.screen;
    if screen.json() {
        screen.value(&report)?;
    } else {
        screen.table(&table(&report.checks))?;
    }
    match failed {
        0 => Ok(()),
        many => Err(Failure::Unhealthy(many)),
    }
}

fn table(checks: &[Check]) -> Table {
    let mut table = Table::facts();
    for check in checks {
        let state = match check.state {
            State::Ok => toned("ok", Tone::Good),
            State::Warn => toned("warn", Tone::Warn),
            State::Fail => toned("fail", Tone::Bad),
        };
        table.row([state, cell(check.name), cell(&check.text)]);
    }
    table
}
