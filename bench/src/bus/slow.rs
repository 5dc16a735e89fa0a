//! An operator that stops reading: what it costs the workers and the hub's memory, and that it is dropped.
//!
//! Workers send as fast as they can, beside nobody, beside an operator that reads everything, and beside one that reads nothing and
//! comes back whenever it was dropped. Each is measured on the way there and on the way back, so that a hub that grows or slows down
//! by itself is not taken for the operator's doing.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use memchr::memchr_iter;

use super::frames::operator_hello;
use super::ground::{Ground, Place};
use super::link::Link;
use super::rows::{BusReport, SlowRow};
use super::stream::{self, Server, Streamed};
use crate::hub_process::Hub;
use crate::load::Plan;
use crate::report::median;

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
    Nobody,
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
        run(Beside::Nobody)?,
        run(Beside::Reader)?,
        run(Beside::Stalled)?,
        run(Beside::Reader)?,
        run(Beside::Nobody)?,
    ];
    let [
        alone_before,
        reader_before,
        stalled,
        reader_after,
        alone_after,
    ] = &way;
    let mean = |one: &Sample, other: &Sample| (one.per_s + other.per_s) / 2.0;
    let beside_reader_per_s = mean(reader_before, reader_after);
    report.slow = Some(SlowRow {
        connections,
        alone_per_s: mean(alone_before, alone_after),
        beside_reader_per_s,
        beside_stalled_per_s: stalled.per_s,
        seen_per_s: (reader_before.seen_per_s + reader_after.seen_per_s) / 2.0,
        ratio: stalled.per_s / beside_reader_per_s,
        reader_peak_mb: reader_before.peak_mb.max(reader_after.peak_mb),
        stalled_peak_mb: stalled.peak_mb,
        dropped: stalled.dropped,
        dropped_after_ms: stalled.dropped_after.map(|after| after.as_secs_f64() * 1e3),
        others_percent: way.iter().map(|sample| sample.others).fold(0.0, f64::max),
    });
    Ok(())
}

struct Sample {
    per_s: f64,
    peak_mb: f64,
    /// By the hub's own count.
    dropped: u64,
    /// From the operator's welcome to the first drop that it noticed.
    dropped_after: Option<Duration>,
    /// Lines that an operator got which reads.
    seen_per_s: f64,
    others: f64,
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
                Beside::Nobody | Beside::Reader => run().map(|streamed| vec![streamed]),
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
        let (streamed, watched) = (streamed?, watched?);
        Ok(Self {
            per_s: median(streamed.iter().map(Streamed::per_second)),
            peak_mb: peak_mb?,
            dropped: dropped as u64,
            dropped_after: watched.dropped_after,
            seen_per_s: watched.seen_per_s,
            others: streamed
                .iter()
                .map(|run| run.cpu.others)
                .fold(0.0, f64::max),
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

/// What an operator saw.
#[derive(Default)]
struct Watched {
    dropped_after: Option<Duration>,
    seen_per_s: f64,
}

/// The operator's thread.
fn watch(bus: SocketAddr, beside: Beside, over: &AtomicBool) -> anyhow::Result<Watched> {
    match beside {
        Beside::Nobody => Ok(Watched::default()),
        Beside::Reader => read_all(bus, over),
        Beside::Stalled => stall(bus, over),
    }
}

fn read_all(bus: SocketAddr, over: &AtomicBool) -> anyhow::Result<Watched> {
    let link = Link::enter(bus, &operator_hello("reader"))?;
    let (mut stream, _) = link.into_parts();
    let mut buffer = vec![0; READ_BYTES];
    let began_at = Instant::now();
    let mut lines = 0;
    while !over.load(Ordering::Relaxed) {
        // Snapshots come every second as long as anything happens.
        let count = stream.read(&mut buffer);
        let count = count.context("an operator that reads hears nothing")?;
        anyhow::ensure!(count > 0, "the hub dropped an operator that reads");
        lines += memchr_iter(b'\n', &buffer[..count]).count();
    }
    Ok(Watched {
        seen_per_s: lines as f64 / began_at.elapsed().as_secs_f64(),
        ..Watched::default()
    })
}

/// Reads its welcome and nothing after it; an empty line now and then is no message, but fails once the hub has closed the connection.
fn stall(bus: SocketAddr, over: &AtomicBool) -> anyhow::Result<Watched> {
    let mut watched = Watched::default();
    while !over.load(Ordering::Relaxed) {
        let mut link = Link::enter(bus, &operator_hello("stalled"))?;
        let began_at = Instant::now();
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            if link.say(b"\n").is_err() {
                let after = began_at.elapsed();
                watched.dropped_after.get_or_insert(after);
                break;
            }
        }
    }
    Ok(watched)
}
