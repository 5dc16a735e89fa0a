//! The hub is killed under load, again and again; afterwards every acknowledged change is there, once.

use std::thread;
use std::time::{Duration, Instant};

use switchboard_tests::{API, Hub, Project, Random};

use self::check::{Seen, check};
use self::client::Worker;
use self::facts::{Fact, Learnt, Record};
use self::history::History;
use self::ledger::Books;
use self::world::{EndsWith, World};

pub mod check;
pub mod client;
pub mod facts;
mod heard;
pub mod history;
pub mod ledger;
mod look;
mod order;
pub mod world;

/// More rounds than in the suite: `SWITCHBOARD_CRASH_ROUNDS=2000`.
const ROUNDS: &str = "SWITCHBOARD_CRASH_ROUNDS";
const SEED: &str = "SWITCHBOARD_CRASH_SEED";
const ROUNDS_IN_THE_SUITE: u64 = 50;
const CLIENTS: usize = 6;

#[test]
fn whatever_was_acknowledged_survives_being_killed_and_nothing_happens_twice() {
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_IN_THE_SUITE, |text| {
        text.parse().expect("the number of rounds is a number")
    });
    let seed = Random::seed_from(SEED);
    println!("crash test: {SEED}={seed} {ROUNDS}={rounds}");
    let mut random = Random::seeded(seed);
    let project = Project::new();
    let agents: Vec<String> = (0..CLIENTS).map(|n| format!("agent-{n}")).collect();
    let (hub, mut records) = rounds_of_killing(&project, &agents, rounds, &mut random);

    let mut client = hub.client();
    read_the_rest(&hub, &mut records);
    let seen = Seen::now(&mut client);
    check(&records, &agents, &seen);
    let books = Books::File(project.database());
    ledger::counters_are_true(&mut client, &books);
    hub.stop();
    ledger::is_whole(&books, &seen.history);
    tell(&records, &seen.history);
    // Otherwise the kills never hit anything, and all of this proves nothing.
    let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
    assert!(
        sum(|record| record.lost) >= rounds,
        "hardly an answer was lost"
    );
    assert!(
        sum(|record| record.replayed) > 0,
        "no change was ever cut off from its answer"
    );
}

#[test]
fn a_hub_that_was_killed_while_it_made_its_ledger_starts_all_the_same() {
    const TIMES: u64 = 20;
    let seed = Random::seed_from(SEED);
    println!("{SEED}={seed}");
    let mut random = Random::seeded(seed);
    for _ in 0..TIMES {
        let project = Project::new();
        project.start_and_kill(|| linger(&mut random, WHILE_IT_STARTS));
        let hub = start(&project);
        hub.client().create("first");
        hub.stop();
    }
}

/// Clients work all the time; the hub is killed after a random number of answers. Ends with a hub that serves.
fn rounds_of_killing(
    project: &Project,
    agents: &[String],
    rounds: u64,
    random: &mut Random,
) -> (Hub, Vec<Record>) {
    let world = World::of(1).with_file(project.database());
    let mut hub = project.start();
    agents.iter().for_each(|agent| hub.client().register(agent));
    let worker = random.fork();
    let records = under_load(&world, agents, worker, || {
        world.hub_serves(0, hub.addr());
        for _ in 0..rounds {
            world.wait_for_more(random.between(1, 400));
            if world.is_over() {
                break;
            }
            linger(random, WITHIN_A_BATCH);
            world.hub_ends(0);
            hub.kill();
            if random.percent(20) {
                project.start_and_kill(|| linger(random, WHILE_IT_STARTS));
            }
            hub = start(project);
            world.hub_serves(0, hub.addr());
        }
        world.wait_for_more(agents.len() as u64);
    });
    (hub, records)
}

/// Every agent works while `trouble` runs, and ends with it. Tells what each of them knows.
pub fn under_load(
    world: &World,
    agents: &[String],
    mut random: Random,
    trouble: impl FnOnce(),
) -> Vec<Record> {
    thread::scope(|scope| {
        let end = EndsWith(world);
        let workers: Vec<_> = agents
            .iter()
            .map(|agent| {
                let random = random.fork();
                scope.spawn(move || Worker::new(world, agent, agents, random).run())
            })
            .collect();
        trouble();
        drop(end);
        let join = |worker: thread::ScopedJoinHandle<'_, Record>| {
            worker
                .join()
                .unwrap_or_else(|failed| std::panic::resume_unwind(failed))
        };
        workers.into_iter().map(join).collect()
    })
}

/// Starts a hub, and looks whether others can find it.
pub fn start(project: &Project) -> Hub {
    let hub = project.start();
    let card = std::fs::read(project.data_dir().join("hub.json")).expect("a hub tells where it is");
    let card: serde_json::Value = serde_json::from_slice(&card).expect("it is JSON");
    assert_eq!(card["pid"], hub.pid());
    assert_eq!(card["http"], hub.addr().to_string());
    hub
}

/// The longest moments before a kill. They only choose where it falls; nothing is expected to have happened by then.
pub const WITHIN_A_BATCH: Duration = Duration::from_millis(3);
const WHILE_IT_STARTS: Duration = Duration::from_millis(60);

pub fn linger(random: &mut Random, at_most: Duration) {
    let micros = random.below(at_most.as_micros() as u64);
    let until = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < until {
        thread::yield_now();
    }
}

/// Messages that were sent after the agents last looked.
pub fn read_the_rest(hub: &Hub, records: &mut [Record]) {
    let mut client = hub.client();
    for record in records {
        let path = format!("{API}/messages?agentId={}&limit=500", record.agent);
        loop {
            let body = client.get(&path).expect(200);
            let messages = body["messages"].as_array().expect("a list of messages");
            if messages.is_empty() {
                break;
            }
            let id = |message: &serde_json::Value| message["id"].as_str().map(str::to_owned);
            let messages = messages.iter().filter_map(id).collect();
            let received = Fact::Received { messages };
            record.facts.push(Learnt::at_last(received));
        }
    }
}

pub fn tell(records: &[Record], history: &History) {
    let sum = |of: fn(&Record) -> u64| records.iter().map(of).sum::<u64>();
    println!(
        "{} acknowledged, {} answers lost, {} told to come back, {} unknown, {} replayed, {} left in doubt; {} events, {} tasks, {} claims, {} messages",
        sum(|record| record.facts.len() as u64),
        sum(|record| record.lost),
        sum(|record| record.not_done),
        sum(|record| record.unknown),
        sum(|record| record.replayed),
        sum(|record| record.doubts.len() as u64),
        history.latest,
        history.created.len(),
        history.claimed.len(),
        history.sent.len(),
    );
}
