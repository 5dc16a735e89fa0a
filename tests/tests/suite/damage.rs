//! Bits flip on the disk of a hub that was killed: it starts with all it acknowledged, or not at all.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use switchboard_tests::{Project, Random};

const TASKS: usize = 12;
const FLIPS: usize = 6;

/// The ledger and its write-ahead log.
fn files(project: &Project) -> [PathBuf; 2] {
    let ledger = project.database();
    let log = ledger.with_extension("db-wal");
    [ledger, log]
}

/// The files as a kill left them, all commits but the first few in the log; and where the last commit begins.
fn killed() -> (Project, [Vec<u8>; 2], usize) {
    let project = Project::new();
    let mut hub = project.start();
    let mut client = hub.client();
    client.create("first");
    // Reads on, so that the log is not begun anew, and leaves it behind.
    let reader = Connection::open(project.database()).expect("it opens");
    reader
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .expect("a setting");
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM tasks")
        .expect("it reads");
    let log = || {
        fs::metadata(&files(&project)[1])
            .expect("it is there")
            .len() as usize
    };
    let mut last_from = log();
    for n in 0..TASKS {
        last_from = log();
        client.create(&format!("t-{n}"));
    }
    hub.kill();
    let kept = files(&project).map(|file| fs::read(file).expect("it is there"));
    drop(reader);
    (project, kept, last_from)
}

fn put_back(project: &Project, kept: &[Vec<u8>; 2]) {
    for (file, bytes) in files(project).iter().zip(kept) {
        fs::write(file, bytes).expect("it can be written");
    }
    let _ = fs::remove_file(project.database().with_extension("db-shm"));
}

#[test]
fn a_bit_flipped_in_the_log_of_a_killed_hub_is_refused_and_without_it_nothing_is_lost() {
    let seed = Random::seed_from("SWITCHBOARD_DAMAGE_SEED");
    println!("SWITCHBOARD_DAMAGE_SEED={seed}");
    let mut random = Random::seeded(seed);
    let (project, kept, last_from) = killed();
    for flip in 0..FLIPS {
        // The first in the head of the log; none in the last commit, which a power cut may take.
        let byte = random.index(if flip == 0 { 32 } else { last_from });
        let mut flipped = kept.clone();
        flipped[1][byte] ^= 1 << random.below(8);
        put_back(&project, &flipped);
        let ended = project.start_in_vain();
        for word in ["the ledger is damaged", "doctor", "backup"] {
            let said = &ended.stderr;
            assert!(said.contains(word), "seed {seed}, byte {byte}: {said}");
        }
        let log = fs::read(&files(&project)[1]).expect("it is there");
        assert!(
            log == flipped[1],
            "seed {seed}, byte {byte}: it was changed"
        );
    }
    put_back(&project, &kept);
    let hub = project.start();
    assert_eq!(hub.client().status()["tasks"]["total"], TASKS + 1);
    hub.stop();
}
