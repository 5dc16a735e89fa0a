//! What nodes are meant to reach.

use super::flow::HUBS;
use crate::aims::{Aim, at_least, at_most};
use crate::report::RuntimeReport;

const RATE_RATIO: f64 = 0.5;
const LAG_MS_MAX: f64 = 100.0;
const CATCH_UP_RATIO: f64 = 0.7;
const MEMORY_RATIO_MAX: f64 = 1.3;
const SUBSCRIBERS_CPU_PERCENT_MAX: f64 = 1.0;
const BESIDE_RATIO: f64 = 0.97;

/// Judges what was measured between nodes.
pub fn judge(report: Option<&RuntimeReport>, aims: &mut Vec<Aim>) {
    let name = |what: &str| format!("runtime: {what}");
    let least = |what, least, unit, measured| at_least(name(what), least, unit, measured);
    let most = |what, most, unit, measured| at_most(name(what), most, unit, measured);
    let flow = report.and_then(|report| report.flow.iter().find(|row| row.of == HUBS));
    let lag = report.and_then(|report| report.lag.first());
    let caught_up = report.and_then(|report| report.catch_up.as_ref());
    let idle = report.and_then(|report| report.subscribers.as_ref());
    let claims = report.and_then(|report| report.claims.as_ref());
    aims.extend([
        least(
            "published to taken in, events/s",
            RATE_RATIO,
            "of a bare copy's",
            flow.map(|row| row.to_bare),
        ),
        most(
            "lag at 1,000 events/s, p99",
            LAG_MS_MAX,
            "ms",
            lag.map(|row| row.p99_ms),
        ),
        least(
            "catching up, events/s",
            CATCH_UP_RATIO,
            "of the steady rate",
            caught_up.and_then(|row| row.to_steady),
        ),
        most(
            "catching up, memory",
            MEMORY_RATIO_MAX,
            "x that after a tenth",
            caught_up.map(|row| row.memory_ratio),
        ),
        most(
            "CPU, 100 nodes that wait",
            SUBSCRIBERS_CPU_PERCENT_MAX,
            "% of a core",
            idle.map(|row| row.cpu_percent),
        ),
        least(
            "claim+complete beside an idle node",
            BESIDE_RATIO,
            "of that alone",
            claims.map(|row| row.ratio),
        ),
    ]);
}
