//! The hub is killed again and again under workers of the bus and agents of HTTP that share one pool; afterwards every task was
//! done once, and every message came.

mod caller;
mod check;
mod hand;
mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_tests::{API, Hub, PATIENCE, Project, Random, Request, until};

use crate::crash::world::World;
use crate::crash::{WITHIN_A_BATCH, linger};

const SEED: &str = "SWITCHBOARD_BUS_CRASH_SEED";
/// More rounds than in the suite: `SWITCHBOARD_BUS_CRASH_ROUNDS=500`.
const ROUNDS: &str = "SWITCHBOARD_BUS_CRASH_ROUNDS";
const ROUNDS_IN_THE_SUITE: u64 = 24;
/// New tasks in each life of the hub.
const TASKS_PER_ROUND: u64 = 40;
/// A kill comes after so many acknowledged changes, at most.
const CHANGES_MAX: u64 = 80;
const HANDS: usize = 3;
const LIBRARIES: usize = 2;
const CALLERS: usize = 2;
/// Nobody is given up while the hub is away, and nothing but the work is in the log.
const SETTINGS: &str = "[memory]\nenabled = false\n";

/// What all agents share.
struct Pool {
    world: World,
    bus: SocketAddr,
    /// Everyone, to send messages to.
    agents: Vec<String>,
    /// Somebody found what must not be; the others need not go on.
    failed: AtomicBool,
}

impl Pool {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Ends everything if its owner fails, so that the others do not wait in vain.
struct Witness<'a>(&'a Pool);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
            self.0.world.end();
        }
    }
}

/// A task under the epoch of its claim.
type Claim = (String, u64);

/// What one agent was told.
#[derive(Debug, Default)]
struct Record {
    agent: String,
    /// Tasks that it was handed.
    handed: BTreeSet<Claim>,
    /// Those whose completion it knows to be taken.
    completed: BTreeSet<Claim>,
    /// Messages that it knows to be kept, with whom they are for.
    sent: BTreeMap<String, String>,
    received: BTreeSet<String>,
    /// Messages that came once more.
    again: u64,
    /// Connections that broke.
    cuts: u64,
}

impl Record {
    fn of(agent: &str) -> Record {
        Record {
            agent: agent.to_owned(),
            ..Record::default()
        }
    }
}

/// The last message, after which an agent leaves.
const END: &str = "end";

#[test]
fn killed_again_and_again_the_hub_loses_nothing_of_bus_workers_and_http_agents_and_does_nothing_twice()
 {
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_IN_THE_SUITE, |text| {
        text.parse().expect("the number of rounds is a number")
    });
    let seed = Random::seed_from(SEED);
    println!("crash test with the bus: {SEED}={seed} {ROUNDS}={rounds}");
    let mut random = Random::seeded(seed);
    let bus = SocketAddr::from(([127, 0, 0, 1], steady_port(&mut random)));
    let project = Project::new().with_bus_at(bus);
    fs::write(project.root().join("switchboard.toml"), SETTINGS).expect("it can be written");
    let names = |kind: &str, count: usize| (0..count).map(|n| format!("{kind}-{n}")).collect();
    let (hands, libraries): (Vec<String>, Vec<String>) =
        (names("hand", HANDS), names("library", LIBRARIES));
    let callers: Vec<String> = names("http", CALLERS);
    let pool = Pool {
        world: World::of(1),
        bus,
        agents: [hands.clone(), libraries.clone(), callers.clone()].concat(),
        failed: AtomicBool::new(false),
    };
    let mut hub = project.start();
    let mut records = Vec::new();
    thread::scope(|scope| {
        let _witness = Witness(&pool);
        let (pool, mut workers) = (&pool, Vec::new());
        for agent in &hands {
            let random = random.fork();
            workers.push(scope.spawn(move || vec![hand::work(pool, agent, random)]));
        }
        workers.push(scope.spawn(|| library::work(pool, &libraries)));
        for agent in &callers {
            let random = random.fork();
            workers.push(scope.spawn(move || vec![caller::work(pool, agent, random)]));
        }
        for round in 0..rounds {
            a_life(&project, &mut hub, pool, round, &mut random);
        }
        pool.world.hub_serves(0, hub.addr());
        everything_is_done(&hub, rounds * TASKS_PER_ROUND);
        say_good_bye(&hub, &pool.agents);
        for worker in workers {
            let joined = worker.join();
            records.extend(joined.unwrap_or_else(|failed| std::panic::resume_unwind(failed)));
        }
    });
    check::all(&project, hub, &records, rounds * TASKS_PER_ROUND);
    let cuts: u64 = records.iter().map(|record| record.cuts).sum();
    assert!(cuts >= rounds, "hardly a connection was cut: {cuts}");
}

/// The hub serves for a while and is killed; ends with the next one.
fn a_life(project: &Project, hub: &mut Hub, pool: &Pool, round: u64, random: &mut Random) {
    if round == 0 {
        // Everyone is there before anyone is written to.
        pool.world.hub_serves(0, hub.addr());
        let mut client = hub.client();
        until("everyone has signed on", || {
            let agents = client.get(&format!("{API}/agents")).expect(200);
            let there = agents["agents"].as_array().map_or(0, Vec::len);
            (there == pool.agents.len()).then_some(())
        });
    }
    let tasks: Vec<Value> = (0..TASKS_PER_ROUND)
        .map(|n| json!({"id": format!("t-{round:03}-{n:02}"), "title": "a task of the pool"}))
        .collect();
    let request = Request::post(format!("{API}/tasks"), &json!({"tasks": tasks}));
    let made = hub.client().send(&request);
    made.expect("the hub serves").expect(201);
    if round > 0 {
        pool.world.hub_serves(0, hub.addr());
    }
    pool.world.wait_for_more(random.between(1, CHANGES_MAX));
    linger(random, WITHIN_A_BATCH);
    pool.world.hub_ends(0);
    hub.kill();
    *hub = project.start();
}

/// Looks until all tasks are completed; tells what is left if they never are.
#[track_caller]
fn everything_is_done(hub: &Hub, tasks: u64) {
    const EVERY: Duration = Duration::from_millis(5);
    let mut client = hub.client();
    let deadline = Instant::now() + PATIENCE;
    while client.status()["tasks"]["completed"] != tasks {
        if Instant::now() >= deadline {
            let path = format!("{API}/tasks?status=ready,claimed,in_progress");
            panic!("never completed: {}", client.get(&path).text());
        }
        thread::sleep(EVERY);
    }
}

/// One message each; whoever has it has had all before it, and goes.
fn say_good_bye(hub: &Hub, agents: &[String]) {
    let mut client = hub.client();
    for agent in agents {
        let message =
            json!({"id": format!("{END}-{agent}"), "to": agent, "type": "custom", "payload": null});
        let body = json!({"agentId": "steward", "message": message});
        client.post(&format!("{API}/messages"), &body).expect(200);
    }
}

/// A port that is free, and that the system gives to nobody who only asks for any.
fn steady_port(random: &mut Random) -> u16 {
    const FROM: u64 = 20_000;
    const TO: u64 = 32_000;
    until("a free port", || {
        let port = u16::try_from(random.between(FROM, TO)).ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    })
}
