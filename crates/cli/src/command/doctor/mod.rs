//! `switchboard doctor`: looks at everything a hub needs, and says what to do about what is wrong.

mod files;
mod hub;

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_hub::config::StoreAt;

use crate::context::Context;
use crate::failure::Failure;
use crate::project;
use crate::screen::{Table, Tone, cell, toned};

/// Check this project's hub, ledger and configuration
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Every line says ok, warn or fail, and what to do. The exit code is 1 if something fails.

Examples:
  switchboard doctor
  switchboard doctor --json | jq '.checks[] | select(.state != \"ok\")'")]
pub struct Args {}

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

pub async fn run(_: Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = project::data_dir(&context.here);
    let mut checks = files::config(&context.here);
    checks.push(files::data_dir(&data_dir));
    match project::ledger(&context.here) {
        StoreAt::Sqlite(file) => checks.extend(files::ledger(&file)),
        StoreAt::Postgres(url) => checks.push(Check::ok("ledger", format!("is at {url:?}"))),
    }
    checks.extend(files::swarm_db(&context.here));
    checks.push(files::key(&data_dir));
    checks.extend(hub::checks(context).await);
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
        1 => Err(Failure::Failed("1 check failed".to_owned())),
        many => Err(Failure::Failed(format!("{many} checks failed"))),
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
