//! What a run is told: which parts, how long, and where.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use tempfile::TempDir;

use crate::bus::Scale;
use crate::load::Plan;

/// Measures the hub beside the raw ceilings of this machine, in one run.
///
/// The hub, as a
/// separate process, durable (synchronous=FULL) and with rate limits off: each operation over keep-alive connections, always
/// divided by the echo measured right before and after it; batches, beside Redis where it is installed; growth up to a million
/// waiting tasks; memory, start and idle CPU; hand writes and files; the bus beside a bare NDJSON echo; the broker beside a bare WebSocket server; events between nodes beside a bare copy. Then, where PostgreSQL is installed, coordinators on a throw-away cluster beside
/// pgbench. The table ends with the aims and whether they were met.
///
/// Compare ratios, not absolute figures: machines differ and are noisy.
#[derive(Parser)]
#[command(name = "bench")]
pub struct Arguments {
    /// Measure only this part; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Vec<Part>,
    /// Short runs, one round, at most 100,000 waiting tasks
    #[arg(long)]
    pub quick: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Numbers of connections for the operations
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256], value_parser = connections)]
    pub connections: Vec<usize>,
    /// Numbers of waiting tasks for the growth part, rising [default: 1000,100000,1000000]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub waiting: Vec<u64>,
    /// Seconds of each run against the hub [default: 2, quick 0.7]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Rounds of which the median is shown [default: 3, quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// The hub's binary [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    pub hub: Option<PathBuf>,
    /// Where databases are made; it decides which disk is measured [default: beside this program, a PostgreSQL cluster where the
    /// system keeps temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(subcommand)]
    pub child: Option<ChildCommand>,
}

/// What this program runs itself as.
#[derive(Subcommand)]
pub enum ChildCommand {
    /// The echo server of a running bench
    #[command(hide = true)]
    ServeEcho,
    /// A bare server of lines of a running bench
    #[command(hide = true)]
    ServeLines,
    /// A bare server of WebSocket of a running bench, and its database
    #[command(hide = true)]
    ServeSockets { file: PathBuf },
    /// A bare copy of pages of a running bench, and where its databases are
    #[command(hide = true)]
    ServePages { directory: PathBuf },
    /// A program that claims by SQL, of a running bench
    #[command(hide = true)]
    Claim {
        agent: String,
        seconds: f64,
        file: PathBuf,
    },
}

/// A part of the bench that can be run by itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The hub's operations over keep-alive connections, divided by the echo
    Operations,
    /// Many operations a request, beside Redis
    Batch,
    /// Claims, memory and start with up to a million waiting tasks
    Growth,
    /// CPU and memory of a hub that has nothing to do
    Idle,
    /// Workers beside a bare spawn, git's worktrees and bare long polls; the demo
    Agents,
    /// Hand writes by SQL and requests as files
    Doors,
    /// Workers and operators on the bus, beside a bare NDJSON echo
    Bus,
    /// Roles on the broker, beside a bare WebSocket server
    Broker,
    /// External agents, beside agents of the HTTP interface
    External,
    /// Events between two nodes, beside a bare copy of the same pages
    Runtime,
    /// Many coordinators on PostgreSQL, beside pgbench
    Postgres,
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=4096) => Ok(count),
        _ => Err("a number from 1 to 4096 is wanted".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a number from 0.05 to 600 is wanted".to_owned()),
    }
}

/// The arguments with every default filled in.
pub struct Settings {
    pub connections: Vec<usize>,
    pub batch_connections: Vec<usize>,
    pub waiting: Vec<u64>,
    pub rounds: u32,
    pub warm_up_for: Duration,
    pub hub_for: Duration,
    pub echo_for: Duration,
    pub idle_for: Duration,
    /// Claims that are timed at each number of waiting tasks.
    pub claims: u64,
    /// Rounds of each kind of wake-up across coordinators.
    pub wakeups: u64,
    pub bus: Scale,
    /// The directory for databases, if it was chosen.
    pub given_dir: Option<PathBuf>,
    dir: PathBuf,
}

impl Settings {
    pub fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let quick = arguments.quick;
        let hub_for =
            arguments
                .seconds
                .unwrap_or(Duration::from_millis(if quick { 700 } else { 2000 }));
        let waiting = match (arguments.waiting.as_slice(), quick) {
            ([], true) => vec![1_000, 10_000, 100_000],
            ([], false) => vec![1_000, 100_000, 1_000_000],
            (given, _) => given.to_vec(),
        };
        anyhow::ensure!(
            waiting.is_sorted(),
            "the numbers of waiting tasks have to rise"
        );
        let dir = match &arguments.dir {
            Some(dir) => dir.clone(),
            None => std::env::current_exe()
                .ok()
                .and_then(|program| program.parent().map(ToOwned::to_owned))
                .context("cannot find this program's directory; name one with '--dir'")?,
        };
        Ok(Self {
            connections: arguments.connections.clone(),
            batch_connections: vec![1, 4, 8, 16],
            waiting,
            rounds: arguments.rounds.unwrap_or(if quick { 1 } else { 3 }),
            warm_up_for: (hub_for / 4).min(Duration::from_millis(300)),
            hub_for,
            echo_for: hub_for / 2,
            idle_for: Duration::from_secs(if quick { 3 } else { 10 }),
            claims: if quick { 400 } else { 3_000 },
            wakeups: if quick { 100 } else { 500 },
            bus: if quick { Scale::quick() } else { Scale::full() },
            given_dir: arguments.dir.clone(),
            dir,
        })
    }

    /// A fresh directory on the disk that is measured; it goes with the returned value.
    pub fn new_home(&self) -> anyhow::Result<TempDir> {
        tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(&self.dir)
            .with_context(|| format!("cannot make a directory in {}", self.dir.display()))
    }

    /// A warmed-up run of the given length.
    pub fn plan(&self, measure_for: Duration) -> Plan {
        Plan {
            warm_up_for: self.warm_up_for,
            measure_for,
        }
    }
}
