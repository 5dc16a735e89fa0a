//! What was measured, as rows: for the tables, for `--json`, and for the aims.

use std::time::Duration;

use serde::Serialize;

use crate::aims::Aim;
use crate::bus::rows::BusReport;
use crate::cpu;
use crate::doors::rows::DoorsReport;
use crate::postgres::rows::PostgresReport;

/// Everything a run found out; parts that were not run are empty.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub machine: Machine,
    pub echo: Vec<EchoRow>,
    pub sync: Option<SyncRow>,
    pub sqlite: Vec<SqliteRow>,
    pub operations: Vec<OperationRow>,
    pub batch: Vec<BatchRow>,
    pub redis: Option<RedisRow>,
    pub growth: Vec<GrowthRow>,
    pub starts: Vec<StartRow>,
    pub idle: Option<IdleRow>,
    pub doors: Option<DoorsReport>,
    pub bus: Option<BusReport>,
    pub postgres: Option<PostgresReport>,
    pub aims: Vec<Aim>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// What the figures depend on.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub rounds: u32,
    pub seconds_per_run: f64,
    pub profile: String,
    /// What other programs took of all cores just before the run; above a few percent the figures mean little.
    pub others_percent: Option<f64>,
}

impl Machine {
    pub fn here(rounds: u32, seconds_per_run: f64) -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
        let profile = std::env::current_exe().ok().and_then(|program| {
            let directory = program.parent()?.file_name()?;
            Some(directory.to_string_lossy().into_owned())
        });
        Self {
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            processor: model.unwrap_or_else(|| "unknown processor".to_owned()),
            rounds,
            seconds_per_run,
            profile: profile.unwrap_or_default(),
            others_percent: others_percent(),
        }
    }
}

/// Watches the machine for a moment while the bench itself does nothing.
fn others_percent() -> Option<f64> {
    let before = cpu::Machine::read()?;
    std::thread::sleep(Duration::from_millis(500));
    let after = cpu::Machine::read()?;
    let all = after.all.checked_sub(before.all)?.as_secs_f64();
    let busy = after.busy.saturating_sub(before.busy).as_secs_f64();
    (all > 0.0).then(|| busy / all * 100.0)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EchoRow {
    pub connections: usize,
    pub requests_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub errors: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncRow {
    pub syncs_per_s: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SqliteRow {
    pub operations_per_commit: u64,
    pub operations_per_s: f64,
    pub rows_per_s: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationRow {
    pub operation: String,
    pub connections: usize,
    pub requests_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub echo_requests_per_s: f64,
    pub echo_p99_ms: f64,
    pub ratio: f64,
    pub p99_ratio: f64,
    pub errors: u64,
    pub errors_told: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchRow {
    pub connections: usize,
    pub operations_per_request: usize,
    pub pairs_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub errors: u64,
    pub errors_told: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisRow {
    pub clients: usize,
    pub pairs_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub errors: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrowthRow {
    pub case: String,
    pub waiting: u64,
    pub claim_p50_ms: f64,
    pub claim_p99_ms: f64,
    /// The smallest number of tasks, timed in turn with this one.
    pub reference_p50_ms: Option<f64>,
    pub reference_p99_ms: Option<f64>,
    pub p99_ratio: Option<f64>,
    pub resident_mb: f64,
    pub stored_per_s: f64,
    pub errors: u64,
    pub errors_told: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartRow {
    pub case: String,
    pub tasks: u64,
    pub after_stop_s: f64,
    pub after_kill_s: f64,
    /// After the start, before the first claim.
    pub resident_mb: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleRow {
    pub agents: usize,
    pub cpu_percent: f64,
    pub fresh_mb: f64,
    pub waiting_mb: f64,
    pub ready_after_s: f64,
}

/// The middle one of some figures; of an even number the mean of the two in the middle.
pub fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(half)) {
        (_, None) => f64::NAN,
        (0, Some(upper)) => (sorted[half - 1] + upper) / 2.0,
        (_, Some(middle)) => *middle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }
}
