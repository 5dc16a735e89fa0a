//! What holds between two to five nodes, whatever lines, clocks, agents and backups do. Time is virtual and there are no
//! threads: a seed is a whole run, and the same seed is the same run.
//!
//! `SWITCHBOARD_NODES_SEED=17` runs one seed, `SWITCHBOARD_NODES_SEEDS=5000` so many.

use std::time::Duration;

use tried::Tried;
use world::World;

mod hold;
mod station;
mod tried;
mod world;

const SEED: &str = "SWITCHBOARD_NODES_SEED";
const SEEDS: &str = "SWITCHBOARD_NODES_SEEDS";
const SEEDS_DEFAULT: u64 = 300;

#[test]
fn whatever_happens_between_nodes_every_event_has_its_effect_once_or_a_person_is_told() {
    let mut tried = Tried::default();
    for seed in seeds() {
        println!("{SEED}={seed}");
        let mut world = World::new(seed);
        world.run();
        world.recover();
        hold::all(&world);
        world.is_silent();
        tried.add(&world.tried);
    }
    tried.is_worth_it();
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = || {
        let mut world = World::new(4);
        world.run();
        let rows = |station: &station::Station| format!("{:?}", station.swarm.records);
        world.stations.iter().map(rows).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

fn seeds() -> Vec<u64> {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse().expect("a seed is a number"))
    };
    match number(SEED) {
        Some(seed) => vec![seed],
        None => (1..=number(SEEDS).unwrap_or(SEEDS_DEFAULT)).collect(),
    }
}

/// Draws by seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap_or(0)
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn seconds(&mut self, bound: usize) -> Duration {
        Duration::from_millis(self.below(bound * 1000) as u64)
    }

    /// One of a list that may be empty.
    fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len())].clone())
    }
}
