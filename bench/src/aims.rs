//! What the hub is meant to reach, held against what was measured.

use serde::Serialize;

use crate::bus;
use crate::doors;
use crate::operations::Operation;
use crate::postgres::rows::{CoordinatorsRow, PostgresReport, WakeupRow};
use crate::postgres::{Between, Word};
use crate::report::Report;

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
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Met,
    Missed,
    /// A figure that other figures of the report explain or do not; no threshold decides.
    Stated,
    NotMeasured,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Stated => "see the CPU columns",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Judges everything a report holds.
pub fn judge(report: &Report) -> Vec<Aim> {
    let mut aims = Vec::new();
    speed(report, &mut aims);
    aims.push(batch(report));
    growth(report, &mut aims);
    idle(report, &mut aims);
    doors::aims::judge(report.doors.as_ref(), &mut aims);
    bus::aims::judge(report.bus.as_ref(), &mut aims);
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
        let judged = |row: &&WakeupRow| {
            row.between == Between::TwoCoordinators.name() && row.word == word.name()
        };
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
    Aim {
        name,
        wanted: format!(">= {least} {unit}"),
        measured: measured.map_or(String::new(), |value| format!("{value:.2}")),
        verdict: measured.map_or(Verdict::NotMeasured, |value| met_if(value >= least)),
    }
}

pub fn at_most(name: String, most: f64, unit: &str, measured: Option<f64>) -> Aim {
    Aim {
        name,
        wanted: format!("<= {most} {unit}"),
        measured: measured.map_or(String::new(), |value| format!("{value:.2}")),
        verdict: measured.map_or(Verdict::NotMeasured, |value| met_if(value <= most)),
    }
}

fn met_if(reached: bool) -> Verdict {
    if reached {
        Verdict::Met
    } else {
        Verdict::Missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{OperationRow, RedisRow};

    fn verdict_of(report: &Report, name: &str) -> Verdict {
        let aims = judge(report);
        let aim = aims.iter().find(|aim| aim.name == name);
        aim.expect("the aim is judged").verdict
    }

    #[test]
    fn nothing_measured_is_neither_met_nor_missed() {
        let aims = judge(&Report::default());
        assert!(aims.iter().all(|aim| aim.verdict == Verdict::NotMeasured));
    }

    #[test]
    fn a_ratio_is_judged_at_sixty_four_connections_only() {
        let mut report = Report::default();
        let row = OperationRow {
            operation: Operation::Create.name().to_owned(),
            connections: 16,
            ratio: 0.9,
            ..OperationRow::default()
        };
        report.operations.push(row.clone());
        let name = "create, requests/s at 64";
        assert_eq!(verdict_of(&report, name), Verdict::NotMeasured);
        report.operations.push(OperationRow {
            connections: 64,
            ratio: 0.69,
            ..row
        });
        assert_eq!(verdict_of(&report, name), Verdict::Missed);
    }

    #[test]
    fn a_figure_that_is_no_number_meets_nothing() {
        let mut report = Report::default();
        report.operations.push(OperationRow {
            operation: Operation::Create.name().to_owned(),
            connections: 64,
            ratio: f64::NAN,
            ..OperationRow::default()
        });
        assert_eq!(
            verdict_of(&report, "create, requests/s at 64"),
            Verdict::Missed
        );
    }

    #[test]
    fn the_slowest_wake_up_across_coordinators_is_judged() {
        let row = |between: Between, p99_ms| WakeupRow {
            of: "waiting claim".to_owned(),
            between: between.name().to_owned(),
            word: Word::Polling.name().to_owned(),
            rounds: 500,
            p50_ms: 1.0,
            p99_ms,
            longest_ms: 100.0,
        };
        let mut report = Report::default();
        let wakeups = vec![
            row(Between::OneCoordinator, 70.0),
            row(Between::TwoCoordinators, 20.0),
        ];
        report.postgres = Some(PostgresReport {
            wakeups,
            ..PostgresReport::default()
        });
        let name = "PostgreSQL: wake-up across coordinators by polling, p99";
        assert_eq!(verdict_of(&report, name), Verdict::Met);
        let slow = row(Between::TwoCoordinators, 51.0);
        let measured = report.postgres.as_mut().expect("just set");
        measured.wakeups.push(slow);
        assert_eq!(verdict_of(&report, name), Verdict::Missed);
    }

    #[test]
    fn pairs_beside_pgbench_are_judged_through_one_coordinator() {
        let row = |coordinators, to_pgbench| CoordinatorsRow {
            operation: Operation::ClaimComplete.name().to_owned(),
            coordinators,
            connections: 64,
            to_pgbench: Some(to_pgbench),
            to_one: Some(0.8),
            ..CoordinatorsRow::default()
        };
        let report = Report {
            postgres: Some(PostgresReport {
                coordinators: vec![row(2, 2.0), row(1, 3.0)],
                ..PostgresReport::default()
            }),
            ..Report::default()
        };
        let beside = "PostgreSQL: claim+complete at 64, beside pgbench's";
        assert_eq!(verdict_of(&report, beside), Verdict::Met);
        let through_two = "PostgreSQL: claim+complete at 64 through 2";
        assert_eq!(verdict_of(&report, through_two), Verdict::Stated);
    }

    #[test]
    fn twice_redis_is_enough_for_batches() {
        let mut report = Report::default();
        report.batch.push(crate::report::BatchRow {
            connections: 8,
            operations_per_request: 128,
            pairs_per_s: 40_000.0,
            p50_ms: 1.0,
            p99_ms: 1.0,
            errors: 0,
            errors_told: Vec::new(),
        });
        assert_eq!(verdict_of(&report, "batch, pairs/s"), Verdict::Missed);
        report.redis = Some(RedisRow {
            clients: 50,
            pairs_per_s: 20_000.0,
            p50_ms: 1.0,
            p99_ms: 1.0,
            errors: 0,
        });
        assert_eq!(verdict_of(&report, "batch, pairs/s"), Verdict::Met);
    }
}
