//! `switchboard bus …` as people type it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use switchboard_tests::{Hub, Project, switchboard, until};

use super::peer::Peer;

/// A command in the project, which finds its hub by itself.
fn bus(project: &Project, arguments: &[&str]) -> Command {
    let mut command = Command::new(switchboard());
    command
        .arg("bus")
        .args(arguments)
        .current_dir(project.root())
        .env_remove("SWITCHBOARD_BUS")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// A command that goes on until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn status(project: &Project) -> Value {
    let ended = bus(project, &["status", "--json"]).output();
    let ended = ended.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    serde_json::from_slice(&ended.stdout).expect("it is JSON")
}

fn started() -> (Project, Hub) {
    let project = Project::new().with_bus();
    let hub = project.start();
    (project, hub)
}

#[test]
fn a_worker_from_the_terminal_does_a_task_of_http_and_leaves() {
    let (project, hub) = started();
    let mut client = hub.client();
    client.create("t");
    let run = "echo \"ran $TASK_ID as $WORKER_ID\"";
    let ended = bus(&project, &["worker", "--id", "w", "--once", "--run", run]).output();
    let ended = ended.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    // What it said last is taken in a moment after it has gone.
    let task = until("its task is done", || {
        Some(client.task("t")).filter(|task| task["status"] == "completed")
    });
    assert_eq!(task["assignedAgent"], "w", "{task}");
    assert_eq!(task["result"]["summary"], "ran t as w", "{task}");
    client.create("u");
    let ended = bus(
        &project,
        &["worker", "--id", "w", "--once", "--run", "exit 3"],
    )
    .status();
    assert!(!ended.expect("it starts").success());
    until("its failure is known", || {
        let task = client.task("u");
        let failed = task["lastError"].is_string() && task["assignedAgent"].is_null();
        failed.then_some(())
    });
}

#[test]
fn status_shows_the_director_its_workers_and_its_queue() {
    let (project, hub) = started();
    hub.client().create("t");
    let mut worker = Peer::worker(hub.bus(), "w", &[]);
    worker.beat("CODE", 21);
    worker.settle();
    let shown = status(&project);
    let director = &shown["director"];
    assert!(director["state"].is_string(), "{shown}");
    assert_eq!(director["paused"], false, "{shown}");
    assert_eq!(shown["workers"][0]["worker_id"], "w", "{shown}");
    assert_eq!(shown["workers"][0]["stage"], "CODE", "{shown}");
    assert_eq!(shown["queue"]["eligible_total"], 1, "{shown}");
    let sent = bus(&project, &["send", "pause", "--reason", "deploy"]).status();
    assert!(sent.expect("it starts").success());
    let director = until("the director pauses", || {
        let director = status(&project)["director"].take();
        (director["paused"] == true).then_some(director)
    });
    assert_eq!(director["state"], "COOLDOWN", "{director}");
    assert!(
        director["reason"].to_string().contains("deploy"),
        "{director}"
    );
    // Nothing is handed out meanwhile.
    let mut hand = Peer::hand(hub.bus(), "hand");
    assert!(hand.settle().is_empty());
    let sent = bus(&project, &["send", "resume"]).status();
    assert!(sent.expect("it starts").success());
    assert_eq!(hand.assigned().task, "t");
}

#[test]
fn tail_shows_heartbeats_as_they_came() {
    let (project, hub) = started();
    let mut tail = bus(
        &project,
        &["tail", "--json", "--types", "heartbeat", "--worker", "w"],
    );
    let tail = tail.stdout(Stdio::piped()).spawn();
    let mut tail = Running(tail.expect("it starts"));
    let stdout = tail.0.stdout.take().expect("it is piped");
    let mut client = hub.client();
    until("it watches", || {
        (client.figure("switchboard_bus_operators") == 1).then_some(())
    });
    let mut worker = Peer::worker(hub.bus(), "w", &[]);
    let mut other = Peer::worker(hub.bus(), "other", &[]);
    other.beat("VALIDATE", 7);
    other.settle();
    worker.beat("CODE", 21);
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it speaks in lines");
    let frame: Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(frame["message_type"], "heartbeat.v1", "{frame}");
    assert_eq!(frame["sender"]["id"], "w", "{frame}");
    assert_eq!(frame["payload"]["state"]["stage"], "CODE", "{frame}");
}

#[test]
fn where_the_hub_asks_who_connects_the_commands_sign() {
    let mut project = Project::new().with_bus();
    project.give_flags(&["--auth", "hmac"]);
    let hub = project.start();
    let addr = hub.bus().to_string();
    // Whoever can read the key file needs nothing else.
    assert!(status(&project)["director"]["state"].is_string());
    for order in [["send", "pause"], ["send", "resume"]] {
        let sent = bus(&project, &order).status();
        assert!(sent.expect("it starts").success(), "{order:?}");
    }
    let made = |arguments: &[&str]| -> Value {
        let mut command = Command::new(switchboard());
        let command = command.args(arguments).arg("--json");
        let ended = command.current_dir(project.root()).output();
        serde_json::from_slice(&ended.expect("it starts").stdout).expect("it is JSON")
    };
    made(&["task", "add", "t"]);
    let worker = ["worker", "--id", "w", "--once", "--run", "echo done"];
    let ended = bus(&project, &worker).output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");

    // Anybody else brings a token, or is told how to get one.
    let elsewhere = tempfile::tempdir().expect("a directory can be made");
    let ask = |token: Option<&str>| {
        let mut command = bus(&project, &["status", "--addr", &addr]);
        command.current_dir(elsewhere.path());
        match token {
            Some(token) => command.env("SWITCHBOARD_TOKEN", token),
            None => command.env_remove("SWITCHBOARD_TOKEN"),
        };
        let ended = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.success(), said)
    };
    let secret = |scope: &str| {
        let made = made(&["token", "create", "--scope", scope]);
        let secret = made["token"]["secret"].as_str();
        secret.expect("it is shown").to_owned()
    };
    let (let_in, said) = ask(None);
    assert!(
        !let_in && said.contains("token create --scope operator"),
        "{said}"
    );
    let (let_in, said) = ask(Some(&secret("operator")));
    assert!(let_in, "{said}");
    let (let_in, said) = ask(Some(&secret("viewer")));
    assert!(!let_in && said.contains("operator"), "{said}");
    let (let_in, said) = ask(Some("hunter2"));
    assert!(!let_in && said.contains("token create"), "{said}");

    // A worker goes by the agent and the key that were exported for it.
    let key = made(&["agent", "add", "builder"])["key"].take();
    made(&["task", "add", "u"]);
    let mut worker = bus(&project, &["worker", "--once", "--run", "echo $WORKER_ID"]);
    let worker = worker
        .args(["--addr", &addr])
        .current_dir(elsewhere.path())
        .env("SWITCHBOARD_AGENT", "builder")
        .env("SWITCHBOARD_KEY", key.as_str().expect("it is shown"));
    let ended = worker.output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
}
