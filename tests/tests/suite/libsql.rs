//! libSQL over HTTP with the client that its users have: `@libsql/client` under Node, against the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use switchboard_test_cluster::{Cluster, Missing};
use switchboard_tests::{API, Hub, Project, switchboard, until};

/// The programs in `tests/node`, if Node and their packages are here.
pub fn node(what: &str) -> Option<PathBuf> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("node");
    let runs = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let has_packages = programs.join("node_modules/@libsql/client").is_dir();
    if has_packages && runs.is_ok_and(|status| status.success()) {
        return Some(programs);
    }
    Missing::Node.skip(what);
    None
}

/// What `switchboard token create --scope sql` tells a person to export.
pub fn exports(project: &Project) -> Vec<(String, String)> {
    let output = Command::new(switchboard())
        .args(["token", "create", "--scope", "sql"])
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let lines = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("export "));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let exports: Vec<(String, String)> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let names: Vec<&str> = exports.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["JETPACK_DB_URL", "JETPACK_DB_TOKEN"], "{said}");
    exports
}

/// Runs a program and tells what it printed.
#[track_caller]
pub fn run(programs: &Path, program: &str, environment: &[(String, String)]) -> String {
    let output = Command::new("node")
        .arg(program)
        .current_dir(programs)
        .envs(environment.iter().cloned())
        .output()
        .expect("node starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} ended with {}:\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

fn events(hub: &Hub) -> Vec<Value> {
    let page = hub.client().get(&format!("{API}/events?limit=1000"));
    page.expect(200)["events"]
        .as_array()
        .expect("a list")
        .clone()
}

#[test]
fn an_agent_with_the_npm_client_does_its_whole_work_and_everyone_sees_it() {
    let Some(programs) = node("an agent with @libsql/client") else {
        return;
    };
    let project = Project::new();
    let hub = project.start();
    run(&programs, "swarm.mjs", &exports(&project));
    let mut client = hub.client();
    let task = client.get(&format!("{API}/tasks/first")).expect(200);
    assert_eq!(task["task"]["status"], "completed", "{task}");
    assert_eq!(task["task"]["result"]["summary"], "done", "{task}");
    assert_eq!(task["attempts"][0]["agentId"], "node-1", "{task}");
    assert_eq!(client.task("second")["status"], "pending_retry");
    until("the agent is seen to be gone", || {
        let agent = client.get(&format!("{API}/agents/node-1")).json();
        (agent["agent"]["status"] == "offline").then_some(())
    });
    let log = events(&hub);
    let told = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
    for (kind, count) in [
        ("task_created", 2),
        ("agent_registered", 1),
        ("task_claimed", 2),
        ("lease_acquired", 1),
        ("lease_released", 1),
        ("message_sent", 1),
        ("message_acknowledged", 1),
        ("task_completed", 1),
        ("task_released", 0),
        ("write_undone", 0),
    ] {
        assert_eq!(told(kind), count, "{kind}: {log:#?}");
    }
    hub.stop();
}

#[test]
fn a_transaction_that_was_left_alone_is_in_nobodys_way() {
    let Some(programs) = node("an idle transaction of @libsql/client") else {
        return;
    };
    let project = Project::new();
    let hub = project.start();
    run(&programs, "patience.mjs", &exports(&project));
    hub.stop();
}

#[test]
fn the_client_tells_its_user_why_it_is_not_let_in() {
    let Some(programs) = node("a refused @libsql/client") else {
        return;
    };
    let project = Project::new();
    let hub = project.start();
    let mut environment = exports(&project);
    environment[1].1 = "wrong".to_owned();
    let said: Value = serde_json::from_str(&run(&programs, "refused.mjs", &environment)).unwrap();
    assert_eq!(said["code"], "UNAUTHENTICATED", "{said}");
    hub.stop();
}

#[test]
fn on_postgresql_the_client_is_told_what_to_use_instead() {
    let Some(cluster) = Cluster::shared("libSQL's client against PostgreSQL") else {
        return;
    };
    let Some(programs) = node("@libsql/client against PostgreSQL") else {
        return;
    };
    let database = cluster.create_database();
    let project = Project::on(&database.url);
    let hub = project.start();
    let said = run(&programs, "refused.mjs", &exports(&project));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["code"], "NOT_AVAILABLE", "{said}");
    let message = said["message"].as_str().unwrap_or_default();
    assert!(message.contains("docs/direct-sql.md"), "{said}");
    hub.stop();
}
