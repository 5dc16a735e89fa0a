//! Measures the hub beside the raw ceilings of the same machine, in one run.
//!
//! It knows the hub only from outside: a binary, its HTTP interface, and what the system says about the process. README.md
//! beside this package says what each row means.

mod aims;
mod answers;
mod batch;
mod bus;
mod connection;
mod cpu;
mod doors;
mod echo;
mod growth;
mod histogram;
mod http;
mod hub_process;
mod idle;
mod load;
mod operations;
mod postgres;
mod preload;
mod redis;
mod report;
mod scripts;
mod settings;
mod sqlite_ceiling;
mod table;

use std::fmt::Arguments as Words;
use std::path::Path;

use anyhow::Context as _;
use clap::Parser as _;

use crate::report::{Machine, Report};
use crate::settings::{Arguments, ChildCommand, Part, Settings};

/// The hub's allocator, so that the echo stands on the same ground.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.child {
        Some(ChildCommand::ServeEcho) => return echo::serve(),
        Some(ChildCommand::ServeLines { bare }) => return bus::lines::serve(bare),
        None => {}
    }
    let settings = Settings::new(&arguments)?;
    let mut report = Report {
        machine: Machine::here(settings.rounds, settings.hub_for.as_secs_f64()),
        ..Report::default()
    };
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wanted(Part::Ceilings) {
        measure_ceilings(&settings, &mut report)?;
    }
    if wanted(Part::Batch) {
        measure_redis(&settings, &mut report)?;
    }
    let hub_parts = [
        Part::Operations,
        Part::Batch,
        Part::Growth,
        Part::Idle,
        Part::Doors,
        Part::Bus,
        Part::Postgres,
    ];
    if hub_parts.into_iter().any(wanted) {
        match hub_process::find_binary(arguments.hub.clone()) {
            Ok(binary) => {
                for part in hub_parts.into_iter().filter(|&part| wanted(part)) {
                    measure_hub(&settings, &binary, part, &mut report);
                }
            }
            Err(error) => report.notes.push(format!("the hub was skipped: {error:#}")),
        }
    }
    report.aims = aims::judge(&report);
    if arguments.json {
        let json = serde_json::to_string_pretty(&report).context("cannot print the report")?;
        println!("{json}");
    } else {
        print!("{}", table::render(&report));
    }
    Ok(())
}

/// Says on stderr what is going on.
fn progress(words: Words<'_>) {
    eprintln!("bench: {words}");
}

fn measure_ceilings(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    report.echo = operations::measure_echo(settings)?;
    let home = settings.new_home()?;
    progress(format_args!("the disk's sync"));
    let sync = sqlite_ceiling::measure_sync(home.path(), settings.ceiling_for)?;
    report.sync = Some(sync);
    progress(format_args!("SQLite group commit"));
    report.sqlite = sqlite_ceiling::measure(home.path(), settings.ceiling_for)?;
    Ok(())
}

fn measure_redis(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if redis::is_installed() {
        report.redis = Some(redis::measure(settings)?);
    } else {
        let note = "Redis was skipped: there is no redis-server on the PATH";
        report.notes.push(note.to_owned());
    }
    Ok(())
}

/// Measures one part; a failure becomes a note, so that it does not take the other parts with it.
fn measure_hub(settings: &Settings, binary: &Path, part: Part, report: &mut Report) {
    let measured = match part {
        Part::Ceilings => Ok(()),
        Part::Operations => {
            operations::measure(settings, binary).map(|rows| report.operations = rows)
        }
        Part::Batch => batch::measure(settings, binary).map(|rows| report.batch = rows),
        Part::Growth => growth::measure(settings, binary).map(|(growth, starts)| {
            report.growth = growth;
            report.starts = starts;
        }),
        Part::Idle => idle::measure(settings, binary).map(|row| report.idle = Some(row)),
        Part::Doors => {
            report.doors = Some(doors::measure(settings, binary, &mut report.notes));
            Ok(())
        }
        Part::Bus => {
            report.bus = Some(bus::measure(settings, binary, &mut report.notes));
            Ok(())
        }
        Part::Postgres => {
            report.postgres = postgres::measure(settings, binary, &mut report.notes);
            Ok(())
        }
    };
    if let Err(error) = measured {
        let name = clap::ValueEnum::to_possible_value(&part);
        let name = name.map_or(String::new(), |value| value.get_name().to_owned());
        progress(format_args!("{name} failed: {error:#}"));
        report.notes.push(format!("{name} failed: {error:#}"));
    }
}
