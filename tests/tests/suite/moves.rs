//! One ledger at a time: what was moved or is left unserved is neither served nor written by mistake, and the link stays
//! with the hub that runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{Project, switchboard, until, with_parameter};

const BY_HAND: &str = "INSERT INTO tasks(id, title) VALUES ('late', 'Late')";

fn database() -> Option<Database> {
    Some(Cluster::shared("a ledger that is elsewhere")?.create_database())
}

fn command(project: &Project, words: &[&str]) -> Output {
    Command::new(switchboard())
        .args(words)
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

fn by_hand(file: &Path, sql: &str) -> Output {
    let mut command = Command::new("sqlite3");
    let output = command.arg(file).arg(sql).output();
    output.expect("the sqlite3 command-line tool is there")
}

fn swarm_db(project: &Project) -> PathBuf {
    project.root().join(".jetpack/swarm.db")
}

#[track_caller]
fn says(output: &Output, words: &[&str]) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{output:?}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    said
}

fn with_tasks() -> Project {
    let project = Project::new();
    let hub = project.start();
    hub.client().create("one");
    hub.stop();
    project
}

#[test]
fn a_ledger_that_was_moved_is_served_again_only_if_the_move_is_abandoned() {
    let Some(database) = database() else { return };
    let mut project = with_tasks();
    let secret = with_parameter(&database.url, "password=sesame");
    let moved = command(&project, &["migrate", "--to", &secret]);
    assert!(moved.status.success(), "{moved:?}");
    let told = String::from_utf8_lossy(&moved.stdout).into_owned();
    assert!(told.contains("is marked as moved"), "{told}");
    assert!(!told.contains("sesame"), "{told}");

    let words = [
        &*format!("was moved to {} at 2", database.url),
        "--store",
        "--abandon-move",
    ];
    let ended = project.start_in_vain();
    assert_eq!(ended.status.code(), Some(1));
    for word in words {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
    for file in [swarm_db(&project), project.database()] {
        let said = says(&by_hand(&file, BY_HAND), &words);
        assert!(!said.contains("sesame"), "{said}");
    }
    says(&command(&project, &["backup"]), &[words[0], "--from"]);
    says(&command(&project, &["migrate", "--to", "other.db"]), &words);

    project.move_store(Some(&secret));
    let hub = project.start();
    assert_eq!(hub.client().task("one")["status"], "ready");
    hub.stop();

    project.move_store(None);
    project.give_flags(&["--abandon-move"]);
    let hub = project.start();
    let said = hub.stderr();
    assert!(
        said.contains("is not copied back") && !said.contains("sesame"),
        "{said}"
    );
    // Whoever followed the database has to learn that its events are not here.
    let events = command(&project, &["events", "--type", "epoch_began"]);
    let told = String::from_utf8_lossy(&events.stdout).into_owned();
    assert!(told.contains("epoch=2"), "{events:?}");
    assert!(by_hand(&swarm_db(&project), BY_HAND).status.success());
    let mut client = hub.client();
    until("what was written by hand is taken in", || {
        (client.status()["tasks"]["total"] == 2).then_some(())
    });
    hub.stop();
    project.give_flags(&[]);
    project.start().stop();
}

#[test]
fn a_file_that_a_hub_on_a_database_leaves_behind_is_not_taken_for_the_ledger() {
    let Some(database) = database() else { return };
    let mut project = with_tasks();
    project.move_store(Some(&with_parameter(&database.url, "password=sesame")));
    let hub = project.start();
    let card = fs::read_to_string(project.data_dir().join("hub.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!(card["store"], database.url, "without its password");

    let pg_dump = format!(
        "pg_dump --format=custom --file=swarm.dump '{}'",
        database.url
    );
    says(
        &command(&project, &["backup", "copy.db"]),
        &[&pg_dump, "nothing was copied"],
    );
    assert!(!project.root().join("copy.db").exists());
    let words = [
        &*format!("its hub serves {}", database.url),
        "is not served: since 2",
    ];
    says(&by_hand(&swarm_db(&project), BY_HAND), &words);
    let doctor = command(&project, &["doctor", "--json"]);
    let told: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let told = told["checks"].to_string();
    for word in [
        "is at postgres://",
        "the running hub serves",
        "is not the ledger",
    ] {
        assert!(told.contains(word), "{word:?} is not in: {told}");
    }
    assert!(!told.contains("is intact"), "{told}");
    hub.stop();
    // Also once it is stopped: what would be copied is not what was served.
    says(&command(&project, &["backup", "copy.db"]), &words);
    says(&command(&project, &["migrate", "--to", "other.db"]), &words);

    project.move_store(None);
    let hub = project.start();
    assert!(hub.stderr().contains("is served again"), "{}", hub.stderr());
    assert_eq!(hub.client().task("one")["status"], "ready");
    let done = by_hand(&swarm_db(&project), BY_HAND);
    assert!(done.status.success(), "{done:?}");
    let copied = command(&project, &["backup", "copy.db"]);
    assert!(copied.status.success(), "{copied:?}");
    hub.stop();
}

#[test]
fn a_second_hub_leaves_the_link_to_the_one_that_runs() {
    let mut project = Project::new();
    let first = project.start();
    let link = fs::read_link(swarm_db(&project)).unwrap();
    project.move_data_dir(project.root().join("other"));
    let second = project.start();
    let said = second.stderr();
    assert!(
        said.contains(&format!(
            "another running hub of this project (process {})",
            first.pid()
        )),
        "{said}"
    );
    assert!(!said.contains("is no longer the ledger"), "{said}");
    assert_eq!(fs::read_link(swarm_db(&project)).unwrap(), link);
    assert!(by_hand(&swarm_db(&project), BY_HAND).status.success());
    let mut client = first.client();
    until("the first one takes in what was written", || {
        (client.status()["tasks"]["total"] == 1).then_some(())
    });
    assert_eq!(second.client().status()["tasks"]["total"], 0);
    // One that nobody serves any more may be taken.
    first.stop();
    second.stop();
    let second = project.start();
    let now = fs::read_link(swarm_db(&project)).unwrap();
    assert_eq!(now, Path::new("../other/switchboard.db"));
    second.stop();
}
