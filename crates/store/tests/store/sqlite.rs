//! The SQLite engine: the same histories as in memory, whatever the working set remembers.

use std::path::Path;

use switchboard_store::conformance::{self, Cache, Ledger, Random};
use switchboard_store::memory::MemoryEngine;
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, ManualClock};

fn open(path: &Path, clock: &ManualClock) -> Box<dyn Engine> {
    Box::new(SqliteEngine::open(path, Box::new(clock.clone())).expect("a new file opens"))
}

fn same_as_memory(cache: impl Fn(u64) -> Cache, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = ManualClock::at(conformance::START);
        let memory = Box::new(MemoryEngine::new(Box::new(clock.clone())));
        let mut left = Ledger::new(memory);
        let file = open(&dir.path().join("ledger.db"), &clock);
        let mut right = Ledger::new(file).with_cache(cache(seed));
        conformance::differential(&mut left, &mut right, &clock, seed, 300);
    }
}

#[test]
fn a_file_tells_the_same_history_as_memory() {
    same_as_memory(|_| Cache::Kept, 0..12);
}

#[test]
fn a_file_tells_the_same_history_when_nothing_is_remembered_between_batches() {
    same_as_memory(|_| Cache::Forgotten, 100..112);
}

#[test]
fn a_file_tells_the_same_history_when_memory_is_lost_at_random() {
    same_as_memory(|seed| Cache::ForgottenAtRandom(Random::new(seed)), 200..212);
}

#[test]
fn a_file_passes_the_conformance_suite() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut made = 0;
    conformance::run(&mut |clock| {
        made += 1;
        open(&dir.path().join(format!("{made}.db")), &clock)
    });
}
