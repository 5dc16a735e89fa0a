//! What happens on that day, step by step.

use serde_json::{Value, json};
use switchboard_tests::{API, until};

use super::day::{Day, has, values};
use super::programs::Runner;

pub fn work<R: Runner>(mut day: Day<R>) {
    sign_on(&mut day);
    bring_tasks(&mut day);
    begin(&mut day);
    lease(&mut day);
    talk(&mut day);
    end(&mut day);
    give_up(&mut day);
    give_back(&mut day);
    sign_off(&mut day);
    day.over();
}

fn agent(id: &str, skills: &str) -> Value {
    json!({"agent": id, "name": id, "type": "codex", "skills": skills, "minutes": 60, "tests": 1, "build": 1, "browser": 0,
        "machine": "desk", "hostname": "desk.example", "pid": 77})
}

fn sign_on(day: &mut Day<impl Runner>) {
    let ann = agent("ann", r#"["Rust","sql"]"#);
    day.run("register", ann.clone());
    day.told(json!({"type": "agent_registered", "agent": "ann", "resumed": false}));
    let capabilities =
        json!({"skills": ["rust", "sql"], "maxTaskMinutes": 60, "canAccessBrowser": false});
    day.shows(
        "/agents/ann",
        json!({"agent": {"status": "idle", "type": "codex", "capabilities": capabilities, "machine": {"id": "desk", "pid": 77}}}),
    );
    day.refused(
        "register",
        ann.clone(),
        &["UNIQUE constraint failed", "duplicate key"],
    );
    let mut renamed = ann;
    renamed["name"] = "Ann Again".into();
    day.run("register_again", renamed);
    day.shows(
        "/agents/ann",
        json!({"agent": {"name": "Ann Again", "status": "idle"}}),
    );
    day.run("register_again", agent("bob", "[]"));
    day.told(json!({"type": "agent_registered", "agent": "bob"}));
    let beats = |day: &mut Day<_>| {
        let shown = day.client.get(&format!("{API}/agents/ann")).expect(200);
        shown["agent"]["heartbeatCount"]
            .as_u64()
            .expect("it is counted")
    };
    let before = beats(day);
    let heard = day.row("heartbeat", json!({"agent": "ann", "status": "idle"}));
    assert_eq!(heard["commands"].to_string(), r#""[]""#);
    until("the heartbeat counts", || {
        (beats(day) > before).then_some(())
    });
}

fn task(id: &str, priority: &str, skills: &str, dependencies: &str) -> Value {
    json!({"task": id, "title": format!("Do {id}"), "description": null, "priority": priority, "type": "code", "skills": skills,
        "dependencies": dependencies, "files": r#"["src/a.rs"]"#, "minutes": 10})
}

fn bring_tasks(day: &mut Day<impl Runner>) {
    day.run("create_task", task("first", "high", r#"["rust"]"#, "[]"));
    day.told(json!({"type": "task_created", "task": "first", "status": "ready"}));
    day.run(
        "create_task",
        task("second", "critical", "[]", r#"["first"]"#),
    );
    day.told(json!({"type": "task_created", "task": "second", "status": "blocked"}));
    day.run("create_task", task("third", "low", "[]", "[]"));
    day.told(json!({"type": "task_created", "task": "third", "status": "ready"}));
    day.shows(
        "/tasks/second",
        json!({"task": {"status": "blocked", "priority": "critical", "dependencies": ["first"], "title": "Do second",
            "files": ["src/a.rs"], "estimatedMinutes": 10}}),
    );
}

/// The claim that the rest of the day is about.
fn first() -> Value {
    json!({"task": "first", "agent": "ann", "epoch": 1})
}

fn with(mut all: Value, more: Value) -> Value {
    let fields = all.as_object_mut().expect("it has names");
    fields.extend(values(more));
    all
}

fn begin(day: &mut Day<impl Runner>) {
    day.nothing("claim", json!({"agent": "bob", "exclude": r#"["third"]"#}));
    let claimed = day.row("claim", json!({"agent": "ann", "exclude": "[]"}));
    assert!(
        has(
            &claimed,
            &json!({"id": "first", "epoch": 1, "title": "Do first"})
        ),
        "{claimed}"
    );
    day.told(json!({"type": "task_claimed", "task": "first", "agent": "ann", "epoch": 1}));
    day.shows(
        "/tasks/first",
        json!({"task": {"status": "claimed", "assignedAgent": "ann", "epoch": 1}}),
    );
    let report = json!({"phase": "testing", "percent": 40});
    day.nothing(
        "progress",
        with(
            json!({"task": "first", "agent": "bob", "epoch": 1}),
            report.clone(),
        ),
    );
    day.row("progress", with(first(), report));
    day.told(
        json!({"type": "task_progressed", "task": "first", "phase": "testing", "percent": 40}),
    );
    day.shows(
        "/tasks/first",
        json!({"task": {"status": "in_progress", "progress": {"phase": "testing", "percentComplete": 40}}}),
    );
    day.shows(
        "/agents/ann",
        json!({"agent": {"status": "busy", "currentTask": {"id": "first", "progress": 40}}}),
    );
}

fn lease(day: &mut Day<impl Runner>) {
    let mine = json!({"path": "src/a.rs", "agent": "ann", "task": "first", "lasts": "+10 minutes"});
    assert_eq!(day.row("acquire_lease", mine.clone())["agent_id"], "ann");
    day.told(
        json!({"type": "lease_acquired", "path": "src/a.rs", "agent": "ann", "task": "first"}),
    );
    day.shows(
        "/leases/check?filePath=src/a.rs&agentId=bob",
        json!({"free": false, "heldBy": "ann"}),
    );
    day.row("acquire_lease", mine);
    day.told(json!({"type": "lease_extended", "path": "src/a.rs", "agent": "ann"}));
    let theirs =
        |path: &str| json!({"path": path, "agent": "bob", "task": null, "lasts": "+10 minutes"});
    day.nothing("acquire_lease", theirs("src/a.rs"));
    day.refused(
        "acquire_lease",
        theirs("src"),
        &["a lease of another agent covers this path"],
    );
    day.row("acquire_lease", theirs("docs/b.md"));
    day.told(json!({"type": "lease_acquired", "path": "docs/b.md", "agent": "bob"}));
    day.run(
        "release_lease",
        json!({"path": "docs/b.md", "agent": "bob"}),
    );
    day.told(json!({"type": "lease_released", "path": "docs/b.md", "agent": "bob"}));
    day.shows(
        "/leases/check?filePath=docs/b.md&agentId=ann",
        json!({"free": true}),
    );
}

fn talk(day: &mut Day<impl Runner>) {
    let message = |id: &str, to: Value, ack: u8, expires: Value| {
        json!({"message": id, "type": "info.discovery", "agent": "ann", "to": to, "payload": r#"{"found":"it's here"}"#,
            "ack_required": ack, "expires": expires})
    };
    day.run("send", message("to-bob", "bob".into(), 1, "+1 hour".into()));
    day.told(json!({"type": "message_sent", "message": "to-bob", "from": "ann", "to": "bob"}));
    day.shows(
        "/messages/to-bob",
        json!({"message": {"payload": {"found": "it's here"}, "ackRequired": true}}),
    );
    day.run("send", message("to-all", Value::Null, 0, Value::Null));
    day.told(json!({"type": "message_sent", "message": "to-all", "to": null, "recipients": 1}));
    let heard = day.run("receive", json!({"agent": "bob"}));
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0]["id"], "to-bob");
    assert_eq!(heard[1]["payload"], r#"{"found":"it's here"}"#);
    let ids: Vec<&Value> = heard.iter().map(|message| &message["id"]).collect();
    day.run(
        "delivered",
        json!({"agent": "bob", "messages": json!(ids).to_string()}),
    );
    let delivered = |id: &str| json!({"type": "message_delivered", "message": id, "agent": "bob"});
    day.told_all(&[delivered("to-bob"), delivered("to-all")]);
    day.run("acknowledge", json!({"agent": "bob", "message": "to-bob"}));
    day.told(json!({"type": "message_acknowledged", "message": "to-bob", "agent": "bob"}));
    let shown = day
        .client
        .get(&format!("{API}/messages/to-bob"))
        .expect(200);
    assert_eq!(shown["deliveries"][0]["state"], "acknowledged", "{shown}");
    day.nothing("receive", json!({"agent": "bob"}));
}

fn end(day: &mut Day<impl Runner>) {
    let measured = json!({"snapshot": "measured", "result": r#"{"summary":"done"}"#, "build_success": 1, "type_errors": 0,
        "lint_errors": 0, "lint_warnings": 2, "tests_passing": 12, "tests_failing": 0, "coverage": 81.5});
    day.row("complete_measured", with(first(), measured.clone()));
    day.told(json!({"type": "lease_released", "path": "src/a.rs"}));
    day.told(json!({"type": "task_completed", "task": "first", "agent": "ann", "epoch": 1}));
    day.told(json!({"type": "task_ready", "task": "second"}));
    day.shows("/tasks/first", json!({"task": {"status": "completed", "result": {"summary": "done"}, "qualitySnapshotId": "measured"}}));
    let history = day
        .client
        .get(&format!("{API}/quality/history?taskId=first"))
        .expect(200);
    assert!(
        has(
            &history["snapshots"][0],
            &json!({"id": "measured", "testsPassing": 12, "testCoverage": 81.5, "agentId": "ann"})
        ),
        "{history}"
    );
    // A late report changes nothing, and leaves no second snapshot.
    day.nothing(
        "complete_measured",
        with(first(), with(measured, json!({"snapshot": "late"}))),
    );
}

fn give_up(day: &mut Day<impl Runner>) {
    let claim = json!({"agentId": "bob", "agentSkills": "[]", "excludeIds": ""});
    let claimed = day.row("claim_of_the_document", claim);
    assert!(
        has(
            &claimed,
            &json!({"id": "second", "status": "claimed", "assigned_agent": "bob"})
        ),
        "{claimed}"
    );
    day.told(json!({"type": "task_claimed", "task": "second", "agent": "bob", "epoch": 1}));
    let failed =
        json!({"agent": "bob", "epoch": 1, "failure": "resource_error", "error": "no room"});
    day.row("fail", with(json!({"task": "second"}), failed.clone()));
    day.told(
        json!({"type": "task_retry_planned", "task": "second", "retries": 1, "message": "no room"}),
    );
    day.shows(
        "/tasks/second",
        json!({"task": {"status": "pending_retry", "retryCount": 1, "previousAgents": ["bob"], "failureType": "resource_error",
            "assignedAgent": null}}),
    );
    assert_eq!(
        day.row("claim", json!({"agent": "bob", "exclude": "[]"}))["id"],
        "third"
    );
    day.told(json!({"type": "task_claimed", "task": "third", "agent": "bob", "epoch": 1}));
    day.row("fail_for_good", with(json!({"task": "third"}), failed));
    day.told(json!({"type": "task_failed", "task": "third", "message": "no room"}));
    day.shows(
        "/tasks/third",
        json!({"task": {"status": "failed", "lastError": "no room"}}),
    );
}

fn give_back(day: &mut Day<impl Runner>) {
    day.run("create_task", task("fourth", "medium", "[]", "[]"));
    day.told(json!({"type": "task_created", "task": "fourth"}));
    day.row("claim", json!({"agent": "bob", "exclude": "[]"}));
    let bobs = json!({"task": "fourth", "agent": "bob", "epoch": 1});
    day.row("release_task", bobs.clone());
    day.told(json!({"type": "task_requeued", "task": "fourth", "agent": "bob"}));
    assert_eq!(
        day.row("claim", json!({"agent": "ann", "exclude": "[]"}))["epoch"],
        2
    );
    let done = json!({"result": r#"{"summary":"mine"}"#});
    day.nothing("complete", with(bobs, done.clone()));
    day.row(
        "complete",
        with(json!({"task": "fourth", "agent": "ann", "epoch": 2}), done),
    );
    day.told(json!({"type": "task_completed", "task": "fourth", "agent": "ann", "epoch": 2}));
    day.shows(
        "/tasks/fourth",
        json!({"task": {"status": "completed", "result": {"summary": "mine"}, "retryCount": 0}}),
    );
}

fn sign_off(day: &mut Day<impl Runner>) {
    for agent in ["ann", "bob"] {
        day.run("deregister", json!({"agent": agent}));
        day.told(json!({"type": "agent_deregistered", "agent": agent}));
    }
    day.shows(
        "/agents/ann",
        json!({"agent": {"status": "offline", "tasksCompleted": 2}}),
    );
    day.run("register", agent("ann", "[]"));
    day.told(json!({"type": "agent_registered", "agent": "ann"}));
    day.shows(
        "/agents/ann",
        json!({"agent": {"status": "idle", "tasksCompleted": 2}}),
    );
}
