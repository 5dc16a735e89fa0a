//! What the hub is meant to reach, held against what was measured.

use serde::Serialize;

use crate::agents;
use crate::broker;
use crate::bus;
use crate::doors;
use crate::operations::Operation;
use crate::postgres::Word;
use crate::report::{CoordinatorsRow, PostgresReport, Report, WaitRow};
use crate::runtime;

/// The number of connections at which ratios are judged.
const JUDGED_CONNECTIONS: usize = 64;
const LARGE: u64 = 1_000_000;

const P99_RATIO_MAX: f64 = 3.0;
const BATCH_PAIRS_PER_S: f64 = 60_000.0;
const REDIS_RATIO: f64 = 2.0;
const GROWTH_RATIO_MAX: f64 = 2.0;
const IDLE_MB_MAX: f64 = 60.0;
const LARGE_MB_MAX: f64 = 150.0;
const START_S_MAX: f64 = 1.0;
const IDLE_CPU_PERCENT_MAX: f64 = 0.5;
const PGBENCH_RATIO: f64 = 3.0;
const WAKEUP_MS_MAX: f64 = 50.0;

/// One aim and how it went.
#[derive(Serialize)]
pub struct Aim {
    pub name: String,
    pub wanted: String,
    pub measured: String,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Verdict {
    #[serde(rename = "met")]
    Met,
    #[serde(rename = "MISSED")]
    Missed,
    /// A figure that other figures of the report explain or do not; no threshold decides.
    #[serde(rename = "see the CPU columns")]
    Stated,
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// Judges everything a report holds.
pub fn judge(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    speed(report, &mut aims);
    aims.push(batch(report));
    growth(report, &mut aims);
    idle(report, &mut aims);
    agents::judge(report.agents.as_ref(), &mut aims);
    doors::aims::judge(report.doors.as_ref(), &mut aims);
    bus::aims::judge(report.bus.as_ref(), &mut aims);
    broker::aims::judge(report.broker.as_ref(), &mut aims);
    external(report, &mut aims);
    runtime::aims::judge(report.runtime.as_ref(), &mut aims);
    postgres(report.postgres.as_ref(), &mut aims);
    aims
}

fn speed(report: &Report, aims: &mut Vec<Aim>) {
    let row = |operation: Operation| {
        report
            .operations
            .iter()
            .find(|row| row.connections == JUDGED_CONNECTIONS && row.operation == operation.name())
    };
    let ratios = [
        (Operation::ClaimComplete, 0.65),
        (Operation::Create, 0.7),
        (Operation::Heartbeat, 0.8),
    ];
    for (operation, least) in ratios {
        let measured = row(operation).map(|row| row.ratio);
        let name = format!("{}, requests/s at 64", operation.name());
        aims.push(at_least(name, least, "of the echo's", measured));
    }
    for operation in Operation::ALL {
        let measured = row(operation).map(|row| row.p99_ratio);
        let name = format!("{}, p99 at 64", operation.name());
        aims.push(at_most(name, P99_RATIO_MAX, "x the echo's", measured));
    }
}

fn external(report: &Report, aims: &mut Vec<Aim>) {
    let row = report.external.as_ref();
    let name = "external agents, pairs/s".to_owned();
    let measured = row.map(|row| row.to_http);
    aims.push(at_least(name, 0.5, "of those over HTTP", measured));
    let name = "others beside the audit, pairs/s".to_owned();
    let measured = row.map(|row| row.others_beside_audit);
    aims.push(at_least(name, 0.98, "of those without", measured));
}

fn batch(report: &Report) -> Aim {
    let pairs = report.batch.iter().map(|row| row.pairs_per_s);
    let best = pairs.fold(f64::NAN, f64::max);
    let to_redis = report.redis.as_ref().map(|redis| best / redis.pairs_per_s);
    let (measured, verdict) = if best.is_nan() {
        (String::new(), Verdict::NotMeasured)
    } else {
        let ratio = to_redis.map_or(String::new(), |ratio| format!(", {ratio:.2} x Redis"));
        let reached =
            best >= BATCH_PAIRS_PER_S || to_redis.is_some_and(|ratio| ratio >= REDIS_RATIO);
        (format!("{best:.0}/s{ratio}"), met_if(reached))
    };
    Aim {
        name: "batch, pairs/s".to_owned(),
        wanted: format!(">= {BATCH_PAIRS_PER_S:.0}/s or >= {REDIS_RATIO} x Redis always"),
        measured,
        verdict,
    }
}

fn growth(report: &Report, aims: &mut Vec<Aim>) {
    let large = || report.growth.iter().filter(|row| row.waiting >= LARGE);
    if large().next().is_none() {
        let name = "claim with 1M waiting, p99".to_owned();
        aims.push(at_most(name, GROWTH_RATIO_MAX, "x that with 1k", None));
    }
    for row in large() {
        let name = format!("claim with 1M waiting, p99 ({})", row.case);
        aims.push(at_most(
            name,
            GROWTH_RATIO_MAX,
            "x that with 1k",
            row.p99_ratio,
        ));
    }
    let memory = largest(large().map(|row| row.resident_mb));
    let name = "memory with 1M tasks".to_owned();
    aims.push(at_most(name, LARGE_MB_MAX, "MB", memory));
    let starts = report.starts.iter().filter(|row| row.tasks >= LARGE);
    let slowest = largest(starts.map(|row| row.after_stop_s.max(row.after_kill_s)));
    let name = "start with 1M tasks".to_owned();
    aims.push(at_most(name, START_S_MAX, "s", slowest));
}

fn idle(report: &Report, aims: &mut Vec<Aim>) {
    let idle = report.idle.as_ref();
    aims.push(at_most(
        "memory idle".to_owned(),
        IDLE_MB_MAX,
        "MB",
        idle.map(|row| row.fresh_mb),
    ));
    aims.push(at_most(
        "CPU idle, 200 waiting agents".to_owned(),
        IDLE_CPU_PERCENT_MAX,
        "% of a core",
        idle.map(|row| row.cpu_percent),
    ));
}

fn postgres(report: Option<&PostgresReport>, aims: &mut Vec<Aim>) {
    let pairs = |coordinators| {
        let judged = move |row: &&CoordinatorsRow| {
            row.operation == Operation::ClaimComplete.name()
                && row.connections == JUDGED_CONNECTIONS
                && row.coordinators == coordinators
        };
        report.and_then(|report| report.coordinators.iter().find(judged))
    };
    let beside = [
        ("pgbench's", pairs(1).and_then(|row| row.to_pgbench)),
        (
            "terse pgbench's",
            pairs(1).and_then(|row| row.to_pgbench_terse),
        ),
    ];
    for (whose, measured) in beside {
        let name = format!("PostgreSQL: claim+complete at 64, beside {whose}");
        aims.push(at_least(name, PGBENCH_RATIO, "x its pairs/s", measured));
    }
    for coordinators in [2, 3] {
        let ratio = pairs(coordinators).and_then(|row| row.to_one);
        aims.push(Aim {
            name: format!("PostgreSQL: claim+complete at 64 through {coordinators}"),
            wanted: "no loss that the cores do not explain".to_owned(),
            measured: ratio.map_or(String::new(), |ratio| format!("{ratio:.2} x through one")),
            verdict: ratio.map_or(Verdict::NotMeasured, |_| Verdict::Stated),
        });
    }
    let grown = report.map_or(&[][..], |report| &report.growth);
    let large = grown.iter().filter(|row| row.waiting >= LARGE);
    let name = "PostgreSQL: claim with 1M waiting, p99".to_owned();
    let ratio = largest(large.filter_map(|row| row.p99_ratio));
    aims.push(at_most(name, GROWTH_RATIO_MAX, "x that with 1k", ratio));
    for word in Word::ALL {
        let judged = |row: &&WaitRow| row.of.ends_with(word.name());
        let rows = report.map_or(&[][..], |report| &report.wakeups);
        let slowest = largest(rows.iter().filter(judged).map(|row| row.p99_ms));
        let name = format!(
            "PostgreSQL: wake-up across coordinators by {}, p99",
            word.name()
        );
        aims.push(at_most(name, WAKEUP_MS_MAX, "ms", slowest));
    }
}

fn largest(figures: impl Iterator<Item = f64>) -> Option<f64> {
    figures.reduce(f64::max)
}

pub fn at_least(name: String, least: f64, unit: &str, measured: Option<f64>) -> Aim {
    aim(name, format!(">= {least} {unit}"), measured, |value| {
        value >= least
    })
}

pub fn at_most(name: String, most: f64, unit: &str, measured: Option<f64>) -> Aim {
    aim(name, format!("<= {most} {unit}"), measured, |value| {
        value <= most
    })
}

fn aim(name: String, wanted: String, measured: Option<f64>, is_met: impl Fn(f64) -> bool) -> Aim {
    Aim {
        name,
        wanted,
        measured: measured.map_or(String::new(), |value| format!("{value:.2}")),
        verdict: measured.map_or(Verdict::NotMeasured, |value| met_if(is_met(value))),
    }
}

fn met_if(reached: bool) -> Verdict {
    match reached {
        true => Verdict::Met,
        false => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_neither_met_nor_missed() {
        let aims = judge(&Report::default());
        assert!(aims.iter().all(|aim| aim.verdict == Verdict::NotMeasured));
    }
}
