//! An operator that stops reading: what it costs the workers and the hub's memory, and that it is dropped.
//!
//! Workers send as fast as they can, beside an operator that reads everything, beside one that reads nothing and comes back whenever
//! it was dropped, and beside the first one again, so that a hub that grows or slows down by itself is not taken for the operator's
//! doing.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;

use super::frames::operator_hello;
use super::link::Link;
use super::stream::{self, Server, Streamed};
use crate::ground::{Ground, Place};
use crate::hub_process::Hub;
use crate::load::Plan;
use crate::report::{BusReport, SlowRow, median};

/// How often the hub is weighed.
const WEIGH_EVERY: Duration = Duration::from_millis(50);
/// How often the one that does not read looks whether it is still connected.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 64 * 1024;
/// Runs in which the one that does not read has to be dropped.
const STALLED_RUNS_MAX: usize = 8;

/// Who watches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Reader,
    Stalled,
}

pub fn measure(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    crate::progress(format_args!("bus: beside an operator that does not read"));
    let place = ground.new_hub()?;
    let connections = ground.scale().connections;
    let plan = ground.settings.plan(ground.scale().slow_for);
    let warm_up = Plan {
        measure_for: ground.settings.warm_up_for,
        ..plan
    };
    let server = Server::Hub(place.bus);
    stream::run(server, place.hub.pid(), connections, warm_up)?;
    let run = |beside| Sample::measure(&place, beside, connections, plan);
    let way = [
        run(Beside::Reader)?,
        run(Beside::Stalled)?,
        run(Beside::Reader)?,
    ];
    let [reader_before, stalled, reader_after] = &way;
    let mean = |one: &Sample, other: &Sample| (one.per_s + other.per_s) / 2.0;
    let beside_reader_per_s = mean(reader_before, reader_after);
    report.slow = Some(SlowRow {
        connections,
        beside_reader_per_s,
        beside_stalled_per_s: stalled.per_s,
        ratio: stalled.per_s / beside_reader_per_s,
        reader_peak_mb: reader_before.peak_mb.max(reader_after.peak_mb),
        stalled_peak_mb: stalled.peak_mb,
        dropped: stalled.dropped,
    });
    Ok(())
}

struct Sample {
    per_s: f64,
    peak_mb: f64,
    /// By the hub's own count.
    dropped: u64,
}

impl Sample {
    fn measure(
        place: &Place,
        beside: Beside,
        connections: usize,
        plan: Plan,
    ) -> anyhow::Result<Self> {
        place.hub.settle()?;
        let dropped_before = place.hub.metric("bus_slow_total")?;
        let over = AtomicBool::new(false);
        let (streamed, watched, peak_mb) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch(place.bus, beside, &over));
            let weighing = scope.spawn(|| weigh(&place.hub, &over));
            let run = || {
                let server = Server::Hub(place.bus);
                stream::run(server, place.hub.pid(), connections, plan)
            };
            let streamed = match beside {
                Beside::Reader => run().map(|streamed| vec![streamed]),
                Beside::Stalled => until_dropped(&place.hub, dropped_before, run),
            };
            over.store(true, Ordering::Relaxed);
            (
                streamed,
                watching.join().expect("the operator does not panic"),
                weighing.join().expect("the scales do not panic"),
            )
        });
        let dropped = place.hub.metric("bus_slow_total")? - dropped_before;
        watched?;
        let streamed = streamed?;
        Ok(Self {
            per_s: median(streamed.iter().map(Streamed::per_second)),
            peak_mb: peak_mb?,
            dropped: dropped as u64,
        })
    }
}

/// Runs again until the operator is dropped: buffers of the system may hold a lot for it first.
fn until_dropped(
    hub: &Hub,
    before: f64,
    run: impl Fn() -> anyhow::Result<Streamed>,
) -> anyhow::Result<Vec<Streamed>> {
    let mut runs = vec![run()?];
    while hub.metric("bus_slow_total")? <= before && runs.len() < STALLED_RUNS_MAX {
        runs.push(run()?);
    }
    Ok(runs)
}

/// The most memory that the hub had.
fn weigh(hub: &Hub, over: &AtomicBool) -> anyhow::Result<f64> {
    let mut peak_mb = hub.resident_mb()?;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(WEIGH_EVERY);
        peak_mb = peak_mb.max(hub.resident_mb()?);
    }
    Ok(peak_mb)
}

/// The operator's thread.
fn watch(bus: SocketAddr, beside: Beside, over: &AtomicBool) -> anyhow::Result<()> {
    match beside {
        Beside::Reader => read_all(bus, over),
        Beside::Stalled => stall(bus, over),
    }
}

fn read_all(bus: SocketAddr, over: &AtomicBool) -> anyhow::Result<()> {
    let link = Link::enter(bus, &operator_hello("reader"))?;
    let (mut stream, _) = link.into_parts();
    let mut buffer = vec![0; READ_BYTES];
    while !over.load(Ordering::Relaxed) {
        // Snapshots come every second as long as anything happens.
        let count = stream.read(&mut buffer);
        let count = count.context("an operator that reads hears nothing")?;
        anyhow::ensure!(count > 0, "the hub dropped an operator that reads");
    }
    Ok(())
}

/// Reads its welcome and nothing after it; an empty line now and then is no message, but fails once the hub has closed the connection.
fn stall(bus: SocketAddr, over: &AtomicBool) -> anyhow::Result<()> {
    while !over.load(Ordering::Relaxed) {
        let mut link = Link::enter(bus, &operator_hello("stalled"))?;
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            if link.say(b"\n").is_err() {
                break;
            }
        }
    }
    Ok(())
}
