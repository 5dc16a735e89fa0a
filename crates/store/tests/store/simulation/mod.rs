//! The simulation: agents that crash, stall, repeat themselves and come back, several coordinators that do the same, and a
//! clock that runs as fast as they do. No threads: a seed is a whole run, and the same seed is the same run.
//!
//! `SWITCHBOARD_SIMULATION_SEED=17` runs one seed, `SWITCHBOARD_SIMULATION_SEEDS=1000` so many fresh ones.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_core::{AgentId, Timestamp};
use switchboard_store::ManualClock;
use switchboard_store::conformance::{Everything, Random, START};
use switchboard_store::memory::MemoryEngine;
use switchboard_store::sqlite::SqliteEngine;

use self::agent::{Agent, Facts};
use self::call::Act;
use self::coordinator::{Coordinators, Open};
use self::laws::Laws;

mod agent;
mod call;
mod coordinator;
mod laws;

const SEED: &str = "SWITCHBOARD_SIMULATION_SEED";
const SEEDS: &str = "SWITCHBOARD_SIMULATION_SEEDS";
/// Always run; a seed that found something is added here.
const KEPT: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
const FRESH: u64 = 4;
/// Ticks in which things break.
const TICKS: u64 = 500;
/// Ticks after which everything must have ended, once nothing breaks any more.
const TICKS_TO_RECOVER: u64 = 5_000;
const AGENTS: &[&str] = &["ann", "bob", "cas", "dee", "eve"];

#[test]
fn whatever_crashes_stalls_or_repeats_itself_the_laws_hold_and_every_task_ends() {
    let mut done = Totals::default();
    for seed in seeds() {
        println!("{SEED}={seed}");
        let count = 1 + (seed % 3) as usize;
        let clock = ManualClock::at(START);
        let first = MemoryEngine::new(Box::new(clock.clone()));
        let open: Open = Box::new(move |clock| Box::new(first.beside(Box::new(clock.clone()))));
        done.add(&Simulation::new(seed, count, open, clock).run());
    }
    done.is_worth_it();
}

#[test]
fn the_same_on_a_file() {
    for seed in seeds().into_iter().take(4) {
        println!("{SEED}={seed}");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ledger.db");
        let open: Open = Box::new(move |clock| {
            let opened = SqliteEngine::open(&path, Box::new(clock.clone()));
            Box::new(opened.expect("the file opens"))
        });
        Simulation::new(seed, 1, open, ManualClock::at(START)).run();
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || {
        let clock = ManualClock::at(START);
        let first = MemoryEngine::new(Box::new(clock.clone()));
        let open: Open = Box::new(move |clock| Box::new(first.beside(Box::new(clock.clone()))));
        let mut simulation = Simulation::new(KEPT[0], 2, open, clock);
        simulation.run();
        simulation.seen.log
    };
    assert_eq!(run(), run());
}

fn seeds() -> Vec<u64> {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
        )
    };
    if let Some(seed) = number(SEED) {
        return vec![seed];
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let fresh = (now.as_nanos() as u64)..;
    let fresh = fresh.take(number(SEEDS).unwrap_or(FRESH) as usize);
    KEPT.iter().copied().chain(fresh).collect()
}

struct Simulation {
    seed: u64,
    random: Random,
    clock: ManualClock,
    coordinators: Coordinators,
    agents: Vec<Agent>,
    /// For keys and names.
    next: u64,
    facts: Facts,
    laws: Laws,
    seen: Everything,
}

impl Simulation {
    fn new(seed: u64, coordinators: usize, open: Open, clock: ManualClock) -> Simulation {
        let coordinators = Coordinators::new(open, &clock, coordinators);
        let seen = Everything::read(&*coordinators.reader);
        Simulation {
            seed,
            random: Random::new(seed),
            clock,
            coordinators,
            agents: AGENTS.iter().map(|name| Agent::new(name)).collect(),
            next: 0,
            facts: Facts::default(),
            laws: Laws::default(),
            seen,
        }
    }

