//! The ledger's files under a running hub: gone, left behind by one that was killed, growing without end.

use std::fs;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::json;
use switchboard_tests::faults::{Disk, Fault};
use switchboard_tests::{API, Answer, Client, Hub, Project, Request, switchboard, until};

fn new_task(id: &str) -> Request {
    Request::post(format!("{API}/tasks"), &json!({"id": id, "title": id}))
}

/// Tries to write until the hub refuses; what it said.
#[track_caller]
fn refuses(client: &mut Client) -> Answer {
    let mut tried = 0;
    until("nothing is acknowledged any more", || {
        tried += 1;
        let answer = client.send(&new_task(&format!("late-{tried}")));
        let answer = answer.expect("it is answered");
        (answer.status != 201).then_some(answer)
    })
}

#[track_caller]
fn is_unavailable(answer: &Answer, words: &[&str]) {
    answer.expect_error(503, "db_unavailable");
    for word in words {
        assert!(answer.text().contains(word), "{}", answer.text());
    }
}

#[track_caller]
fn git(project: &Project, args: &[&str]) {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(args)
        .current_dir(project.root())
        .output()
        .expect("there is git");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "git {args:?}: {said}");
}

/// Nothing is acknowledged, read or ready, and the log says so once.
#[track_caller]
fn is_gone(hub: &Hub, client: &mut Client) {
    const WHY: &[&str] = &["switchboard.db", "restart the hub"];
    is_unavailable(&refuses(client), WHY);
    is_unavailable(&client.get(&format!("{API}/tasks")), WHY);
    is_unavailable(&client.get("/readyz"), WHY);
    assert_eq!(client.get("/healthz").status, 200);
    let said = hub.stderr();
    let errors = said.lines().filter(|line| line.contains("ERROR"));
    assert_eq!(errors.count(), 1, "{said}");
}

#[test]
fn a_ledger_that_is_removed_or_moved_is_noticed_and_the_next_start_serves_what_is_there() {
    let ways: [fn(&Project); 3] = [
        |project| fs::remove_dir_all(project.data_dir()).expect("it can be removed"),
        |project| {
            let away = project.root().join("away");
            fs::rename(project.data_dir(), away).expect("it can be moved");
        },
        |project| {
            git(project, &["init", "-q"]);
            git(project, &["clean", "-qfdx"]);
        },
    ];
    for take_away in ways {
        let project = Project::new();
        let hub = project.start();
        let mut client = hub.client();
        client.create("before");
        take_away(&project);
        is_gone(&hub, &mut client);
        hub.stop();
        assert!(!project.database().exists(), "nothing is made in its place");
        let away = project.root().join("away");
        let kept = u64::from(away.exists());
        if kept > 0 {
            fs::rename(&away, project.data_dir()).expect("it can be moved back");
        }
        let hub = project.start();
        let tasks = hub.client().status()["tasks"]["total"].as_u64();
        // What was moved has everything that was acknowledged, also in the moment before it was noticed.
        assert!(tasks >= Some(kept) && (kept > 0 || tasks == Some(0)));
        hub.stop();
    }
}

#[test]
fn a_stashed_ledger_that_comes_back_is_another_one_until_the_hub_is_started_anew() {
    let project = Project::new();
    git(&project, &["init", "-q"]);
    git(&project, &["commit", "-q", "--allow-empty", "-m", "begin"]);
    let hub = project.start();
    let mut client = hub.client();
    client.create("before");
    // With what git was told to leave out, or it would not take the ledger.
    git(&project, &["stash", "-a", "-q"]);
    is_gone(&hub, &mut client);
    git(&project, &["stash", "pop", "-q"]);
    assert!(project.database().exists());
    let log = project.database().with_extension("db-wal");
    let (file_was, log_was) = (fs::read(project.database()), fs::read(&log));
    is_gone(&hub, &mut client);
    hub.stop();
    let same = |before: std::io::Result<Vec<u8>>, path: &Path| {
        before.expect("it was read") == fs::read(path).expect("it is still there")
    };
    assert!(same(file_was, &project.database()) && same(log_was, &log));
    let hub = project.start();
    hub.client().task("before");
    hub.client().create("after");
    hub.stop();
}

