//! Bits flip on the disk of a hub that was killed: it starts with all it acknowledged, or not at all.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::Value;
use switchboard_tests::{Project, Random, switchboard};

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

/// A bit flips in the file of a hub that was stopped. What the hub cannot find by itself `doctor --deep` finds, if it is what
/// decides who does what.
#[test]
fn a_bit_flipped_in_the_database_is_refused_or_changes_no_holder_that_doctor_would_not_name() {
    const FLIPS: usize = 24;
    const AGENTS: [&str; 3] = ["ada", "ben", "cyd"];
    let seed = Random::seed_from("SWITCHBOARD_DAMAGE_SEED");
    println!("SWITCHBOARD_DAMAGE_SEED={seed}");
    let mut random = Random::seeded(seed);
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    let names: Vec<String> = (0..TASKS).map(|n| format!("t-{n}")).collect();
    names.iter().for_each(|name| drop(client.create(name)));
    for agent in AGENTS {
        client.register(agent);
        let done = client.claim(agent).expect("there is work");
        let id = done["id"].as_str().expect("it has an id");
        client.complete(agent, id, 1);
        client.claim(agent).expect("there is more");
    }
    let standing =
        |task: &Value| ["status", "assignedAgent", "epoch"].map(|field| task[field].to_string());
    let truth: Vec<_> = names
        .iter()
        .map(|name| standing(&client.task(name)))
        .collect();
    drop(client);
    hub.stop();
    let whole = fs::read(project.database()).expect("it is there");
    let [mut refused, mut named] = [0; 2];
    for _ in 0..FLIPS {
        let byte = random.index(whole.len());
        let mut flipped = whole.clone();
        flipped[byte] ^= 1 << random.below(8);
        put_back(&project, &[flipped, Vec::new()]);
        let deep = Command::new(switchboard())
            .args(["doctor", "--deep"])
            .current_dir(project.root())
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let hub = match project.try_start() {
            Ok(hub) => hub,
            Err(ended) => {
                let said = ended.stderr;
                assert!(
                    !said.contains("panicked"),
                    "seed {seed}, byte {byte}: {said}"
                );
                refused += 1;
                continue;
            }
        };
        let mut client = hub.client();
        let found = names.iter().map(|name| {
            let answer = client.get(&format!("/api/v1/tasks/{name}"));
            (answer.status == 200).then(|| standing(&answer.expect(200)["task"]))
        });
        let is_true = found.eq(truth.iter().cloned().map(Some));
        assert!(
            is_true || !deep.status.success(),
            "seed {seed}, byte {byte}: other than it was, and doctor saw nothing"
        );
        named += usize::from(!is_true);
        drop(hub);
    }
    println!("{refused} refused, {named} named by doctor, of {FLIPS}");
}
