//! What is measured on PostgreSQL, as rows.

use serde::Serialize;

use crate::report::GrowthRow;

/// Everything about PostgreSQL; what was not measured is empty.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PostgresReport {
    pub version: String,
    pub pgbench: Vec<PgbenchRow>,
    pub coordinators: Vec<CoordinatorsRow>,
    pub growth: Vec<GrowthRow>,
    pub wakeups: Vec<WakeupRow>,
    pub idle: Vec<SharedIdleRow>,
}

/// Plain SQL by pgbench. The latency is that of a pair.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PgbenchRow {
    pub manner: String,
    pub clients: usize,
    pub pairs_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub cpu: CpuSplit,
}

/// An operation through some coordinators. The latency is that of a request.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorsRow {
    pub operation: String,
    pub coordinators: usize,
    pub connections: usize,
    pub requests_per_s: f64,
    /// For operations of two requests.
    pub pairs_per_s: Option<f64>,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Pairs a second divided by those of pgbench with as many clients, statement by statement, in the same round.
    pub to_pgbench: Option<f64>,
    /// The same beside pgbench with one statement a transaction.
    pub to_pgbench_terse: Option<f64>,
    /// Divided by the rate through one coordinator in the same round.
    pub to_one: Option<f64>,
    pub verbs_per_batch: f64,
    /// From the first statement that writes until the commit is answered.
    pub commit_ms: f64,
    pub cpu: CpuSplit,
    pub errors: u64,
    pub errors_told: Vec<String>,
}

/// Who used the machine during a run, in percent of one core.
#[derive(Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuSplit {
    pub hubs: f64,
    pub postgres: f64,
    /// The load generator: this program, or pgbench.
    pub generator: f64,
    /// Everything else, the kernel's own work included.
    pub others: f64,
}

/// From the answer to whoever did something until the answer to whoever waited for it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WakeupRow {
    pub of: String,
    pub between: String,
    pub word: String,
    pub rounds: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub longest_ms: f64,
}

/// What a coordinator and the database cost while agents wait.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedIdleRow {
    pub word: String,
    pub agents: usize,
    pub hub_cpu_percent: f64,
    pub postgres_cpu_percent: f64,
    pub waiting_mb: f64,
}