/// A project whose hub was killed with something in its log that is not in the file.
fn killed() -> Project {
    let project = Project::new();
    let mut hub = project.start();
    let reads = reading(&project);
    hub.client().create("before");
    hub.kill();
    drop(reads);
    project
}

/// A program that reads the ledger as it is now.
fn reading(project: &Project) -> Connection {
    let db = Connection::open_with_flags(
        project.database(),
        rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
    )
    .expect("the file can be opened");
    db.execute_batch("BEGIN; SELECT count(*) FROM tasks")
        .expect("it can be read");
    db
}

#[test]
fn while_somebody_reads_the_log_that_a_killed_hub_left_the_next_one_writes_nothing_and_says_who() {
    let project = killed();
    let reads = reading(&project);
    let hub = project.start();
    let mut client = hub.client();
    let who = format!("process {}", std::process::id());
    let refused = client.send(&new_task("after")).expect("it is answered");
    is_unavailable(&refused, &[&who, "retries every second"]);
    is_unavailable(&client.get("/readyz"), &[&who]);
    // What is there can be read.
    client.task("before");
    drop(reads);
    until("the hub takes writes", || {
        let answer = client.send(&new_task("after")).expect("it is answered");
        (answer.status == 201).then_some(())
    });
    until("the hub is ready", || {
        (client.get("/readyz").status == 200).then_some(())
    });
    assert_eq!(client.status()["tasks"]["total"], 2);
    hub.stop();
}

#[test]
fn a_hub_that_may_not_write_yet_can_be_stopped() {
    let project = killed();
    let reads = reading(&project);
    project.start().stop();
    drop(reads);
    let hub = project.start();
    hub.client().task("before");
    hub.stop();
}

#[test]
fn a_log_past_its_bound_takes_no_writes_and_names_who_keeps_it_from_being_moved() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.create("before");
    let reads = reading(&project);
    client.create("held-up");
    // Sparse, and nothing of it is valid; but this is how long the file is.
    let log = project.database().with_extension("db-wal");
    let log = fs::File::options().write(true).open(log);
    log.and_then(|log| log.set_len(1_000_000_001))
        .expect("a file can be made longer");
    let who = format!("process {}", std::process::id());
    until("the hub knows who reads", || {
        let refused = refuses(&mut client);
        is_unavailable(&refused, &["writes are refused"]);
        refused.text().contains(&who).then_some(())
    });
    assert_eq!(client.get("/readyz").status, 503);
    let told = until("the reader is a warning", || {
        let warnings = client.status()["warnings"].take();
        warnings.is_array().then_some(warnings)
    });
    assert!(told.to_string().contains(&who), "{told}");
    let doctor = Command::new(switchboard())
        .args(["doctor", "--json"])
        .current_dir(project.root())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        said.contains("has not been checkpointed") && said.contains(&who),
        "{said}"
    );
    drop(reads);
    until("the log is moved", || {
        let answer = client.send(&new_task("after")).expect("it is answered");
        (answer.status == 201).then_some(())
    });
    client.task("held-up");
    hub.stop();
}

#[test]
fn checkpoints_that_fail_for_long_make_the_hub_not_ready() {
    let (project, disk) = Disk::project();
    let hub = project.start();
    let mut client = hub.client();
    disk.begin(Fault::CheckpointFull);
    client.create("before");
    let refused = until("the hub is not ready", || {
        let answer = client.get("/readyz");
        (answer.status != 200).then_some(answer)
    });
    is_unavailable(&refused, &["cannot be checkpointed", "full"]);
    client.create("during");
    disk.end(Fault::CheckpointFull);
    until("the hub is ready again", || {
        (client.get("/readyz").status == 200).then_some(())
    });
    hub.stop();
}
