//! `switchboard worker --tail` beside workers that run already, and what lists say of what they did.

use std::fs;

use serde_json::json;
use switchboard_tests::until;

use super::kit::Work;

#[test]
fn what_a_running_worker_says_can_be_followed_and_left_again() {
    let mut work = Work::new();
    work.add(json!({"title": "t", "type": "code"}));
    let script = work.script(
        "cat > /dev/null; echo so far; touch ../begun; while test -e ../begun; do sleep 0.02; done; echo then this; echo x > made.txt",
    );
    let early = work.worker(&["--tail"]);
    until("it waits", || {
        let said = early.said();
        said.contains("no worker is at work here").then_some(())
    });
    let worker = work.worker(&["--exec", &script]);
    let begun = work.tree("begun");
    until("it works", || begun.exists().then_some(()));
    // The hub is not needed for it.
    work.kill_hub();
    let late = work.worker(&["--tail", "--json"]);
    for tail in [&early, &late] {
        until("it is seen", || {
            tail.said().contains("so far").then_some(())
        });
    }
    fs::remove_file(&begun).expect("it goes on");
    for tail in [&early, &late] {
        until("it is seen", || {
            tail.said().contains("then this").then_some(())
        });
    }
    let said = early.said();
    assert!(
        said.contains(" sh-") && said.contains(" #1 so far"),
        "{said}"
    );
    assert!(late.said().contains(r#""what":"output","agent":"sh-"#));
    for tail in [early, late] {
        tail.terminate();
        assert!(tail.ended().is_good);
    }
    worker.kill();
}

#[test]
fn the_list_of_tasks_says_how_far_what_is_finished_was_proven() {
    let work = Work::new();
    let done = work.script("cat > /dev/null; echo x > made.txt");
    for (title, gate) in [("proven", Some("true")), ("said", None)] {
        work.add(json!({"title": title, "type": "code"}));
        let mut args = vec!["--once", "--exec", &done];
        args.extend(gate.map(|gate| ["--gate", gate]).into_iter().flatten());
        let out = work.worker(&args).ended();
        assert!(out.is_good, "{}", out.said);
    }
    let id = work.add(json!({"title": "shaky"}));
    let mut hub = work.hub();
    hub.register("a");
    let claim = json!({"agentId": "a", "taskId": id});
    hub.post("/api/v1/tasks/claim", &claim).expect(200);
    let evidence = json!([{"command": "make", "exitCode": 1, "durationMs": 1, "source": "worker"}]);
    let result =
        json!({"filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": "done"});
    let complete = json!({"agentId": "a", "result": result, "evidence": evidence});
    hub.post(&format!("/api/v1/tasks/{id}/complete"), &complete)
        .expect(200);
    work.add(json!({"title": "open"}));
    let table = work.switchboard(&["task", "list"]);
    for (title, verdict) in [
        ("proven", "verified"),
        ("said", "unverified"),
        ("shaky", "gaps"),
        ("open", " - "),
    ] {
        let mut lines = table.lines();
        let line = lines
            .find(|line| line.contains(title))
            .expect("it is there");
        assert!(line.contains(verdict), "{table}");
    }
    let json = work.switchboard(&["task", "list", "--json", "--oldest"]);
    let page: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let tasks = page["tasks"].as_array().expect("a list").iter();
    let verdicts: Vec<&serde_json::Value> = tasks.map(|task| &task["verdict"]).collect();
    assert_eq!(
        verdicts,
        [
            &json!("verified"),
            &json!("unverified"),
            &json!("gaps"),
            &json!(null)
        ]
    );
}
