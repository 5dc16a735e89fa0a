//! What is measured at the other doors, as rows.

use serde::Serialize;

/// Everything about direct SQL, files and libSQL; what was not measured is empty.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoorsReport {
    pub claims: Vec<ClaimsRow>,
    pub verbatim: Vec<VerbatimRow>,
    pub mixed: Vec<MixedRow>,
    pub hand_events: Vec<WaitRow>,
    pub files: Vec<WaitRow>,
    /// How often the hub looks through the directory of requests.
    pub rescan_ms: f64,
    pub libsql: Vec<LibsqlRow>,
}

/// Claims and completions through one door. The latency is that of a statement or a request.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimsRow {
    pub door: String,
    /// What a commit of the client waits for.
    pub synchronous: String,
    pub clients: usize,
    pub pairs_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Pairs a second divided by those on the bare file with as many clients, in the same round.
    pub to_bare: Option<f64>,
    /// Divided by those of the hub over HTTP at 64 connections, in the same round.
    pub to_hub: Option<f64>,
    /// From the end of the run until the hub had taken in everything.
    pub caught_up_ms: Option<f64>,
    /// What programs beside the hub and the bench took meanwhile, in percent of one core.
    pub others_percent: f64,
    pub errors: u64,
    pub errors_told: Vec<String>,
}

/// The document's claim, one at a time, on the hub's file and on one without any index.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerbatimRow {
    pub waiting: u64,
    pub claims: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub bare_claims: u64,
    pub bare_p50_ms: f64,
    pub bare_p99_ms: f64,
}

/// The hub's rate over HTTP while others write into its file.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MixedRow {
    pub sql_clients: String,
    pub connections: usize,
    /// The mean of the runs right before and right after.
    pub alone_pairs_per_s: f64,
    pub alone_p99_ms: f64,
    pub pairs_per_s: f64,
    pub p99_ms: f64,
    pub ratio: f64,
    pub sql_pairs_per_s: Option<f64>,
    pub sql_p99_ms: Option<f64>,
    /// The most that other programs took in one of the runs, in percent of one core.
    pub others_percent: f64,
    pub errors: u64,
    pub errors_told: Vec<String>,
}

/// How long something took to come, round by round.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitRow {
    pub of: String,
    pub rounds: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub longest_ms: f64,
}

/// Statements through `POST /v2/pipeline`. The latency is that of a request.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LibsqlRow {
    pub what: String,
    pub connections: usize,
    pub requests_per_s: f64,
    /// For claims with their completions.
    pub pairs_per_s: Option<f64>,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub errors: u64,
    pub errors_told: Vec<String>,
}
