//! What the bus is meant to reach.

use super::frames::Manner;
use super::rates::HUB;
use crate::aims::{Aim, at_least, at_most};
use crate::report::BusReport;

/// Fewer workers share what a hub needs for any number of them, and are not judged.
const JUDGED_WORKERS: usize = 10_000;
const JUDGED_SCREEN_WORKERS: usize = 1_000;
const CONNECTION_KB_MAX: f64 = 20.0;
const ECHO_RATIO: f64 = 0.5;
const SCREEN_MS_MAX: f64 = 50.0;
/// What two runs of the same kind may differ by.
const STALLED_RATIO: f64 = 0.9;
/// An operator may leave 1 MiB unread; the rest is what the hub needs to notice and to let it in again.
const STALLED_MB_MAX: f64 = 8.0;

/// Judges what was measured of the bus.
pub fn judge(report: Option<&BusReport>, aims: &mut Vec<Aim>) {
    for manner in [Manner::Reports, Manner::Waits] {
        let rows = report.map_or(&[][..], |report| &report.standing);
        let row = rows.iter().find(|row| row.workers_that == manner.name());
        let name = format!("bus: memory a connection, workers that {}", manner.name());
        // A connection that was lost weighs nothing.
        let measured = row.filter(|row| row.lost == 0 && row.workers >= JUDGED_WORKERS);
        let measured = measured.map(|row| row.kb_per_connection);
        aims.push(at_most(name, CONNECTION_KB_MAX, "KB", measured));
    }
    let rates = report.map_or(&[][..], |report| &report.rates);
    let hub = rates.iter().find(|row| row.server == HUB);
    let name = "bus: heartbeats/s".to_owned();
    let measured = hub.and_then(|row| row.to_echo);
    aims.push(at_least(name, ECHO_RATIO, "of the echo's", measured));

    let screen = report.map_or(&[][..], |report| &report.screen);
    let judged = screen
        .iter()
        .filter(|row| row.workers >= JUDGED_SCREEN_WORKERS);
    let slowest = judged.map(|row| row.p99_ms).reduce(f64::max);
    let name = "bus: heartbeat to its operator, p99".to_owned();
    aims.push(at_most(name, SCREEN_MS_MAX, "ms", slowest));

    let slow = report.and_then(|report| report.slow.as_ref());
    let name = "bus: heartbeats/s beside an operator that does not read".to_owned();
    let ratio = slow.map(|row| row.ratio);
    let unit = "of those beside one that reads";
    aims.push(at_least(name, STALLED_RATIO, unit, ratio));
    let name = "bus: memory beside an operator that does not read".to_owned();
    let grown = slow.map(|row| row.stalled_peak_mb - row.reader_peak_mb);
    let unit = "MB more than beside one that reads";
    aims.push(at_most(name, STALLED_MB_MAX, unit, grown));
    let name = "bus: an operator that does not read is dropped".to_owned();
    let dropped = slow.map(|row| row.dropped as f64);
    aims.push(at_least(name, 1.0, "times", dropped));
}
