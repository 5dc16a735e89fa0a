//! From a write by hand to its event on the stream.
//!
//! A round begins when the statement has returned, so its row is committed, and ends when the event has arrived. Between two rounds
//! the bench waits a little, each time differently, so that every moment between two looks of the hub is met.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rusqlite::Connection as Database;

use super::ground::{CONNECTIONS, open, prepare, register_by_sql, run_http, tasks_per_run};
use super::pause;
use super::statements::{CLAIM, COMPLETE, CREATE, Values, bound, rows_of};
use crate::connection::Connection;
use crate::ground::{Ground, Place};
use crate::histogram::Histogram;
use crate::http::Requests;
use crate::report::{DoorsReport, WaitRow};

const AGENT: &str = "by-hand";

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    crate::progress(format_args!("doors: from hand writes to events"));
    let place = ground.new_hub()?;
    register_by_sql(&place, AGENT)?;
    report.hand_events = quiet(ground, &place)?;
    crate::progress(format_args!(
        "doors: from hand writes to events, under load"
    ));
    report.hand_events.push(under_load(ground, &place)?);
    Ok(())
}

/// A task's whole life by hand, with nobody else at work.
fn quiet(ground: &Ground<'_>, place: &Place) -> anyhow::Result<Vec<WaitRow>> {
    let mut hand = Hand::open(place, "")?;
    let steps = [
        ("task inserted", *CREATE),
        ("task claimed", *CLAIM),
        ("task completed", *COMPLETE),
    ];
    let mut waits = steps.map(|_| Histogram::default());
    for round in 0..ground.settings.wakeups {
        let task = format!("by-hand-{round}");
        for (step, ((of, sql), waited)) in (0..).zip(steps.iter().zip(&mut waits)) {
            pause(round * 3 + step);
            let took = hand.write(sql, &task);
            waited.record(took.with_context(|| format!("{of}, round {round}"))?);
        }
    }
    let rows = steps.iter().zip(&waits);
    Ok(rows
        .map(|((of, _), waited)| WaitRow::new(of, waited))
        .collect())
}

/// Inserts while the hub is kept busy over HTTP. The stream shows nothing but new tasks, so that the bench can keep up with it.
fn under_load(ground: &Ground<'_>, place: &Place) -> anyhow::Result<WaitRow> {
    let hub = &place.hub;
    let mut waited = Histogram::default();
    let mut run = 0;
    while waited.total() < ground.settings.wakeups {
        prepare(place, tasks_per_run(ground))?;
        let mut hand = Hand::open(place, "?types=task_created")?;
        let before = waited.total();
        std::thread::scope(|scope| {
            let name = format!("busy-{run}");
            let load = scope.spawn(move || run_http(ground.settings, hub, &name));
            while !load.is_finished() {
                let round = waited.total();
                pause(round);
                let took = hand.write(&CREATE, &format!("meanwhile-{run}-{round}"))?;
                if !load.is_finished() {
                    waited.record(took);
                }
            }
            load.join().expect("the load's thread does not panic")
        })?;
        ensure!(waited.total() > before, "no round fell into the load");
        run += 1;
    }
    let of = format!("task inserted, {CONNECTIONS} connections claim and complete");
    Ok(WaitRow::new(&of, &waited))
}

/// One who writes into the file and reads the stream of events.
struct Hand {
    database: Database,
    stream: Connection,
}

impl Hand {
    fn open(place: &Place, query: &str) -> anyhow::Result<Self> {
        let server = place.hub.server;
        let mut stream = Connection::open(server)?;
        let mut request = Vec::new();
        let path = format_args!("/api/v1/events{query}");
        Requests::new(server).stream(&mut request, path);
        stream.send(&request)?;
        // Its first sign of life: it has begun to look.
        stream.read_past(": still here\n\n")?;
        Ok(Self {
            database: open(&place.file())?,
            stream,
        })
    }

    fn write(&mut self, sql: &str, task: &str) -> anyhow::Result<Duration> {
        // Nobody claims a task twice here.
        let values = Values {
            agent: AGENT,
            task,
            epoch: 1,
        };
        rows_of(bound(&self.database, sql, values)?)?;
        let written_at = Instant::now();
        // Each event names its task once.
        self.stream.read_past(&format!(r#""task":"{task}""#))?;
        Ok(written_at.elapsed())
    }
}
