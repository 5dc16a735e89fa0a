//! `switchboard backup` and `switchboard restore` with the real binary: the ledger and its key, there and back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use switchboard_tests::{Project, switchboard};

fn cli(project: &Project, arguments: &[&str]) -> Output {
    Command::new(switchboard())
        .args(arguments)
        .arg("--data-dir")
        .arg(project.data_dir())
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[track_caller]
fn done(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(answer["success"], true);
    answer
}

#[track_caller]
fn refused(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains(word), "{word:?} is not in: {said}");
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn key(project: &Project) -> String {
    fs::read_to_string(project.data_dir().join("key")).expect("a hub made it")
}

/// A project with one task, and a backup of it.
fn backed_up(flags: &[&str]) -> (Project, PathBuf) {
    let project = Project::new();
    let hub = project.start();
    hub.client().create("one");
    let line = [&["backup", "copy.db", "--json"], flags].concat();
    done(&cli(&project, &line));
    let copy = project.root().join("copy.db");
    hub.stop();
    (project, copy)
}

#[test]
fn a_backup_and_its_key_are_put_back_where_no_hub_runs() {
    let (project, copy) = backed_up(&[]);
    let copied = beside(&copy, ".key");
    for file in [&copy, &copied] {
        let mode = fs::metadata(file).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{}", file.display());
    }
    let first = key(&project);
    assert_eq!(fs::read_to_string(&copied).expect("ours"), first);

    let mut hub = project.start();
    hub.client().create("two");
    done(&cli(&project, &["key", "rotate", "--json"]));
    refused(&cli(&project, &["restore", "copy.db"]), "stop it");
    let seen = hub.client().events().len();
    hub.kill();
    let second = key(&project);
    let logs = ["-wal", "-shm"].map(|end| beside(&project.database(), end));
    assert!(logs[0].exists(), "the log that it left behind");

    let answer = done(&cli(&project, &["restore", "copy.db", "--json"]));
    assert_eq!(answer["epoch"], 2);
    assert!(logs.iter().all(|log| !log.exists()));
    assert_eq!(key(&project), first);
    let hub = project.start();
    let mut client = hub.client();
    assert_eq!(client.task("one")["status"], "ready");
    assert_eq!(client.status()["tasks"]["total"], 1);
    let page = client.get(&format!("/api/v1/events?after=1.{seen}"));
    let page = page.expect(200);
    assert_eq!(page["ledger_rewound"], true, "{page}");
    hub.stop();

    // What was there before can be put back as well, with its key.
    let kept = answer["kept"].as_str().expect("a path");
    let answer = done(&cli(&project, &["restore", kept, "--json"]));
    assert_eq!(answer["epoch"], 3, "beyond both");
    assert_eq!(key(&project), second);
    let hub = project.start();
    assert_eq!(hub.client().status()["tasks"]["total"], 2);
    hub.stop();
}

#[test]
fn without_its_key_a_backup_leaves_the_one_that_is_there() {
    let (project, copy) = backed_up(&["--without-key"]);
    assert!(!beside(&copy, ".key").exists());
    let own = key(&project);
    let answer = done(&cli(&project, &["restore", "copy.db", "--json"]));
    assert_eq!(answer["key"], false);
    assert_eq!(key(&project), own);
    // A copy that takes the place of another does not inherit its key.
    done(&cli(&project, &["backup", "copy.db", "--force", "--json"]));
    assert!(beside(&copy, ".key").exists());
    let line = ["backup", "copy.db", "--force", "--without-key", "--json"];
    done(&cli(&project, &line));
    assert!(!beside(&copy, ".key").exists());
}

#[test]
fn a_damaged_ledger_is_replaced_and_a_missing_one_too() {
    let (project, _) = backed_up(&[]);
    let ledger = project.database();
    fs::write(&ledger, [b'x'; 8192]).expect("it is ours");
    fs::write(beside(&ledger, "-wal"), "left behind").expect("it is ours");
    let answer = done(&cli(&project, &["restore", "copy.db", "--json"]));
    let kept = answer["kept"].as_str().expect("a path");
    assert_eq!(fs::read(kept).expect("it is kept"), [b'x'; 8192]);
    assert!(!beside(&ledger, "-wal").exists());
    fs::remove_file(&ledger).expect("it is ours");
    fs::write(beside(&ledger, "-wal"), "left behind").expect("it is ours");
    let answer = done(&cli(&project, &["restore", "copy.db", "--json"]));
    assert!(answer["kept"].is_null(), "{answer}");
    let hub = project.start();
    assert_eq!(hub.client().task("one")["status"], "ready");
    hub.stop();
}

#[test]
fn what_is_no_backup_changes_nothing_and_a_ledger_that_was_moved_stays_so() {
    let (project, copy) = backed_up(&[]);
    let before = fs::read(project.database()).expect("it is ours");
    let other = project.root().join("other.db");
    fs::write(&other, "no ledger").expect("it is ours");
    refused(&cli(&project, &["restore", "other.db"]), "not a database");
    refused(&cli(&project, &["restore", "nowhere.db"]), "no such file");
    let ledger = project.database().display().to_string();
    refused(&cli(&project, &["restore", &ledger]), "itself");
    assert_eq!(fs::read(project.database()).expect("it is ours"), before);
    done(&cli(&project, &["migrate", "--to", "moved.db", "--json"]));
    let copy = copy.display().to_string();
    refused(&cli(&project, &["restore", &copy]), "was moved to");
    let left = fs::read_dir(project.data_dir()).expect("it is ours");
    let partial = left.filter_map(Result::ok).filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().contains("partial")
    });
    assert_eq!(partial.count(), 0);
}

#[test]
fn a_database_of_somebody_else_is_no_backup_and_the_ledger_is_not_overwritten() {
    let (project, copy) = backed_up(&[]);
    let other = project.root().join("other.db");
    let db = rusqlite::Connection::open(&other).expect("a file");
    db.execute_batch("CREATE TABLE a (b)").expect("a table");
    drop(db);
    refused(&cli(&project, &["restore", "other.db"]), "not a backup");
    let hub = project.start();
    let mut client = hub.client();
    assert_eq!(client.task("one")["id"], "one", "nothing was replaced");
    let ledger = project.database();
    let ledger = ledger.to_str().expect("plain");
    let onto_itself = ["backup", ledger, "--force"];
    refused(&cli(&project, &onto_itself), "the ledger itself");
    client.create("two");
    hub.stop();
    // Reading a backup leaves nothing beside it.
    done(&cli(&project, &["restore", "copy.db", "--json"]));
    for end in ["-wal", "-shm"] {
        assert!(!beside(&copy, end).exists(), "{end}");
    }
}
