//! Measures the hub beside the raw ceilings of the same machine, in one run.
//!
//! It knows the hub only from outside: a binary, its HTTP interface, and what the system says about the process. README.md
//! beside this package says what each row means.

mod agents;
mod aims;
mod answers;
mod batch;
mod broker;
mod bus;
mod connection;
mod cpu;
mod doors;
mod echo;
mod external;
mod ground;
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
mod runtime;
mod scripts;
mod settings;
mod table;

use std::fmt::Arguments as Words;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::Context as _;
use clap::{Parser as _, ValueEnum as _};

use crate::report::{Machine, Report};
use crate::settings::{Arguments, ChildCommand, Part, Settings};

/// The hub's allocator, so that the echo stands on the same ground.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match arguments.child {
        Some(ChildCommand::ServeEcho) => return echo::serve(),
        Some(ChildCommand::ServeLines) => return bus::lines::serve(),
        Some(ChildCommand::ServeSockets { file }) => return broker::bare::serve(&file),
        Some(ChildCommand::ServePages { directory }) => return runtime::bare::serve(&directory),
        Some(ChildCommand::Claim {
            agent,
            seconds,
            file,
        }) => return doors::claims::run(&agent, seconds, &file),
        None => {}
    }
    let settings = Settings::new(&arguments)?;
    let mut report = Report {
        machine: Machine::here(settings.rounds, settings.hub_for.as_secs_f64()),
        ..Report::default()
    };
    let wanted = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wanted(Part::Batch) {
        measure_redis(&settings, &mut report)?;
    }
    let binary = hub_process::find_binary(arguments.hub.clone())?;
    for &part in Part::value_variants().iter().filter(|part| wanted(**part)) {
        measure_hub(&settings, &binary, part, &mut report);
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

/// Does one thing; what fails becomes a note and takes nothing else with it. The cluster's crate panics with the server's words.
fn attempt(name: &str, notes: &mut Vec<String>, thing: impl FnOnce() -> anyhow::Result<()>) {
    let done = catch_unwind(AssertUnwindSafe(thing));
    let done = done.unwrap_or_else(|panic| match panic.downcast::<String>() {
        Ok(words) => Err(anyhow::anyhow!(words)),
        Err(_) => Err(anyhow::anyhow!("it panicked")),
    });
    if let Err(error) = done {
        note(notes, format!("{name} WAS LEFT OUT: {error:#}"));
    }
}

fn note(notes: &mut Vec<String>, words: String) {
    progress(format_args!("{words}"));
    notes.push(words);
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

/// Measures one part.
fn measure_hub(settings: &Settings, binary: &Path, part: Part, report: &mut Report) {
    let name = part.to_possible_value();
    let name = name.map_or(String::new(), |value| value.get_name().to_owned());
    let mut notes = std::mem::take(&mut report.notes);
    let mut inner = Vec::new();
    attempt(&name, &mut notes, || {
        match part {
            Part::Operations => report.operations = operations::measure(settings, binary)?,
            Part::Batch => report.batch = batch::measure(settings, binary)?,
            Part::Growth => (report.growth, report.starts) = growth::measure(settings, binary)?,
            Part::Agents => report.agents = Some(agents::measure(settings, binary)?),
            Part::Idle => report.idle = Some(idle::measure(settings, binary)?),
            Part::Doors => report.doors = Some(doors::measure(settings, binary, &mut inner)),
            Part::Bus => report.bus = Some(bus::measure(settings, binary, &mut inner)),
            Part::Broker => report.broker = Some(broker::measure(settings, binary, &mut inner)),
            Part::External => report.external = Some(external::measure(settings, binary)?),
            Part::Runtime => report.runtime = Some(runtime::measure(settings, binary, &mut inner)),
            Part::Postgres => report.postgres = postgres::measure(settings, binary, &mut inner),
        }
        Ok(())
    });
    notes.append(&mut inner);
    report.notes = notes;
}
