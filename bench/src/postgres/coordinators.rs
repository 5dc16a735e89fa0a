//! Operations through one, two and three coordinators, beside pgbench in the same round.
//!
//! A machine's speed drifts, so ratios are taken within a round and of several rounds the median is shown.

use super::ceiling::{self, Manner};
use super::ground::{Ground, Ledger, Word};
use crate::hub_process::Hub;
use crate::load::Outcome;
use crate::operations::{Operation, run_operation};
use crate::preload::{self, Skill};
use crate::report::{CoordinatorsRow, CpuSplit, PgbenchRow, PostgresReport, middle};
use crate::scripts::agent_name;

/// Where coordinators are compared with each other.
const CONNECTIONS: usize = 64;
/// Tasks stored for a run, by its seconds: more than are claimed.
const TASKS_PER_CONNECTION_SECOND: u64 = 2_000;
const TASKS_PER_SECOND_MAX: u64 = 20_000;

/// One run: what, through how many coordinators, with how many connections.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    operation: Operation,
    coordinators: usize,
    connections: usize,
}

impl Case {
    const fn new(operation: Operation, coordinators: usize, connections: usize) -> Self {
        Self {
            operation,
            coordinators,
            connections,
        }
    }
}

/// In this order. Before the first one with a number of connections, pgbench runs with as many.
const CASES: [Case; 8] = [
    Case::new(Operation::ClaimComplete, 1, 1),
    Case::new(Operation::ClaimComplete, 1, 16),
    Case::new(Operation::ClaimComplete, 1, CONNECTIONS),
    Case::new(Operation::ClaimComplete, 2, CONNECTIONS),
    Case::new(Operation::ClaimComplete, 3, CONNECTIONS),
    Case::new(Operation::Create, 1, CONNECTIONS),
    Case::new(Operation::Heartbeat, 1, CONNECTIONS),
    Case::new(Operation::SendReceive, 1, CONNECTIONS),
];

pub fn measure(ground: &Ground<'_>, report: &mut PostgresReport) -> anyhow::Result<()> {
    let rounds = ground.settings.rounds;
    let mut done = Vec::new();
    for round in 1..=rounds {
        crate::progress(format_args!("PostgreSQL: round {round} of {rounds}"));
        done.push(measure_round(ground)?);
    }
    let first = done.first().map_or(0, |round| round.pgbench.len());
    for index in 0..first {
        let rows: Vec<PgbenchRow> = done
            .iter()
            .map(|round| round.pgbench[index].clone())
            .collect();
        report.pgbench.push(middle(&rows));
    }
    for index in 0..CASES.len() {
        let rows: Vec<CoordinatorsRow> =
            done.iter().map(|round| round.rows[index].clone()).collect();
        report.coordinators.push(middle(&rows));
    }
    Ok(())
}

#[derive(Default)]
struct Round {
    pgbench: Vec<PgbenchRow>,
    rows: Vec<CoordinatorsRow>,
}

fn measure_round(ground: &Ground<'_>) -> anyhow::Result<Round> {
    let mut round = Round::default();
    let mut ledger = ground.ledger(Word::Notification);
    let first = &ledger.coordinators(1)?[0];
    for number in 0..CONNECTIONS {
        first.register(&agent_name(number))?;
    }
    for case in CASES {
        let is_new = |row: &PgbenchRow| row.clients != case.connections;
        if ceiling::is_installed(ground) && round.pgbench.iter().all(is_new) {
            // Nobody looks at another database of the cluster meanwhile.
            ledger.coordinators(0)?;
            for manner in Manner::ALL {
                let (clients, name) = (case.connections, manner.name());
                crate::progress(format_args!("  pgbench at {clients} clients, {name}"));
                round
                    .pgbench
                    .push(ceiling::measure(ground, manner, clients)?);
            }
        }
        crate::progress(format_args!(
            "  {} through {} coordinators at {} connections",
            case.operation.name(),
            case.coordinators,
            case.connections
        ));
        let mut row = measure_case(ground, &mut ledger, case)?;
        row.compare_with(&round);
        round.rows.push(row);
    }
    Ok(round)
}

fn measure_case(
    ground: &Ground<'_>,
    ledger: &mut Ledger<'_>,
    case: Case,
) -> anyhow::Result<CoordinatorsRow> {
    ledger.coordinators(case.coordinators)?;
    // Whoever was silent for too long is no longer counted on.
    for number in 0..case.connections {
        ledger.hubs[0].heartbeat(&agent_name(number))?;
    }
    if case.operation == Operation::ClaimComplete {
        fill(ground, &ledger.hubs[0], case.connections)?;
    }
    ledger.settle()?;
    let meter = ground.meter(&ledger.hubs)?;
    let servers = ledger.servers();
    let outcome = run_operation(ground.settings, &servers, case.operation, case.connections)?;
    let cpu = meter.end()?;
    Ok(CoordinatorsRow::new(case, &outcome, cpu))
}

/// Sees to it that enough tasks wait for a whole run.
fn fill(ground: &Ground<'_>, hub: &Hub, connections: usize) -> anyhow::Result<()> {
    let settings = ground.settings;
    let seconds = (settings.warm_up_for + settings.hub_for).as_secs_f64();
    let per_second = TASKS_PER_SECOND_MAX.min(connections as u64 * TASKS_PER_CONNECTION_SECOND);
    let wanted = (per_second as f64 * seconds) as u64;
    let waiting = hub.metric(r#"tasks{status="ready"}"#)? as u64;
    if waiting < wanted {
        preload::fill(hub, Skill::Matching, waiting, wanted)?;
    }
    Ok(())
}

impl CoordinatorsRow {
    fn new(case: Case, outcome: &Outcome, cpu: CpuSplit) -> Self {
        let pairs_per_s = match case.operation {
            Operation::ClaimComplete | Operation::ClaimCompleteKeyed => Some(outcome.units_per_s()),
            Operation::SendReceive | Operation::AcquireRelease => Some(outcome.units_per_s() / 2.0),
            Operation::Create | Operation::Heartbeat => None,
        };
        Self {
            operation: case.operation.name().to_owned(),
            coordinators: case.coordinators,
            connections: case.connections,
            requests_per_s: outcome.requests_per_s(),
            pairs_per_s,
            p50_ms: outcome.latency.p50_ms(),
            p99_ms: outcome.latency.p99_ms(),
            cpu,
            errors: outcome.errors,
            errors_told: outcome.errors_told.clone(),
            ..Self::default()
        }
    }

    /// Divides by what was measured before in the same round.
    fn compare_with(&mut self, round: &Round) {
        if self.operation != Operation::ClaimComplete.name() {
            return;
        }
        let pairs_per_s = self.pairs_per_s;
        let to = |manner: Manner| {
            let with_as_many = round
                .pgbench
                .iter()
                .find(|row| row.clients == self.connections && row.manner == manner.name());
            Some(pairs_per_s? / with_as_many?.pairs_per_s)
        };
        (self.to_pgbench, self.to_pgbench_terse) = (to(Manner::Statements), to(Manner::Terse));
        let through_one = round.rows.iter().find(|row| {
            row.coordinators == 1
                && row.connections == self.connections
                && row.operation == self.operation
        });
        self.to_one = through_one.map(|one| self.requests_per_s / one.requests_per_s);
    }
}
