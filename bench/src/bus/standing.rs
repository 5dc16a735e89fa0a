//! What connected workers cost that beat at their usual pace: memory of each, CPU of all.

use std::time::{Duration, Instant};

use super::crowd::Crowd;
use super::descriptors;
use super::frames::Manner;
use crate::cpu::Meter;
use crate::ground::Ground;
use crate::report::{BusReport, StandingRow};

/// The first round, in which everybody beats once before anything is measured.
const FIRST_ROUND_MAX: Duration = Duration::from_secs(5);

/// Workers that nobody gives a task to.
pub fn measure_reporting(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    report.standing.push(measure(ground, Manner::Reports)?);
    Ok(())
}

/// Workers that stand in the queue for tasks, of which there are none.
pub fn measure_waiting(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    report.standing.push(measure(ground, Manner::Waits)?);
    Ok(())
}

fn measure(ground: &Ground<'_>, manner: Manner) -> anyhow::Result<StandingRow> {
    let scale = ground.scale();
    let workers = scale.workers;
    crate::progress(format_args!(
        "bus: {workers} workers that {}",
        manner.name()
    ));
    descriptors::make_room(workers)?;
    let place = ground.new_hub()?;
    let hub = &place.hub;
    hub.settle()?;
    let fresh_mb = hub.resident_mb()?;
    let mut crowd = Crowd::connect(place.bus, manner, workers, Instant::now())?;
    crowd.beat_for(scale.beat_every, scale.beat_every.min(FIRST_ROUND_MAX));

    let meter = Meter::begin(vec![hub.pid()], None)?;
    crowd.beat_for(scale.beat_every, scale.beat_for);
    let cpu = meter.end()?;
    let beating_mb = hub.resident_mb()?;
    let connected = hub.metric("bus_workers")? as usize;

    let mut errors_told = crowd.errors_told;
    if connected != workers {
        errors_told.push(format!(
            "the hub counts {connected} connected workers at the end, not {workers}"
        ));
    }
    Ok(StandingRow {
        workers_that: manner.name().to_owned(),
        workers,
        fresh_mb,
        beating_mb,
        kb_per_connection: (beating_mb - fresh_mb) * 1e3 / workers as f64,
        cpu,
        lost: crowd.lost,
        errors_told,
    })
}
