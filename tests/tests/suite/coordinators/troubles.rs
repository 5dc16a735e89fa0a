//! Three coordinators under load: they are killed, stopped and woken, the database crashes. Afterwards every
//! acknowledged change is there, once.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{API, Client, Hub, Project, Random, Request, Signal, until};

use super::Team;
use crate::crash::check::{Seen, check};
use crate::crash::facts::Record;
use crate::crash::ledger::{self, Books};
use crate::crash::world::World;
use crate::crash::{WITHIN_A_BATCH, linger, read_the_rest, start, tell, under_load};

const SEED: &str = "SWITCHBOARD_CRASH_SEED";
/// More rounds of each trouble than in the suite: `SWITCHBOARD_TROUBLE_TIMES=20`.
const TIMES: &str = "SWITCHBOARD_TROUBLE_TIMES";
const COORDINATORS: usize = 3;
const CLIENTS: usize = 9;
/// Longer than a batch takes that waits for another coordinator, which may hold the head for two seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Shorter than PostgreSQL leaves the head to a coordinator that sleeps, so that its clients go elsewhere.
const SHORT_PATIENCE: Duration = Duration::from_millis(1800);

#[test]
fn coordinators_are_killed_under_load_and_nothing_acknowledged_is_lost_or_done_twice() {
    let Some(server) = Cluster::shared("killing coordinators") else {
        return;
    };
    // A machine that is busy elsewhere may never kill within the moment between a commit and its answer.
    let cut_off = (0..3).any(|_| {
        let database = server.create_database();
        let world = World::of(COORDINATORS).with_patience(PATIENCE);
        let records = Load::on(&database.url, &database).run(&world, |load, random| {
            for _ in 0..30 * times() {
                world.wait_for_more(random.between(1, 400));
                linger(random, WITHIN_A_BATCH);
                load.kill(&world, random);
            }
        });
        records.iter().any(|record| record.replayed > 0)
    });
    assert!(cut_off, "no change was ever cut off from its answer");
}

#[test]
fn a_database_that_crashes_under_load_loses_nothing_acknowledged() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("crashing the database"),
    };
    let database = cluster.create_database();
    let world = World::of(COORDINATORS)
        .with_patience(PATIENCE)
        .with_outages();
    let records = Load::on(&database.url, &database).run(&world, |load, random| {
        for _ in 0..5 * times() {
            world.wait_for_more(random.between(1, 1500));
            linger(random, WITHIN_A_BATCH);
            cluster.stop_immediate();
            cluster.start_again();
            if random.percent(50) {
                world.wait_for_more(1);
                load.kill(&world, random);
            }
        }
    });
    let told: u64 = records
        .iter()
        .map(|record| record.not_done + record.unknown)
        .sum();
    assert!(told > 0, "nobody noticed that the database was away");
}

#[test]
fn a_coordinator_that_sleeps_and_wakes_with_stale_knowledge_does_no_harm() {
    let Some(server) = Cluster::shared("stopping coordinators for a while") else {
        return;
    };
    let database = server.create_database();
    let world = World::of(COORDINATORS)
        .with_patience(SHORT_PATIENCE)
        .with_outages();
    let records = Load::on(&database.url, &database).run(&world, |load, random| {
        for round in 0..4 * times() {
            world.wait_for_more(random.between(1, 1000));
            let sleeper = random.index(COORDINATORS);
            world.hub_sleeps(sleeper);
            let hub = &load.team.hubs[sleeper];
            if round % 2 == 0 {
                falls_asleep_with_the_head(hub, &database);
                until("the database takes the head back", || {
                    (!sleeps_with_the_head(&database)).then_some(())
                });
            } else {
                linger(random, WITHIN_A_BATCH);
                hub.signal(Signal::STOP);
            }
            // The others go on, and it knows nothing of it.
            world.wait_for_more(300);
            hub.signal(Signal::CONT);
        }
    });
    let lost: u64 = records.iter().map(|record| record.lost).sum();
    assert!(lost > 0, "nobody was connected to a coordinator that slept");
}

/// Stops it in the middle of a batch.
fn falls_asleep_with_the_head(hub: &Hub, database: &Database) {
    until("it sleeps while it holds the head", || {
        hub.signal(Signal::STOP);
        if sleeps_with_the_head(database) {
            return Some(());
        }
        hub.signal(Signal::CONT);
        None
    });
}

/// Whether somebody began a batch and then did nothing for longer than those who are awake ever do.
fn sleeps_with_the_head(database: &Database) -> bool {
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '30 ms'";
    // Longer ago than that, when it is seen.
    database.sql(&format!("SELECT pg_sleep(0.03); {idle}")) != "\n0"
}

fn times() -> u64 {
    std::env::var(TIMES).map_or(1, |text| {
        text.parse().expect("the number of times is a number")
    })
}

/// Three coordinators on a database, and agents that work with all of them.
pub struct Load<'a> {
    database: &'a Database,
    pub team: Team,
    agents: Vec<String>,
    /// What nobody acknowledged may be seen and then be gone.
    may_rewind: bool,
}

