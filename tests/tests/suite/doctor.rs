//! `switchboard doctor` with the real binary: it sees what a start would refuse, and leaves nothing behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use rusqlite::Connection;
use serde_json::{Value, json};
use switchboard_tests::{API, Project, switchboard};

/// The state and text of every line with this name.
fn doctor(project: &Project, name: &str) -> Vec<(String, String)> {
    let output = Command::new(switchboard())
        .args(["doctor", "--json"])
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let failed = report["success"] == false;
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{report}");
    let checks = report["checks"].as_array().expect("a list");
    let named = checks.iter().filter(|check| check["name"] == name);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    named
        .map(|check| (text(&check["state"]), text(&check["text"])))
        .collect()
}

#[track_caller]
fn sees(project: &Project, name: &str, state: &str, word: &str) {
    let lines = doctor(project, name);
    let found = lines
        .iter()
        .any(|(is, text)| is == state && text.contains(word));
    assert!(found, "no {state} with {word:?} in {lines:?}");
}

/// Every file with its size and when it was written.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it can be read") {
            let path = entry.expect("it is there").path();
            let meta = fs::symlink_metadata(&path).expect("it is there");
            if meta.is_dir() {
                folders.push(path.clone());
            }
            all.insert(path, (meta.len(), meta.modified().expect("a time")));
        }
    }
    all
}

#[test]
fn nothing_is_left_behind_by_a_look() {
    let project = Project::new();
    let before = everything(project.root());
    sees(&project, "data", "warn", "does not exist yet");
    assert_eq!(everything(project.root()), before, "where there is nothing");
    let mut hub = project.start();
    hub.client().create("one");
    sees(&project, "hub", "ok", "answers");
    hub.kill();
    let before = everything(project.root());
    sees(&project, "ledger", "ok", "is intact");
    assert_eq!(everything(project.root()), before, "after a crash");
    project.start().stop();
    let before = everything(project.root());
    sees(&project, "ledger", "ok", "is intact");
    sees(&project, "swarm.db", "ok", "opens the ledger");
    assert_eq!(everything(project.root()), before, "at rest");
}

#[test]
fn what_a_start_would_refuse_is_seen_before() {
    let project = Project::new();
    project.start().stop();
    let key = project.data_dir().join("key");
    let sound = fs::read(&key).expect("there is a key");
    fs::write(&key, "no key").expect("it can be written");
    sees(&project, "key", "fail", "would fail");
    project.start_in_vain();
    fs::write(&key, sound).expect("it can be written");
    sees(&project, "key", "ok", "owner only");
    let db = Connection::open(project.database()).expect("it opens");
    let newer = "INSERT INTO sb_migration(version, name, checksum) VALUES (9999, 'x', 'y')";
    db.execute_batch(newer).expect("it can be written");
    drop(db);
    sees(&project, "ledger", "fail", "schema version 9999");
    project.start_in_vain();
}

#[test]
fn tasks_that_nobody_present_can_take_are_named() {
    let project = Project::new();
    let hub = project.start();
    sees(&project, "tasks", "ok", "no task is ready");
    let mut client = hub.client();
    client.create("easy");
    sees(&project, "tasks", "warn", "no agent is online");
    client.register("builder");
    sees(&project, "tasks", "ok", "every ready task");
    let task = json!({"id": "hard", "title": "Hard", "requiredSkills": ["alchemy"]});
    client.post(&format!("{API}/tasks"), &task).expect(201);
    sees(
        &project,
        "tasks",
        "warn",
        "no online agent can take hard (builder: does not have",
    );
    hub.stop();
}

#[test]
fn a_stolen_link_and_what_git_would_commit_are_seen() {
    let project = Project::new();
    let hub = project.start();
    let git = Command::new("git")
        .args(["init", "-q"])
        .current_dir(project.root())
        .output();
    assert!(git.expect("git is there").status.success());
    sees(&project, "git", "ok", "none of the hub's");
    for (folder, word) in [(".switchboard", ".switchboard/"), (".jetpack", ".jetpack/")] {
        let ignore = project.root().join(folder).join(".gitignore");
        let text = fs::read(&ignore).expect("it is there");
        fs::write(&ignore, "").expect("it can be written");
        sees(&project, "git", "warn", word);
        fs::write(&ignore, text).expect("it can be written");
    }
    let link = project.root().join(".jetpack/swarm.db");
    fs::remove_file(&link).expect("it is a link");
    sees(&project, "swarm.db", "warn", "is missing");
    std::os::unix::fs::symlink("../elsewhere/switchboard.db", &link).expect("a link can be made");
    sees(&project, "swarm.db", "warn", "which is not the ledger");
    hub.stop();
}
