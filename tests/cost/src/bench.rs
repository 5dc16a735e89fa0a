//! A hub in this process, and the operations that are measured on it, one at a time.

use std::alloc::System;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use switchboard_hub::Running;
use switchboard_hub::config::Config;
use switchboard_store::Engine;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::client::{Http, Worker};
use crate::ground::Ground;
use crate::meter::Counts;
use crate::table::Cost;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Rounds that are not counted: statements are prepared, buffers and tables reach their size.
const WARM_UP: usize = 4;
/// Rounds that are counted.
const ROUNDS: usize = 41;
/// An operation is over once nobody has allocated for so long.
const QUIET_FOR: Duration = Duration::from_millis(2);

/// What is subtracted from a heartbeat that comes with a question.
const QUESTION: &str = "question on the bus";
const HEARTBEAT: &str = "bus heartbeat";

pub struct Bench<G> {
    counts: Arc<Counts>,
    ground: G,
    http: Http,
    worker: Worker,
    samples: BTreeMap<&'static str, Vec<Cost>>,
    running: Option<Running>,
    runtime: Runtime,
    _project: TempDir,
}

impl<G: Ground> Bench<G> {
    /// Serves an empty ledger, without limits of rate, with two agents and a worker of the bus.
    pub fn new(counts: Arc<Counts>, (engine, ground): (Box<dyn Engine>, G)) -> Self {
        let project = tempfile::tempdir().expect("a directory");
        let mut config = Config::for_project(project.path().to_owned());
        config.http.listen.set_port(0);
        config.limits.enabled = false;
        config.bus.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        config.bus.memory.enabled = false;
        config.squidrun.enabled = false;
        config.broker.listen = None;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let running = runtime.block_on(Running::start_with(config, engine, "metered"));
        let running = running.expect("a hub on a free port");
        let mut http = Http::connect(running.addr);
        for agent in ["alice", "bob"] {
            let body = format!(
                r#"{{"protocolVersion":"1.0","agent":{{"id":"{agent}","name":"{agent}","type":"custom","capabilities":{{"skills":["rust"],"maxTaskMinutes":60,"canRunTests":true,"canRunBuild":true,"canAccessBrowser":false}}}}}}"#
            );
            http.post("/api/v1/agents/register", None, &body);
        }
        let bus = running.bus_addr().expect("the bus is open");
        Bench {
            counts,
            ground,
            http,
            worker: Worker::connect(bus),
            samples: BTreeMap::new(),
            running: Some(running),
            runtime,
            _project: project,
        }
    }

