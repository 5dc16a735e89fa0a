//! The commands as people type them: what they say, and what they leave undone.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use switchboard_tests::{API, Hub, Project, switchboard};

fn cli(project: &Project, arguments: &[&str]) -> Output {
    Command::new(switchboard())
        .args(arguments)
        .current_dir(project.root())
        .env_remove("SWITCHBOARD_URL")
        .env_remove("SWITCHBOARD_TOKEN")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

/// What a command that works says.
#[track_caller]
fn ok(project: &Project, arguments: &[&str]) -> String {
    let ended = cli(project, arguments);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// What a command says that does not, or not all of it.
#[track_caller]
fn fails(project: &Project, arguments: &[&str], code: i32) -> (String, String) {
    let ended = cli(project, arguments);
    assert_eq!(ended.status.code(), Some(code), "{arguments:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ended.stdout), text(&ended.stderr))
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

fn started() -> (Project, Hub) {
    let project = Project::new();
    let hub = project.start();
    (project, hub)
}

#[track_caller]
fn task(project: &Project, name: &str) -> Value {
    let shown = ok(project, &["task", "show", name, "--json"]);
    serde_json::from_str::<Value>(&shown).expect("it is JSON")["task"].clone()
}

#[test]
fn canceling_several_tasks_does_all_it_can_and_says_which_not() {
    let (project, hub) = started();
    let mut client = hub.client();
    for id in ["a", "b", "c"] {
        client.create(id);
    }
    let (done, left) = fails(&project, &["task", "cancel", "a", "no", "b", "a", "c"], 1);
    assert_eq!(done.lines().count(), 3, "{done}");
    has(&left, &["2 of 5 tasks", "\n  no: ", "\n  a: "]);
    for id in ["a", "b", "c"] {
        assert_eq!(task(&project, id)["status"], "canceled");
    }
    hub.stop();
}

#[test]
fn a_task_is_edited_and_what_was_not_named_stays() {
    let (project, hub) = started();
    let add = ["task", "add", "First", "--id", "t", "--skill", "rust"];
    ok(&project, &add);
    ok(
        &project,
        &["task", "edit", "t", "--title", "Second", "-e", "2h"],
    );
    let edited = task(&project, "t");
    assert_eq!(edited["title"], "Second");
    assert_eq!(edited["estimatedMinutes"], 120);
    assert_eq!(edited["requiredSkills"], json!(["rust"]));
    ok(&project, &["task", "edit", "t", "-e", "", "--skill", ""]);
    let cleared = task(&project, "t");
    assert_eq!(cleared["estimatedMinutes"], Value::Null);
    assert_eq!(cleared["requiredSkills"], json!([]));
    fails(&project, &["task", "edit", "t"], 2);
    hub.stop();
}

const PLAN: &str = "- Parse it p:high #rust id:parse\n- Print it after:parse\n- Print it\n";

#[test]
fn a_plan_is_shown_before_it_is_imported_and_imported_once() {
    let (project, hub) = started();
    let plan = project.root().join("plan.md");
    let write = |text: &str| std::fs::write(&plan, text).expect("it can be written");
    write(PLAN);
    let import = ["task", "import", "plan.md"];
    let dry = ["task", "import", "plan.md", "--dry-run"];
    has(
        &ok(&project, &dry),
        &["high", "rust", "parse", "3 tasks", "nothing was sent"],
    );
    has(&ok(&project, &import), &["imported 3 tasks"]);
    has(&ok(&project, &import), &["nothing new"]);
    write(&format!("{PLAN}- Another after:nowhere\n"));
    for arguments in [&import[..], &dry[..]] {
        let (_, said) = fails(&project, arguments, 1);
        has(&said, &["line 4", "nowhere"]);
    }
    write(&format!("- Another after:1\n{PLAN}"));
    has(&ok(&project, &dry), &["4 tasks", "3 of them there already"]);
    has(
        &ok(&project, &import),
        &["imported 1 task ", "the other 3 already"],
    );
    let list = ok(&project, &["task", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).expect("it is JSON");
    assert_eq!(list["tasks"].as_array().map(Vec::len), Some(4));
    // The same titles in another file are other tasks.
    std::fs::copy(&plan, project.root().join("other.md")).expect("it can be copied");
    let other = ok(&project, &["task", "import", "other.md"]);
    has(&other, &["imported 3 tasks", "the other 1 already"]);
    hub.stop();
}

#[test]
fn why_answers_in_sentences_from_the_agents_there_are() {
    let (project, hub) = started();
    let mut client = hub.client();
    ok(
        &project,
        &["task", "add", "Old code", "--id", "t", "--skill", "cobol"],
    );
    has(
        &ok(&project, &["task", "why", "t"]),
        &["nobody can", "no agent is registered"],
    );
    client.register("a");
    client.register("b");
    has(
        &ok(&project, &["task", "why", "t"]),
        &["none of 2 agents has cobol"],
    );
    has(
        &ok(&project, &["task", "why", "t", "-a", "b"]),
        &["b: does not have cobol"],
    );
    ok(&project, &["task", "edit", "t", "--skill", ""]);
    has(
        &ok(&project, &["task", "why", "t"]),
        &["can be claimed", "a: fits", "b: fits"],
    );
    hub.stop();
}

#[test]
fn a_token_is_revoked_by_whoever_has_the_key() {
    let project = Project::new().with_variable("SWITCHBOARD_AUTH_MODE", "hmac");
    let hub = project.start();
    let made = ok(
        &project,
        &["token", "create", "bob", "--scope", "viewer", "--json"],
    );
    let made: Value = serde_json::from_str(&made).expect("it is JSON");
    let id = made["id"].as_str().or(made["token"]["id"].as_str());
    let id = id.expect("a token has an id");
    has(&ok(&project, &["token", "revoke", id]), &["is revoked"]);
    hub.stop();
}

#[test]
fn unknown_types_of_events_are_refused() {
    let (project, hub) = started();
    let (_, said) = fails(&project, &["events", "-t", "task_compelted"], 2);
    has(&said, &["'task_completed'"]);
    let answer = hub
        .client()
        .get(&format!("{API}/events?types=task_compelted"));
    assert_eq!(answer.expect(400)["field"], "types");
    hub.stop();
}

#[test]
fn the_last_events_of_a_type_are_found_however_far_back() {
    let (project, hub) = started();
    hub.client().create("first");
    for _ in 0..2 {
        ok(&project, &["pause"]);
        ok(&project, &["resume"]);
    }
    let found = ok(
        &project,
        &["events", "-t", "task_created", "-n", "1", "--json"],
    );
    let page: Value = serde_json::from_str(&found).expect("a page");
    assert_eq!(page["events"].as_array().map(Vec::len), Some(1), "{page}");
    let none = ok(&project, &["events", "-t", "task_failed", "-n", "3"]);
    assert_eq!(none, "");
    hub.stop();
}

#[test]
fn a_project_that_is_not_there_is_not_made() {
    let project = Project::new();
    let nowhere = project.root().join("no/such/place");
    let named = nowhere.to_str().expect("plain");
    let (_, said) = fails(&project, &["up", "--project", named], 1);
    has(&said, &["there is no such directory"]);
    assert!(!nowhere.exists());
}

#[test]
fn what_a_task_took_and_its_retries_are_told_as_they_were() {
    let (project, hub) = started();
    let mut client = hub.client();
    client.register("a");
    let new = json!({"id": "t", "title": "T", "maxRetries": 0});
    client.post(&format!("{API}/tasks"), &new).expect(201);
    client
        .post(&format!("{API}/tasks/claim"), &json!({"agentId": "a"}))
        .expect(200);
    let failure = json!({"type": "task_error", "message": "boom", "recoverable": true});
    let report = json!({"agentId": "a", "epoch": 1, "failure": failure});
    client
        .post(&format!("{API}/tasks/t/fail"), &report)
        .expect(200);
    let shown = ok(&project, &["task", "show", "t"]);
    has(&shown, &["0 of 0 used", "ms"]);
    hub.stop();
}

/// Reads along with a command that goes on, until it has said all of this, and the first twice: in a second picture.
#[track_caller]
fn watched(project: &Project, arguments: &[&str], parts: &[&str]) {
    let mut command = Command::new(switchboard())
        .args(arguments)
        .current_dir(project.root())
        .env_remove("SWITCHBOARD_URL")
        .env_remove("SWITCHBOARD_TOKEN")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(command.stdout.take().expect("it is piped")).lines();
    let mut seen = String::new();
    for line in lines.map_while(Result::ok) {
        seen.push_str(&line);
        seen.push('\n');
        let is_second = seen.matches(parts[0]).count() > 1;
        if is_second && parts.iter().all(|part| seen.contains(part)) {
            break;
        }
    }
    command.kill().expect("it can be ended");
    command.wait().expect("it can be waited for");
    has(&seen, parts);
}

#[test]
fn whoever_watches_sees_agents_failures_what_waits_for_a_person_and_the_pause() {
    let project = Project::new().with_bus();
    let hub = project.start();
    let mut client = hub.client();
    client.register("ann");
    client.create("t");
    client
        .post(&format!("{API}/tasks/claim"), &json!({"agentId": "ann"}))
        .expect(200);
    let failure = json!({"type": "task_error", "message": "boom", "recoverable": false});
    let report = json!({"agentId": "ann", "epoch": 1, "failure": failure});
    client
        .post(&format!("{API}/tasks/t/fail"), &report)
        .expect(200);
    ok(&project, &["pause", "--why", "lunch"]);
    let parts = ["paused", "lunch", "ann", "failed", "boom"];
    watched(&project, &["status", "--watch"], &parts);
    watched(
        &project,
        &["bus", "status", "--watch"],
        &["director at", "ann"],
    );
    ok(&project, &["resume"]);
    hub.stop();
}

#[test]
fn up_says_to_a_pipe_where_it_is_and_no_more() {
    let project = Project::new().with_bus();
    let hub = project.start();
    hub.client().register("a");
    let ended = hub.stop();
    let said = ended.stderr;
    assert!(!said.contains("the director"), "{said}");
    assert!(!said.contains('='), "fields are for --log json: {said}");
}

/// Runs a command at a terminal of its own, and copies what it prints.
const AT_A_TERMINAL: &str = "import pty, sys; pty.spawn(sys.argv[1:])";

#[test]
fn up_greets_a_person_and_tells_what_matters() {
    let project = Project::new();
    let mut person = Command::new("python3")
        .args(["-c", AT_A_TERMINAL])
        .arg(switchboard())
        .args(["up", "--http", "127.0.0.1:0", "--bus", "127.0.0.1:0"])
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let screen = BufReader::new(person.stdout.take().expect("it is piped"));
    let mut seen = String::new();
    let mut is_called = false;
    for line in screen.lines().map_while(Result::ok) {
        seen.push_str(&line);
        seen.push('\n');
        if !is_called && line.contains("Ctrl-C stops the hub") {
            is_called = true;
            has(
                &seen,
                &[
                    "serves http://",
                    "the bus is at",
                    ".switchboard",
                    " status --watch",
                ],
            );
            assert!(!seen.contains("the director"), "{seen}");
            ok(&project, &["task", "add", "Say hello"]);
            let said = ok(
                &project,
                &["bus", "worker", "--id", "w", "--once", "--run", "true"],
            );
            assert!(!said.contains("pretends"), "{said}");
        }
        if line.contains("completed task #1") {
            break;
        }
    }
    has(&seen, &["w joined", "w completed task #1"]);
    // Without its terminal the hub ends.
    person.kill().expect("it runs");
    person.wait().expect("it can be waited for");
}
