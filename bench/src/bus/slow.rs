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

use super::frames::operator_hello;
use super::ground::{Ground, Place};
use super::link::Link;
use super::meter::Meter;
use super::rows::{BusReport, SlowRow};
use super::stream::{self, Server};
use crate::hub_process::Hub;
use crate::load::Plan;

/// How often the hub is weighed.
const WEIGH_EVERY: Duration = Duration::from_millis(50);
/// How often the one that does not read looks whether it is still connected.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 64 * 1024;

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
    stream::run(server, connections, warm_up)?;
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
        ratio: stalled.per_s / beside_reader_per_s,
        reader_peak_mb: reader_before.peak_mb,
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
    /// From the operator's hello to the first drop that it noticed.
    dropped_after: Option<Duration>,
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
        let meter = Meter::begin(place.hub.pid())?;
        let over = AtomicBool::new(false);
        let (streamed, watched, peak_mb) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch(place.bus, beside, &over));
            let weighing = scope.spawn(|| weigh(&place.hub, &over));
            let streamed = stream::run(Server::Hub(place.bus), connections, plan);
            over.store(true, Ordering::Relaxed);
            (
                streamed,
                watching.join().expect("the operator does not panic"),
                weighing.join().expect("the scales do not panic"),
            )
        });
        let others = meter.end()?.others;
        let dropped = place.hub.metric("bus_slow_total")? - dropped_before;
        Ok(Self {
            per_s: streamed?.per_second(),
            peak_mb: peak_mb?,
            dropped: dropped as u64,
            dropped_after: watched?,
            others,
        })
    }
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

/// The operator's thread; returns when it was dropped first.
fn watch(bus: SocketAddr, beside: Beside, over: &AtomicBool) -> anyhow::Result<Option<Duration>> {
    match beside {
        Beside::Nobody => Ok(None),
        Beside::Reader => read_all(bus, over).map(|()| None),
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

/// Never reads; an empty line now and then is no message, but fails once the hub has closed the connection.
fn stall(bus: SocketAddr, over: &AtomicBool) -> anyhow::Result<Option<Duration>> {
    let mut dropped_after = None;
    while !over.load(Ordering::Relaxed) {
        let mut link = Link::greet(bus, &operator_hello("stalled"))?;
        let began_at = Instant::now();
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            if link.say(b"\n").is_err() {
                dropped_after.get_or_insert(began_at.elapsed());
                break;
            }
        }
    }
    Ok(dropped_after)
}
