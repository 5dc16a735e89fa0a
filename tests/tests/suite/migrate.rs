//! `switchboard migrate` with the real binary: a ledger moves to PostgreSQL and back, also when it is killed on the way.

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{Client, Project, switchboard, until};

fn database() -> Option<Database> {
    Some(Cluster::shared("moving a ledger to PostgreSQL")?.create_database())
}

fn migrate(project: &Project, arguments: &[&str]) -> Command {
    let mut command = Command::new(switchboard());
    command
        .arg("migrate")
        .args(arguments)
        .arg("--data-dir")
        .arg(project.data_dir())
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn done(mut command: Command) -> Output {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(said, "", "no bar where there is no terminal");
    output
}

#[track_caller]
fn refused(mut command: Command, words: &[&str]) {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

/// A project whose hub was given some tasks and has ended.
fn with_tasks() -> Project {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    for name in ["one", "two", "three"] {
        client.create(name);
    }
    hub.stop();
    project
}

#[track_caller]
fn has_tasks(client: &mut Client) {
    for name in ["one", "two", "three"] {
        assert_eq!(client.task(name)["status"], "ready");
    }
    assert_eq!(client.status()["tasks"]["total"], 3);
}

#[test]
fn a_hub_goes_on_in_a_database_and_later_in_a_file_again() {
    let Some(database) = database() else { return };
    let project = with_tasks();
    let output = done(migrate(&project, &["--to", &database.url, "--json"]));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(report["verified"], true);
    assert_eq!(report["success"], true);
    assert!(report["rows"].as_u64().unwrap() > 3, "{report}");
    assert!(report["events"].as_u64().unwrap() >= 3, "{report}");
    assert!(report["tables"].as_u64().unwrap() > 10, "{report}");

    let there = Project::on(&database.url);
    let hub = there.start();
    has_tasks(&mut hub.client());
    let key = |project: &Project| fs::read_to_string(project.data_dir().join("key")).unwrap();
    assert_eq!(key(&there), key(&project), "agents keep their keys");

    let back = Project::new();
    let file = back.database().display().to_string();
    let arguments = ["--store", &database.url, "--to", &file];
    refused(
        migrate(&back, &arguments),
        &["was served", "stop every hub"],
    );
    hub.stop();
    let output = done(migrate(&back, &arguments));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("every row and event compared"), "{said}");
    assert!(said.contains("switchboard up --store 'sqlite:"), "{said}");
    let compared = done(migrate(
        &back,
        &["--store", &database.url, "--to", &file, "--verify-only"],
    ));
    assert!(String::from_utf8_lossy(&compared.stdout).contains("are the same"));
    assert_eq!(key(&back), key(&project));
    let hub = back.start();
    has_tasks(&mut hub.client());
    hub.stop();
    refused(
        migrate(
            &back,
            &["--store", &database.url, "--to", &file, "--verify-only"],
        ),
        &["differ", "sb_head id=1, column served_at"],
    );
}

#[test]
fn a_ledger_that_is_served_stays_where_it_is() {
    let Some(database) = database() else { return };
    let project = Project::new();
    let hub = project.start();
    refused(
        migrate(&project, &["--to", &database.url]),
        &[&format!("process {}", hub.pid()), "stop it"],
    );
    hub.stop();
    assert_eq!(
        database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"),
        "0",
        "nothing was made"
    );
}

/// From here on nobody gets a row into the last of the tables.
fn block(database: &Database) {
    database.sql(
        "CREATE FUNCTION block() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN PERFORM pg_sleep(3600); RETURN NULL; END $$;
         CREATE TRIGGER block BEFORE INSERT ON sb_log FOR EACH STATEMENT EXECUTE FUNCTION block()",
    );
}

fn unblock(database: &Database) {
    database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid();
         DROP TRIGGER block ON sb_log",
    );
}

fn waits(database: &Database) -> bool {
    let sleeping = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = current_database() AND wait_event = 'PgSleep'";
    database.sql(sleeping) == "1"
}

#[track_caller]
fn kill(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it can be waited for");
}

#[test]
fn a_copy_that_was_killed_is_not_served_and_goes_on_where_it_was() {
    let Some(database) = database() else { return };
    let project = with_tasks();
    drop(PostgresEngine::open(Address::parse(&database.url).unwrap()).unwrap());
    block(&database);
    let mut copying = migrate(&project, &["--to", &database.url]);
    let child = copying.stdout(Stdio::null()).spawn().expect("it starts");
    until("everything but the log is copied", || {
        waits(&database).then_some(())
    });
    kill(child);
    let ended = Project::on(&database.url).start_in_vain();
    assert!(ended.stderr.contains("unfinished copy"), "{}", ended.stderr);
    unblock(&database);
    let output = done(migrate(&project, &["--to", &database.url, "--json"]));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let rows = |name: &str| report[name].as_u64().expect("a number");
    assert!(
        rows("resumedRows") > 3 && rows("resumedRows") < rows("rows"),
        "{report}"
    );
    let hub = Project::on(&database.url).start();
    has_tasks(&mut hub.client());
    hub.stop();
}
