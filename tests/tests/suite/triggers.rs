//! Scripts that have nothing but trigger files, and the real binary that is killed beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rusqlite::Connection;
use serde_json::Value;
use switchboard_tests::{Project, until};

const WRITERS: usize = 3;
const FILES: usize = 60;
const KILLS: usize = 8;

/// Writes a message by rename; every other one has an id.
fn write(triggers: &Path, writer: usize, number: usize) {
    let role = ["ARCH", "BUILDER", "ORACLE"][writer];
    let id = match number % 2 {
        0 => format!("[HM-MESSAGE-ID:hm-{writer}-{number}]\n"),
        _ => String::new(),
    };
    let text = format!("{id}({role} #{}): {writer}/{number}\n", number + 1);
    let half = triggers.join(format!(".{writer}"));
    fs::write(&half, text).expect("a trigger file can be written");
    let name = format!("architect~{writer}-{number}.txt");
    fs::rename(half, triggers.join(name)).expect("and put in its place");
}

fn rest(triggers: &Path) -> usize {
    let count = |dir: &Path| {
        let found = fs::read_dir(dir).expect("it is there");
        let names = found.map(|entry| entry.expect("it has a name").file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".txt"))
            .count()
    };
    count(triggers) + count(&triggers.join("taken"))
}

#[test]
fn trigger_files_are_neither_lost_nor_doubled_when_the_hub_is_killed() {
    let project = Project::new();
    let mut hub = project.start();
    let triggers = project.root().join(".squidrun/triggers");
    let written = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let triggers = &triggers;
            scope.spawn(move || {
                for number in 0..FILES {
                    write(triggers, writer, number);
                    written.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for kill in 1..=KILLS {
            let enough = kill * WRITERS * FILES / (KILLS + 1);
            until("files are written", || {
                (written.load(Ordering::SeqCst) >= enough).then_some(())
            });
            hub.kill();
            hub = project.start();
        }
    });
    until("every file is said", || {
        (rest(&triggers) == 0).then_some(())
    });
    let journal = project.root().join(".squidrun/runtime/evidence-ledger.db");
    let journal = Connection::open(journal).expect("the journal can be read");
    until("every message is journaled", || {
        let query =
            "SELECT count(*) FROM comms_journal WHERE sender_role <> 'hub' AND status = 'brokered'";
        let count = journal.query_row(query, [], |row| row.get::<_, i64>(0));
        (usize::try_from(count.ok()?) == Ok(WRITERS * FILES)).then_some(())
    });
    hub.stop();
    let ledger = Connection::open(project.database()).expect("the ledger can be read");
    let mut query = ledger
        .prepare("SELECT payload FROM messages WHERE from_agent <> 'hub'")
        .expect("it has messages");
    let payloads = query
        .query_map([], |row| row.get::<_, String>(0))
        .expect("they can be read");
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    for payload in payloads {
        let payload: Value =
            serde_json::from_str(&payload.expect("it is text")).expect("it is JSON");
        let text = payload["text"].as_str().unwrap_or_default();
        *said.entry(text.to_owned()).or_default() += 1;
    }
    assert_eq!(said.len(), WRITERS * FILES);
    assert!(said.values().all(|times| *times == 1), "{said:?}");
}