impl<'a> Load<'a> {
    fn on(url: &str, database: &'a Database) -> Load<'a> {
        Load::of(Team::on(url, COORDINATORS), database)
    }

    /// The same with coordinators that serve already.
    pub fn of(team: Team, database: &'a Database) -> Load<'a> {
        let agents: Vec<String> = (0..CLIENTS).map(|n| format!("agent-{n}")).collect();
        let mut client = team.client(0);
        agents.iter().for_each(|agent| client.register(agent));
        Load {
            database,
            team,
            agents,
            may_rewind: false,
        }
    }

    /// The same where a standby takes over that has not received everything.
    pub fn that_may_rewind(self) -> Load<'a> {
        Load {
            may_rewind: true,
            ..self
        }
    }

    fn kill(&mut self, world: &World, random: &mut Random) {
        let hub = random.index(COORDINATORS);
        world.hub_ends(hub);
        self.team.hubs[hub].kill();
        self.team.hubs[hub] = start(&self.team.projects[hub]);
        world.hub_serves(hub, self.team.hubs[hub].addr());
    }

    /// One leaves in good order, and another takes its place.
    pub fn replace(&mut self, world: &World, hub: usize, project: Project) {
        let joins = start(&project);
        world.hub_ends(hub);
        let leaves = std::mem::replace(&mut self.team.hubs[hub], joins);
        leaves.stop();
        self.team.projects[hub] = project;
        world.hub_serves(hub, self.team.hubs[hub].addr());
    }

    /// Clients work while there is trouble; then everything is checked that they were told.
    pub fn run(
        mut self,
        world: &World,
        trouble: impl FnOnce(&mut Load<'_>, &mut Random),
    ) -> Vec<Record> {
        let seed = Random::seed_from(SEED);
        println!("{SEED}={seed}");
        let mut random = Random::seeded(seed);
        let (workers, mut watcher) = (random.fork(), random.fork());
        for (hub, at) in self.team.hubs.iter().enumerate() {
            world.hub_serves(hub, at.addr());
        }
        let agents = self.agents.clone();
        let (mut records, watched) = thread::scope(|scope| {
            let watched = scope.spawn(|| watch(world, &mut watcher));
            let records = under_load(world, &agents, workers, || {
                trouble(&mut self, &mut random);
                world.wait_for_more(agents.len() as u64);
            });
            let watched = watched
                .join()
                .unwrap_or_else(|failed| std::panic::resume_unwind(failed));
            (records, watched)
        });
        let repeated: u64 = records.iter().map(|record| record.repeated).sum();
        assert!(repeated > 0, "nobody asked twice for an answer");
        self.check(&mut records, &watched);
        records
    }

    fn check(self, records: &mut [Record], watched: &[Value]) {
        // Those who were acknowledged last may all have been served by another one.
        let mut clients = self.team.clients();
        for client in &mut clients {
            until("it has the database back", || {
                (client.get("/readyz").status == 200).then_some(())
            });
        }
        read_the_rest(&self.team.hubs[0], records);
        let seen = Seen::now(&mut clients[0]);
        check(records, &self.agents, &seen);
        tell(records, &seen.history);
        let log = clients[0].events();
        let is_rewound = log.iter().any(|event| event["type"] == "epoch_began");
        assert!(self.may_rewind || !is_rewound, "nothing can have been lost");
        // Events of whoever still looks after something may have come since.
        for client in &mut clients[1..] {
            assert!(client.events().starts_with(&log), "one log for all");
        }
        assert!(
            log.starts_with(watched),
            "what was read while it was written"
        );
        let books = Books::Database(self.database);
        ledger::counters_are_true(&mut clients[0], &books);
        drop(clients);
        self.team.stop();
        ledger::is_whole(&books, &seen.history);
    }
}

/// Reads the log all the time, now here, now there; it never shows a gap that is filled later. What it showed holds,
/// unless it says itself that the ledger was rewound.
fn watch(world: &World, random: &mut Random) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    let mut epoch = 1;
    let mut place = world.somewhere(random);
    let mut client = Client::with_patience(place.addr, world.patience);
    loop {
        // Once more when all is over: what it saw last may have been lost.
        let is_over = world.is_over();
        let path = format!("{API}/events?after={epoch}.{}&limit=200", seen.len());
        match client.send(&Request::get(path)) {
            Ok(answer) if answer.status == 200 => {
                let page = answer.json();
                epoch = page["epoch"].as_u64().expect("a page has an epoch");
                if page["ledger_rewound"] == true {
                    let first = page["events"][0]["seq"].as_u64();
                    seen.truncate(first.map_or(0, |first| first as usize - 1));
                }
                let events = page["events"].as_array().expect("a page has events");
                for event in events {
                    assert_eq!(event["seq"], seen.len() as u64 + 1, "{event}");
                    seen.push(event.clone());
                }
                if is_over {
                    break;
                }
                world.wait_for_more(20);
            }
            Ok(answer) => {
                assert!(world.outages, "{}", answer.text());
                answer.expect_error(503, "db_unavailable");
                world.wait_for_more(1);
            }
            Err(_) if world.is_over() => break,
            Err(error) => {
                place = world.elsewhere(place, &error, random);
                client = Client::with_patience(place.addr, world.patience);
            }
        }
        if random.percent(20) && !world.is_over() {
            place = world.somewhere(random);
            client = Client::with_patience(place.addr, world.patience);
        }
    }
    seen
}