    fn run(&mut self) -> Facts {
        for _ in 0..TICKS {
            self.pass();
            self.trouble();
            self.tick(true);
        }
        self.recover();
        self.laws.agree_with(&self.facts, &self.seen);
        std::mem::take(&mut self.facts)
    }

    /// Time goes on: mostly a little, and now and then the whole machine sleeps.
    fn pass(&mut self) {
        let ms = match self.random.below(400) {
            0 => 200_000 + self.random.below(600_000),
            1..5 => 5_000 + self.random.below(40_000),
            _ => self.random.below(4_000),
        };
        self.clock.advance(Duration::from_millis(ms));
    }

    fn trouble(&mut self) {
        let now = self.now();
        for agent in &mut self.agents {
            match self.random.below(400) {
                0 => agent.crash(now, &mut self.random),
                1..4 => {
                    let stalls = self.random.below(400_000);
                    agent.away_until = now + Duration::from_millis(stalls);
                }
                _ => {}
            }
        }
    }

    fn tick(&mut self, chaos: bool) {
        let now = self.now();
        let others: Vec<AgentId> = self
            .seen
            .agents
            .iter()
            .map(|agent| agent.id.clone())
            .collect();
        for agent in &mut self.agents {
            let call = agent.act(now, &mut self.next, &others, &mut self.random, chaos);
            if let Some(call) = call {
                self.coordinators.send(call, &mut self.random);
            }
        }
        for handled in self.coordinators.tick(now, &mut self.random, chaos) {
            let is_fresh = matches!(&handled.real, Some(Ok(answer)) if !answer.is_replay);
            // Tasks are created in nobody's name.
            if is_fresh && !matches!(handled.call.act, Act::Create(_)) {
                self.laws.heard(&handled.call.by, now);
            }
            let by = self
                .agents
                .iter_mut()
                .find(|agent| agent.id == handled.call.by);
            if let Some(agent) = by {
                agent.hear(
                    &handled.call,
                    handled.told,
                    now,
                    &mut self.facts,
                    &mut self.random,
                );
            }
        }
        let after = Everything::read(&*self.coordinators.reader);
        self.laws
            .hold(&self.seen, &after, &self.coordinators.served_since);
        self.seen = after;
    }

    /// Nothing breaks any more, and everything comes to its end.
    fn recover(&mut self) {
        let now = self.now();
        for agent in &mut self.agents {
            agent.away_until = agent.away_until.min(now);
        }
        for _ in 0..TICKS_TO_RECOVER {
            let ms = 1_000 + self.random.below(3_000);
            self.clock.advance(Duration::from_millis(ms));
            self.tick(false);
            let open = self.seen.tasks.iter().any(|task| !task.status().is_final());
            if !open && self.agents.iter().all(Agent::is_done) {
                return;
            }
        }
        let open: Vec<_> = self
            .seen
            .tasks
            .iter()
            .filter(|task| !task.status().is_final())
            .collect();
        panic!("seed {}: these never end: {open:#?}", self.seed);
    }

    fn now(&mut self) -> Timestamp {
        self.clock.now()
    }
}

/// What all runs together had in them.
#[derive(Default)]
struct Totals {
    completed: usize,
    lost: usize,
    repeated: u64,
    received: usize,
    leased: usize,
}

impl Totals {
    fn add(&mut self, facts: &Facts) {
        self.completed += facts.completed.len();
        self.lost += facts.lost.len();
        self.repeated += facts.repeated;
        self.received += facts.received.len();
        self.leased += facts.leased.len();
    }

    /// Otherwise nothing was tried.
    fn is_worth_it(&self) {
        println!(
            "{} completed, {} lost to silence, {} asked for twice, {} messages, {} leases",
            self.completed, self.lost, self.repeated, self.received, self.leased
        );
        let counts = [self.completed, self.lost, self.received, self.leased];
        assert!(self.repeated > 0 && counts.iter().all(|count| *count > 0));
    }
}
