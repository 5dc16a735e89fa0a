//! What was measured, as rows: for the tables, for `--json`, and for the aims.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::aims::Aim;
use crate::cpu;
use crate::histogram::Histogram;
use crate::load::Outcome;

/// Words of failures that a row keeps.
const ERRORS_TOLD_MAX: usize = 3;

/// Rows that are printed, and of which the median can be taken.
macro_rules! rows {
    ($($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$about])*
        #[derive(Clone, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$of])* pub $field: $type,)* })*
    };
}

/// Everything a run found out; parts that were not run are empty.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub machine: Machine,
    pub operations: Vec<OperationRow>,
    pub batch: Vec<BatchRow>,
    pub redis: Option<RedisRow>,
    pub growth: Vec<GrowthRow>,
    pub starts: Vec<StartRow>,
    pub idle: Option<IdleRow>,
    pub agents: Option<AgentsReport>,
    pub doors: Option<DoorsReport>,
    pub bus: Option<BusReport>,
    pub broker: Option<BrokerReport>,
    pub external: Option<ExternalRow>,
    pub runtime: Option<RuntimeReport>,
    pub postgres: Option<PostgresReport>,
    pub aims: Vec<Aim>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

rows! {
    /// What the figures depend on.
    Machine {
        cores: usize,
        processor: String,
        rounds: u32,
        seconds_per_run: f64,
        profile: String,
        /// What other programs took of all cores just before the run; above a few percent the figures mean little.
        others_percent: Option<f64>,
    }

    /// Workers, and how long the demo took.
    AgentsReport {
        rows: Vec<RatioRow>,
        demo: Vec<DemoRow>,
    }

    DemoRow {
        first_done_s: f64,
        took_s: f64,
    }

    /// Something beside its bare parts.
    RatioRow {
        of: String,
        unit: String,
        ours: f64,
        bare: f64,
        ratio: f64,
    }

    /// Direct SQL and files.
    DoorsReport {
        hand_events: Vec<WaitRow>,
        claims: Vec<ClaimRow>,
        files: Vec<WaitRow>,
        /// How often the hub looks through the directory of requests.
        rescan_ms: f64,
    }

    BusReport {
        standing: Vec<StandingRow>,
        rates: Vec<RateRow>,
        screen: Vec<ScreenRow>,
        slow: Option<SlowRow>,
    }

    BrokerReport {
        sends: Vec<SendRow>,
        clients: Option<ClientsRow>,
        casts: Vec<WaitRow>,
        triggers: Vec<WaitRow>,
    }

    RuntimeReport {
        flow: Vec<FlowRow>,
        lag: Vec<WaitRow>,
        catch_up: Option<CatchUpRow>,
        subscribers: Option<SubscribersRow>,
        claims: Option<BesideRow>,
    }

    PostgresReport {
        version: String,
        pgbench: Vec<PgbenchRow>,
        coordinators: Vec<CoordinatorsRow>,
        growth: Vec<GrowthRow>,
        wakeups: Vec<WaitRow>,
        idle: Vec<SharedIdleRow>,
    }

    OperationRow {
        operation: String,
        connections: usize,
        requests_per_s: f64,
        p50_ms: f64,
        p99_ms: f64,
        echo_requests_per_s: f64,
        echo_p99_ms: f64,
        ratio: f64,
        p99_ratio: f64,
        errors: u64,
        errors_told: Vec<String>,
    }

    /// Pairs of claim and complete by external agents, and by others before and after.
    ExternalRow {
        connections: usize,
        http_pairs_per_s: f64,
        invoke_pairs_per_s: f64,
        invoke_p99_ms: f64,
        /// The second divided by the first.
        to_http: f64,
        /// Those of others with the audit there, divided by those without.
        others_beside_audit: f64,
        errors: u64,
        errors_told: Vec<String>,
    }

    BatchRow {
        connections: usize,
        operations_per_request: usize,
        pairs_per_s: f64,
        p50_ms: f64,
        p99_ms: f64,
        errors: u64,
        errors_told: Vec<String>,
    }

    RedisRow {
        clients: usize,
        pairs_per_s: f64,
        p50_ms: f64,
        p99_ms: f64,
        errors: u64,
    }

    GrowthRow {
        case: String,
        waiting: u64,
        claim_p50_ms: f64,
        claim_p99_ms: f64,
        /// The smallest number of tasks, timed in turn with this one.
        reference_p50_ms: Option<f64>,
        reference_p99_ms: Option<f64>,
        p99_ratio: Option<f64>,
        resident_mb: f64,
        stored_per_s: f64,
    }

    StartRow {
        case: String,
        tasks: u64,
        after_stop_s: f64,
        after_kill_s: f64,
        /// After the start, before the first claim.
        resident_mb: f64,
    }

    IdleRow {
        agents: usize,
        cpu_percent: f64,
        fresh_mb: f64,
        waiting_mb: f64,
        ready_after_s: f64,
    }

    /// Claims in deferred transactions: how many failed at first, beside the hub and beside none.
    ClaimRow {
        processes: usize,
        claims: u64,
        failed_percent: f64,
        bare_claims: u64,
        bare_failed_percent: f64,
    }

    /// How long something took to come, round by round.
    WaitRow {
        of: String,
        rounds: u64,
        p50_ms: f64,
        p99_ms: f64,
        longest_ms: f64,
    }

    /// Who used the machine during a run, in percent of one core.
    CpuSplit {
        /// The hub, several of them, or a bare server.
        hubs: f64,
        postgres: f64,
        /// The load generator: this program, or pgbench.
        generator: f64,
        /// Everything else, the kernel's own work included.
        others: f64,
    }

    /// Senders that wait for the answer to each message; ratios to a bare group commit.
    SendRow {
        server: String,
        senders: usize,
        messages_per_s: f64,
        p50_ms: f64,
        p99_ms: f64,
        to_commit: f64,
        p50_to_commit: f64,
        p99_to_commit: f64,
    }

    /// Clients of the broker that are connected and say nothing.
    ClientsRow {
        clients: usize,
        fresh_mb: f64,
        connected_mb: f64,
        kb_per_connection: f64,
    }

    /// Events from one node to another.
    FlowRow {
        of: String,
        connections: usize,
        published_per_s: f64,
        taken_in_per_s: f64,
        /// Divided by the bare copy's rate of the same round.
        to_bare: f64,
        cpu: CpuSplit,
        errors: u64,
        errors_told: Vec<String>,
    }

    /// A node that was away takes in what waits; memory is that of both hubs.
    CatchUpRow {
        waiting: u64,
        taken_in_per_s: f64,
        to_steady: Option<f64>,
        early_mb: f64,
        peak_mb: f64,
        memory_ratio: f64,
    }

    /// Nodes that wait for events of one that has none.
    SubscribersRow {
        subscribers: usize,
        cpu_percent: f64,
        resident_mb: f64,
    }

    /// Claims and completions of a hub alone, and of one that is joined with an idle one.
    BesideRow {
        pairs_per_s: f64,
        beside_pairs_per_s: f64,
        ratio: f64,
    }

    /// Workers that are connected and beat at their usual pace.
    StandingRow {
        workers_that: String,
        workers: usize,
        fresh_mb: f64,
        beating_mb: f64,
        /// What the hub grew by, divided by the connections; in 10^3 bytes.
        kb_per_connection: f64,
        cpu: CpuSplit,
        /// Workers that lost their connection.
        lost: u64,
        errors_told: Vec<String>,
    }

    /// Lines a second through some connections that always have more to send.
    RateRow {
        server: String,
        connections: usize,
        lines_per_s: f64,
        /// Divided by the echo right before and right after.
        to_echo: Option<f64>,
        cpu: CpuSplit,
    }

    /// From the sending of a heartbeat to its arrival at an operator.
    ScreenRow {
        workers: usize,
        every_s: f64,
        sent: u64,
        arrived: u64,
        p50_ms: f64,
        p99_ms: f64,
        longest_ms: f64,
        cpu: CpuSplit,
    }

    /// Workers that send as fast as they can, beside an operator that reads and one that does not.
    SlowRow {
        connections: usize,
        beside_reader_per_s: f64,
        beside_stalled_per_s: f64,
        /// Beside the one that does not read, divided by beside the one that does.
        ratio: f64,
        reader_peak_mb: f64,
        stalled_peak_mb: f64,
        /// How often the one that does not read was dropped.
        dropped: u64,
    }

    /// Plain SQL by pgbench. The latency is that of a pair.
    PgbenchRow {
        manner: String,
        clients: usize,
        pairs_per_s: f64,
        p50_ms: f64,
        p99_ms: f64,
        cpu: CpuSplit,
    }

    /// An operation through some coordinators. The latency is that of a request.
    CoordinatorsRow {
        operation: String,
        coordinators: usize,
        connections: usize,
        requests_per_s: f64,
        /// For operations of two requests.
        pairs_per_s: Option<f64>,
        p50_ms: f64,
        p99_ms: f64,
        /// Pairs a second divided by those of pgbench with as many clients, statement by statement, in the same round.
        to_pgbench: Option<f64>,
        /// The same beside pgbench with one statement a transaction.
        to_pgbench_terse: Option<f64>,
        /// Divided by the rate through one coordinator in the same round.
        to_one: Option<f64>,
        cpu: CpuSplit,
        errors: u64,
        errors_told: Vec<String>,
    }

    /// What a coordinator and the database cost while agents wait.
    SharedIdleRow {
        word: String,
        agents: usize,
        hub_cpu_percent: f64,
        postgres_cpu_percent: f64,
        waiting_mb: f64,
    }
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

impl WaitRow {
    pub fn new(of: &str, waited: &Histogram) -> Self {
        Self {
            of: of.to_owned(),
            rounds: waited.total(),
            p50_ms: waited.p50_ms(),
            p99_ms: waited.p99_ms(),
            longest_ms: waited.longest_ms(),
        }
    }
}

impl BatchRow {
    pub fn new(connections: usize, operations_per_request: usize, outcome: Outcome) -> Self {
        Self {
            connections,
            operations_per_request,
            pairs_per_s: outcome.units_per_s(),
            p50_ms: outcome.latency.p50_ms(),
            p99_ms: outcome.latency.p99_ms(),
            errors: outcome.errors,
            errors_told: outcome.errors_told,
        }
    }
}

/// The same row of several rounds as one: the median of each figure, all errors, and the words of the first ones.
pub fn middle<T: Serialize + DeserializeOwned>(rounds: &[T]) -> T {
    let rows = rounds
        .iter()
        .map(|row| serde_json::to_value(row).expect("rows are plain"));
    let row = middle_of("", &rows.collect::<Vec<_>>());
    serde_json::from_value(row).expect("it is made of such rows")
}

fn middle_of(name: &str, rounds: &[Value]) -> Value {
    let figures: Vec<f64> = rounds.iter().filter_map(Value::as_f64).collect();
    match rounds.iter().find(|value| !value.is_null()) {
        None => Value::Null,
        Some(Value::Object(first)) => {
            let of = |name: &String| {
                rounds
                    .iter()
                    .map(|row| row[name.as_str()].clone())
                    .collect::<Vec<_>>()
            };
            let members = first
                .keys()
                .map(|name| (name.clone(), middle_of(name, &of(name))));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Some(Value::Array(_)) => rounds
            .iter()
            .filter_map(Value::as_array)
            .flatten()
            .take(ERRORS_TOLD_MAX)
            .cloned()
            .collect(),
        Some(Value::Number(number)) if number.is_f64() => median(figures.into_iter()).into(),
        Some(Value::Number(_)) if name == "errors" => {
            rounds.iter().filter_map(Value::as_u64).sum::<u64>().into()
        }
        Some(first) => first.clone(),
    }
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
    fn rounds_become_one_row_of_medians() {
        let round = |pairs_per_s, to_one, others, error: &str| CoordinatorsRow {
            operation: "create".to_owned(),
            coordinators: 2,
            pairs_per_s,
            to_one,
            cpu: CpuSplit {
                others,
                ..CpuSplit::default()
            },
            errors: 1,
            errors_told: vec![error.to_owned()],
            ..CoordinatorsRow::default()
        };
        let rounds = [
            round(Some(3.0), None, 10.0, "a"),
            round(Some(1.0), None, 30.0, "b"),
            round(Some(2.0), Some(0.5), 20.0, "c"),
        ];
        let row = middle(&rounds);
        assert_eq!((row.operation.as_str(), row.coordinators), ("create", 2));
        assert_eq!((row.pairs_per_s, row.to_one), (Some(2.0), Some(0.5)));
        assert_eq!((row.cpu.others, row.errors), (20.0, 3));
        assert_eq!(row.errors_told, ["a", "b", "c"]);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }
}
