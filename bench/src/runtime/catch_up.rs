//! A node that was away takes in what waits for it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::flow::{CONNECTIONS, HUBS};
use super::nodes::{Pair, Publish, taken_in};
use crate::ground::Ground;
use crate::hub_process::Hub;
use crate::load::{self, Plan};
use crate::report::{CatchUpRow, RuntimeReport};

const FILLED_WITHIN: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Of what waits; then buffers are as large as they should ever be.
const EARLY: f64 = 0.1;

pub fn measure(ground: &Ground<'_>, report: &mut RuntimeReport) -> anyhow::Result<()> {
    let waiting = ground.settings.waiting.last().copied().unwrap_or(0);
    let Pair { near, far } = Pair::start(ground)?;
    let before = taken_in(&far.hub)?;
    let (_, home) = far.stop()?;
    crate::progress(format_args!("runtime: publishing {waiting} events"));
    let plan = Plan {
        warm_up_for: Duration::ZERO,
        measure_for: FILLED_WITHIN,
    };
    let scripts = Publish::scripts(near.hub.server, CONNECTIONS, waiting);
    load::run(plan, near.hub.server, scripts)?;
    near.hub.settle()?;

    crate::progress(format_args!("runtime: catching up"));
    let far = Hub::start(ground.binary, home.path())?;
    let began_at = Instant::now();
    let (mut early_mb, mut peak_mb) = (None, 0.0_f64);
    let taken = |far: &Hub| anyhow::Ok(taken_in(far)?.saturating_sub(before));
    loop {
        let count = taken(&far)?;
        let resident_mb = near.hub.resident_mb()? + far.resident_mb()?;
        peak_mb = peak_mb.max(resident_mb);
        if count as f64 >= EARLY * waiting as f64 {
            early_mb.get_or_insert(resident_mb);
        }
        if count >= waiting {
            break;
        }
        ensure!(began_at.elapsed() < FILLED_WITHIN, "only {count} came");
        thread::sleep(LOOK_EVERY);
    }
    let taken_in_per_s = waiting as f64 / began_at.elapsed().as_secs_f64();
    let steady = report.flow.iter().find(|row| row.of == HUBS);
    let early_mb = early_mb.unwrap_or(peak_mb);
    report.catch_up = Some(CatchUpRow {
        waiting,
        taken_in_per_s,
        to_steady: steady.map(|row| taken_in_per_s / row.taken_in_per_s),
        early_mb,
        peak_mb,
        memory_ratio: peak_mb / early_mb,
    });
    Ok(())
}
