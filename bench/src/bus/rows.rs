//! What is measured of the bus, as rows.

use serde::Serialize;

/// Everything about the bus; what was not measured is empty.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BusReport {
    pub standing: Vec<StandingRow>,
    pub rates: Vec<RateRow>,
    pub screen: Vec<ScreenRow>,
    pub offers: Vec<OfferRow>,
    pub cycles: Option<CycleRow>,
    pub slow: Option<SlowRow>,
}

/// Who used the machine during a run, in percent of one core.
#[derive(Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuSplit {
    pub server: f64,
    pub generator: f64,
    pub others: f64,
}

/// Workers that are connected and beat at their usual pace.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StandingRow {
    pub workers_that: String,
    pub workers: usize,
    pub connects_per_s: f64,
    pub fresh_mb: f64,
    pub beating_mb: f64,
    /// What the hub grew by, divided by the connections; in 10^3 bytes.
    pub kb_per_connection: f64,
    pub beats_per_s: f64,
    /// Lines that the hub counted meanwhile.
    pub handled_per_s: f64,
    pub cpu: CpuSplit,
    /// Workers that lost their connection.
    pub lost: u64,
    pub errors_told: Vec<String>,
}

/// Lines a second through some connections that always have more to send.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RateRow {
    pub server: String,
    pub connections: usize,
    pub lines_per_s: f64,
    /// Divided by the echo right before and right after.
    pub to_echo: Option<f64>,
    /// Divided by the server that only reads envelopes, in the same round.
    pub to_decode: Option<f64>,
    pub cpu: CpuSplit,
}

/// From the sending of a heartbeat to its arrival at an operator.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScreenRow {
    pub workers: usize,
    pub every_s: f64,
    pub sent: u64,
    pub arrived: u64,
    /// Parts of snapshots that came in between.
    pub snapshot_parts: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub longest_ms: f64,
    pub cpu: CpuSplit,
}

/// From the sending of the request that creates a task to its arrival at an idle worker.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferRow {
    pub idle_workers: usize,
    pub rounds: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub longest_ms: f64,
}

/// Tasks created over HTTP, assigned, accepted and finished over the bus. The latency is that of a worker's whole round.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CycleRow {
    pub workers: usize,
    pub tasks_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub cpu: CpuSplit,
}

/// Workers that send as fast as they can, beside operators of three kinds.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowRow {
    pub connections: usize,
    pub alone_per_s: f64,
    pub beside_reader_per_s: f64,
    pub beside_stalled_per_s: f64,
    /// Lines that the operator got which reads.
    pub seen_per_s: f64,
    /// Beside the one that does not read, divided by beside the one that does.
    pub ratio: f64,
    pub reader_peak_mb: f64,
    pub stalled_peak_mb: f64,
    /// How often the one that does not read was dropped.
    pub dropped: u64,
    pub dropped_after_ms: Option<f64>,
    /// The most that other programs took in one of the runs, in percent of one core.
    pub others_percent: f64,
}