    /// What each operation costs.
    pub fn measure(mut self) -> BTreeMap<&'static str, Cost> {
        for round in 0..WARM_UP {
            self.round(round);
        }
        self.samples.clear();
        for round in WARM_UP..WARM_UP + ROUNDS {
            self.round(round);
        }
        let samples = std::mem::take(&mut self.samples);
        let costs = samples.into_iter().map(|(name, all)| (name, typical(&all)));
        let mut costs: BTreeMap<_, _> = costs.collect();
        let question = costs.remove(QUESTION).expect("it was asked");
        let beat = costs.get_mut(HEARTBEAT).expect("it was measured");
        *beat = beat.zip(&question, u64::saturating_sub);
        costs
    }

    fn round(&mut self, round: usize) {
        let ids = [format!("task-{round:04}-a"), format!("task-{round:04}-b")];
        self.sample("create", |it| it.create(&ids[0]));
        self.sample("claim", |it| it.claim(None));
        self.sample("complete", |it| it.complete(&ids[0]));
        self.create(&ids[1]);
        let key = format!("key-{round:04}");
        self.sample("claim, keyed", |it| it.claim(Some(&key)));
        self.complete(&ids[1]);
        self.sample("heartbeat", |it| {
            let path = "/api/v1/agents/alice/heartbeat";
            let body = r#"{"protocolVersion":"1.0","agentId":"alice","status":"idle"}"#;
            it.http.post(path, None, body);
        });
        self.sample("send", |it| {
            let body = format!(
                r#"{{"protocolVersion":"1.0","agentId":"alice","message":{{"id":"msg-{round:04}","to":"bob","type":"info.discovery","payload":{{"note":"the parser is generated"}}}}}}"#
            );
            it.http.post("/api/v1/messages", None, &body);
        });
        self.sample("receive", |it| {
            let got = it.http.get("/api/v1/messages?agentId=bob&limit=100");
            assert!(got.contains("msg-"), "{got}");
        });
        self.sample("acquire", |it| {
            let body = r#"{"protocolVersion":"1.0","agentId":"alice","taskId":null,"filePath":"src/lib.rs","durationMs":60000}"#;
            it.http.post("/api/v1/leases/acquire", None, body);
        });
        let body = r#"{"protocolVersion":"1.0","agentId":"alice","filePath":"src/lib.rs"}"#;
        self.http.post("/api/v1/leases/release", None, body);
        self.sample(QUESTION, |it| it.worker.ask_catalog(0));
        self.sample(HEARTBEAT, |it| it.worker.ask_catalog(1));
    }

    fn create(&mut self, id: &str) {
        let body = format!(
            r#"{{"id":"{id}","title":"One function","description":"Change one function and run its tests.","requiredSkills":["rust"],"files":["src/lib.rs"],"estimatedMinutes":10,"corrId":"{id}"}}"#
        );
        self.http.post("/api/v1/tasks", None, &body);
    }

    fn claim(&mut self, key: Option<&str>) {
        let body = r#"{"protocolVersion":"1.0","agentId":"alice"}"#;
        let got = self.http.post("/api/v1/tasks/claim", key, body);
        assert!(got.contains("task-"), "{got}");
    }

    fn complete(&mut self, id: &str) {
        let path = format!("/api/v1/tasks/{id}/complete");
        let body = format!(
            r#"{{"protocolVersion":"1.0","agentId":"alice","taskId":"{id}","result":{{"filesCreated":[],"filesModified":["src/lib.rs"],"filesDeleted":[],"summary":"The function is changed."}}}}"#
        );
        self.http.post(&path, None, &body);
    }

    fn sample(&mut self, name: &'static str, act: impl FnOnce(&mut Self)) {
        settle();
        self.ground.written();
        let before = self.reading();
        act(self);
        settle();
        let after = self.reading();
        let written = self.ground.written();
        let mut cost = after.zip(&before, u64::wrapping_sub);
        cost.statements = written.statements;
        cost.rows = written.rows;
        cost.wal_bytes = written.wal_bytes;
        self.samples.entry(name).or_default().push(cost);
    }

    fn reading(&self) -> Cost {
        Cost {
            rounds: self.counts.rounds.load(Ordering::SeqCst),
            asks: self.counts.asks.load(Ordering::SeqCst),
            allocations: allocations(),
            ..Cost::default()
        }
    }
}

impl<G> Drop for Bench<G> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown());
        }
    }
}

fn allocations() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as u64
}

/// Waits until nobody allocates: an answer is there a moment before everything that belongs to it is done.
fn settle() {
    let mut before = allocations();
    loop {
        std::thread::sleep(QUIET_FOR);
        let now = allocations();
        if now == std::mem::replace(&mut before, now) {
            return;
        }
    }
}

/// The median of what is counted, and the lower quartile of bytes and allocations: whatever else goes on in the process or the database
/// adds to those.
fn typical(all: &[Cost]) -> Cost {
    let sorted = |figure: fn(&Cost) -> u64| {
        let mut figures: Vec<u64> = all.iter().map(figure).collect();
        figures.sort_unstable();
        figures
    };
    let median = |figure| sorted(figure)[all.len() / 2];
    let low = |figure| sorted(figure)[all.len() / 4];
    Cost {
        rounds: median(|cost| cost.rounds),
        asks: median(|cost| cost.asks),
        statements: median(|cost| cost.statements),
        rows: median(|cost| cost.rows),
        wal_bytes: low(|cost| cost.wal_bytes),
        allocations: low(|cost| cost.allocations),
    }
}
