//! The built-in presets, with stand-ins of their names that print what the real programs do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_tests::until;

use super::kit::Work;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/child/src/stream/golden")
        .join(name)
}

/// A directory in front of the path with a program of this name, which notes how it was called.
fn stand_in(work: &Work, name: &str, does: &str) -> String {
    let dir = work.state("bin");
    fs::create_dir_all(&dir).expect("made");
    let file = dir.join(name);
    let calls = dir.join("calls.txt");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\ncat > prompt.txt\n{does}\n",
        calls.display()
    );
    fs::write(&file, script).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
    format!(
        "{}:{}",
        dir.display(),
        std::env::var("PATH").expect("there is one")
    )
}

fn calls(work: &Work) -> Vec<String> {
    let text = fs::read_to_string(work.state("bin/calls.txt")).expect("it was called");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_preset_is_called_read_and_reported_as_its_program_documents() {
    let work = Work::new();
    let told = "The parser reads comments now.";
    let table = [
        (
            "claude",
            "claude-2.1.jsonl",
            json!(23912),
            json!(0.1875),
            "-p --verbose --output-format stream-json --permission-mode acceptEdits",
        ),
        (
            "codex",
            "codex-0.60.jsonl",
            json!(24885),
            Value::Null,
            "exec --json --sandbox workspace-write -",
        ),
        (
            "gemini",
            "gemini-0.21.jsonl",
            json!(250),
            Value::Null,
            "--output-format stream-json --approval-mode auto_edit",
        ),
    ];
    for (name, stream, tokens, cost, call) in table {
        let task = work.add(json!({"title": name, "type": "code"}));
        let path = stand_in(
            &work,
            name,
            &format!("echo x > {name}.txt; cat '{}'", golden(stream).display()),
        );
        let out = work
            .worker_with(&[name, "--once"], &[("PATH", &path)])
            .ended();
        assert!(out.is_good, "{}", out.said);
        let result = &work.task(&task)["result"];
        assert_eq!(
            (&result["summary"], &result["tokens"], &result["costUsd"]),
            (&json!(told), &tokens, &cost),
            "{name}"
        );
        assert_eq!(calls(&work).last().map(String::as_str), Some(call));
    }
    let agents = work
        .hub()
        .get("/api/v1/events?types=agent_registered")
        .expect(200)
        .to_string();
    assert!(
        agents.contains("claude-") && agents.contains("codex-"),
        "{agents}"
    );
}

#[test]
fn a_red_gate_resumes_the_session_and_hands_hooks_and_servers_over_again() {
    let work = Work::new();
    fs::write(work.state("hooks.json"), "{}").expect("written");
    work.add(json!({"title": "t", "type": "code", "maxRetries": 0}));
    let does = format!(
        "echo x >> runs.txt; cat '{}'",
        golden("claude-2.1.jsonl").display()
    );
    let path = stand_in(&work, "claude", &does);
    let hooks = work.state("hooks.json");
    let args = [
        "claude",
        "--once",
        "--yolo",
        "--settings",
        &hooks.to_string_lossy(),
        "--gate",
        "sh -c 'test $(wc -l < runs.txt) = 2'",
    ];
    let out = work.worker_with(&args, &[("PATH", &path)]).ended();
    assert!(out.is_good, "{}", out.said);
    let first = format!(
        "-p --verbose --output-format stream-json --dangerously-skip-permissions --settings {}",
        hooks.display()
    );
    let resumed = format!("{first} --resume 5f0c2b7e-8a55-4f5e-9d3c-0b6a1f2f7d10");
    assert_eq!(calls(&work), [first, resumed]);
}

#[test]
fn a_usage_limit_fails_the_attempt_and_rests_every_slot_until_it_ends() {
    let work = Work::new();
    for number in 0..2 {
        work.add(json!({"title": format!("t{number}"), "type": "code"}));
    }
    // The golden stream's limit ends in autumn 2026; this one ends in an hour.
    let stream = fs::read_to_string(golden("claude-2.1-limit.jsonl")).expect("it is there");
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("later")
        .as_secs();
    let stream = stream.replace("1794000000", &(now + 3600).to_string());
    fs::write(work.state("limit.jsonl"), stream).expect("written");
    let path = stand_in(
        &work,
        "claude",
        &format!("cat '{}'", work.state("limit.jsonl").display()),
    );
    let worker = work.worker_with(&["claude"], &[("PATH", &path)]);
    until("it rests", || {
        worker.said().contains("usage limit").then_some(())
    });
    until("it rests", || {
        worker.said().contains("rests for 3").then_some(())
    });
    let failed = work.hub().get("/api/v1/tasks").expect(200);
    let kinds: Vec<&Value> = failed["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| &task["failureType"])
        .collect();
    assert!(
        kinds.contains(&&json!("resource_error")) && kinds.contains(&&Value::Null),
        "{kinds:?}"
    );
    let tasks = failed["tasks"].as_array().expect("a list").iter();
    let retries: Vec<&Value> = tasks.map(|task| &task["retryCount"]).collect();
    assert_eq!(retries, [0, 0], "a limit is nothing that the task did");
    worker.terminate();
    assert!(worker.ended().is_good);
    assert_eq!(calls(&work).len(), 1, "the other task was not begun");
}

#[test]
fn a_usage_limit_that_does_not_tell_its_end_is_rested_for_five_minutes_at_first() {
    let work = Work::new();
    let task = work.add(json!({"title": "t", "type": "code", "maxRetries": 0}));
    let result =
        json!({"type": "result", "is_error": true, "result": "You've hit your usage limit"});
    let path = stand_in(
        &work,
        "claude",
        &format!("echo '{}'", result.to_string().replace('\'', "'\\''")),
    );
    let worker = work.worker_with(&["claude"], &[("PATH", &path)]);
    until("it rests", || {
        let said = worker.said();
        (said.contains("rests for 300 s") || said.contains("rests for 299 s")).then_some(())
    });
    let failed = work.task(&task);
    assert_eq!(
        (
            &failed["status"],
            &failed["failureType"],
            &failed["retryCount"]
        ),
        (&json!("pending_retry"), &json!("resource_error"), &json!(0))
    );
    worker.terminate();
    assert!(worker.ended().is_good);
}

#[test]
fn no_more_is_begun_than_may_be_spent() {
    let work = Work::new();
    let first = work.add(json!({"title": "one", "type": "code", "priority": "high"}));
    let second = work.add(json!({"title": "two", "type": "code"}));
    let does = format!(
        "echo x > made.txt; cat '{}'",
        golden("claude-2.1.jsonl").display()
    );
    let path = stand_in(&work, "claude", &does);
    let out = work
        .worker_with(&["claude", "--max-cost", "0.1"], &[("PATH", &path)])
        .ended();
    assert!(
        out.is_good && out.said.contains("what may be spent is spent"),
        "{}",
        out.said
    );
    assert_eq!(work.task(&first)["status"], "completed");
    assert_eq!(work.task(&second)["status"], "ready");
}

#[test]
fn presets_are_shown_and_changed_by_the_settings() {
    let work = Work::new();
    let settings = "[worker.presets.claude]\nchecked = [\"--model\", \"sonnet\"]\n[worker.presets.mine]\nargv = [\"my-agent\", \"{prompt_file}\"]\nprompt = \"file\"\nstop = \"hup\"\n";
    fs::write(work.root().join("switchboard.toml"), settings).expect("written");
    let shown = work.switchboard(&["worker", "--presets"]);
    for words in [
        "--model sonnet",
        "my-agent {prompt_file}",
        "exec --json {options} -",
        "description",
        "term",
        "hup",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    fs::write(
        work.root().join("switchboard.toml"),
        "[worker.presets.claude]\nchekced = []\n",
    )
    .expect("written");
    let shown = work.switchboard(&["worker", "--presets"]);
    assert!(
        shown.contains("worker.presets.claude") && shown.contains("chekced"),
        "{shown}"
    );
}

#[test]
fn sh_runs_the_description_and_nothing_else() {
    let work = Work::new();
    let task = work.add(json!({"title": "touch /tmp/no; exit 9", "type": "code", "description": "echo ran > made.txt\necho all good"}));
    let out = work.worker(&["sh", "--once"]).ended();
    assert!(out.is_good, "{}", out.said);
    assert_eq!(work.task(&task)["result"]["summary"], "all good");
    let task =
        work.add(json!({"title": "t", "description": "false\necho unreached", "maxRetries": 0}));
    let out = work.worker(&["sh", "--once", "--no-worktree"]).ended();
    assert!(!out.is_good, "{}", out.said);
    assert_eq!(work.task(&task)["failureType"], "task_error");
}
