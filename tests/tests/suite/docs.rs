//! The programs that `docs/http-api.md` and the README show, run as they stand there.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use switchboard_test_cluster::Missing;
use switchboard_tests::{API, Client, Hub, Project, page, switchboard, until};

const PAGE: &str = "docs/http-api.md";

fn has(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let found = command
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    found.status().is_ok_and(|status| status.success())
}

/// Ended with its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program in Python as this agent, with what it needs to reach the hub.
fn python(program: &str, agent: &str, hub: &Hub, key: &str, folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-c", program, agent])
        .env("HUB", format!("http://{}", hub.addr()))
        .env("SWITCHBOARD_KEY", key)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn worker(program: &str, hub: &Hub, key: &str, folder: &Path) -> Program {
    Program(
        python(program, "ann", hub, key, folder)
            .spawn()
            .expect("it starts"),
    )
}

#[track_caller]
fn done(client: &mut Client, task: &str) -> Value {
    until(&format!("{task} is done"), || {
        Some(client.task(task)).filter(|shown| shown["status"] == "completed")
    })
}

#[test]
fn the_worker_of_the_page_survives_its_own_restart_and_the_hubs() {
    if !has("python3", "--version") {
        return Missing::Python.skip("the HTTP worker in Python");
    }
    let program = page::shown(PAGE, "python", "worker");
    let lines = program.lines().filter(|line| !line.is_empty()).count();
    assert!(lines <= 45, "it has {lines} lines");
    let project = Project::new();
    let mut hub = project.start();
    let mut client = hub.client();
    // What the process before it held when it was killed.
    client.register("ann");
    client.create("held");
    client.claim("ann").expect("there is one");
    let _worker = worker(&program, &hub, "", project.root());
    let held = done(&mut client, "held");
    assert_eq!(held["epoch"], 2, "taken over under a new claim: {held}");
    // The hub dies while the worker waits, and comes back at its address.
    let project = project.at(hub.addr());
    hub.kill();
    let hub = project.start();
    let mut client = hub.client();
    client.create("second");
    done(&mut client, "second");
    assert!(project.root().join("second.txt").exists());
    // Another agent edits the file that the next task is about.
    client.register("bob");
    let path = "third.txt";
    let lease = json!({"agentId": "bob", "taskId": null, "filePath": path, "durationMs": 600_000});
    client
        .post(&format!("{API}/leases/acquire"), &lease)
        .expect(200);
    client.create("third");
    until("it has the task", || {
        Some(client.task("third")).filter(|shown| shown["status"] == "claimed")
    });
    assert!(!project.root().join(path).exists());
    let release = json!({"agentId": "bob", "filePath": path});
    client
        .post(&format!("{API}/leases/release"), &release)
        .expect(200);
    done(&mut client, "third");
    assert!(project.root().join(path).exists());
}

/// A hub that asks for signatures, and the key of `ann`.
fn guarded() -> (Project, Hub, String) {
    let mut project = Project::new();
    project.give_flags(&["--auth", "hmac"]);
    let hub = project.start();
    let made = run(&project, &["agent", "add", "ann", "--json"]);
    let made: Value = serde_json::from_str(&made).expect("it is JSON");
    let key = made["key"].as_str().expect("it is text").to_owned();
    (project, hub, key)
}

/// The command, in the project.
#[track_caller]
fn run(project: &Project, arguments: &[&str]) -> String {
    let mut command = Command::new(switchboard());
    let ended = command.args(arguments).current_dir(project.root()).output();
    let ended = ended.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {said}");
    String::from_utf8(ended.stdout).expect("it is text")
}

#[track_caller]
fn is_completed(project: &Project, task: &str) {
    until(&format!("{task} is done"), || {
        let shown = run(project, &["task", "show", task, "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
        (shown["task"]["status"] == "completed").then_some(())
    });
}

#[test]
fn the_worker_signs_in_headers_as_the_page_shows() {
    if !has("python3", "--version") {
        return Missing::Python.skip("the HTTP worker in Python that signs");
    }
    let (project, hub, key) = guarded();
    let worker_as_shown = page::shown(PAGE, "python", "worker");
    let (head, rest) = worker_as_shown
        .split_once("\ndef register")
        .expect("it registers");
    let sign = page::shown(PAGE, "python", "sign");
    let program = format!("{head}\n{sign}\ndef register{rest}");
    run(&project, &["task", "add", "signed", "--id", "signed"]);
    let _worker = worker(&program, &hub, &key, project.root());
    is_completed(&project, "signed");
    // Without a signature it says why it ends.
    let unsigned = python(&worker_as_shown, "ann", &hub, "", project.root()).output();
    let unsigned = unsigned.expect("it starts");
    let said = String::from_utf8_lossy(&unsigned.stderr);
    assert!(
        !unsigned.status.success() && !said.trim().is_empty(),
        "{said}"
    );
}

#[test]
fn a_body_is_signed_as_the_page_shows() {
    if !has("python3", "--version") {
        return Missing::Python.skip("signing a body in Python");
    }
    let (project, hub, key) = guarded();
    let sign = page::shown(PAGE, "python", "sign-body");
    let program = format!(
        "import hashlib, hmac, json, os, sys, time, urllib.request, uuid\n{sign}\n\
         can = dict(skills=[], maxTaskMinutes=60, canRunTests=True, canRunBuild=True, canAccessBrowser=False)\n\
         agent = dict(id='ann', name='Änn', type='custom', capabilities=can)\n\
         body = signed(dict(operation='REGISTER', agentId='ann', agent=agent))\n\
         url = os.environ['HUB'] + '/api/v1/protocol'\n\
         print(urllib.request.urlopen(url, json.dumps(body).encode()).read().decode())"
    );
    let ended = python(&program, "ann", &hub, &key, project.root()).output();
    let ended = ended.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(answer["success"], true, "{answer}");
}

#[test]
fn curl_and_openssl_sign_as_the_page_shows() {
    if !has("curl", "--version") || !has("openssl", "version") {
        return Missing::Curl.skip("signing with curl and openssl");
    }
    let (project, hub, key) = guarded();
    let ended = Command::new("sh")
        .args(["-ec", &page::shown(PAGE, "sh", "sign")])
        .env("HUB", format!("http://{}", hub.addr()))
        .env("ME", "ann")
        .env("SWITCHBOARD_KEY", &key)
        .current_dir(project.root())
        .output()
        .expect("it starts");
    let answer: Value = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    // The signature is good: what is missing is the registration.
    assert_eq!(answer["error"], "agent_not_registered", "{answer}");
}

#[test]
fn five_minutes_with_curl() {
    if !has("curl", "--version") {
        return Missing::Curl.skip("the README's tour");
    }
    let tour = page::under("README.md", "Five minutes with curl", "sh");
    let project = Project::new();
    let hub = project.start();
    let export = "export HUB=http://127.0.0.1:7373/api/v1";
    assert_eq!(tour.matches(export).count(), 1, "{tour}");
    let tour = tour.replace(export, &format!("HUB=http://{}/api/v1", hub.addr()));
    let ended = Command::new("sh")
        .args(["-ec", &tour])
        .current_dir(project.root())
        .output()
        .expect("it starts");
    let answers: Vec<Value> = serde_json::Deserializer::from_slice(&ended.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("each answer is JSON");
    assert_eq!(answers.len(), 7, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer["success"] == true),
        "{answers:?}"
    );
    assert_eq!(hub.client().task("hello")["status"], "completed");
}
