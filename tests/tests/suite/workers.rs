//! `switchboard worker` of the real binary, with real programs and real repositories.

mod attached;
mod costs;
mod kit;
mod outages;
mod presets;
mod refusals;

use std::fs;

use serde_json::{Value, json};
use switchboard_tests::{API, until};

use kit::{Work, git};

#[test]
fn a_task_is_worked_on_in_a_worktree_committed_proven_and_reported() {
    // jetpack.agent.work_loop
    let work = Work::new();
    let task = work.add(
        json!({"title": "Say: hi; rm -rf 'x' $HOME", "type": "code", "description": "In a file."}),
    );
    let script = work.script(
        "cat > /dev/null; pwd; printenv SWITCHBOARD_TASK; echo hi > made.txt; echo all said",
    );
    let gate = "grep -q hi made.txt";
    let out = work
        .worker(&["--once", "--exec", &script, "--gate", gate])
        .ended();
    assert!(out.is_good, "{}", out.said);
    let done = work.task(&task);
    assert_eq!(done["status"], "completed", "{}", out.said);
    let result = &done["result"];
    assert_eq!(result["filesCreated"], json!(["made.txt"]));
    assert_eq!(result["summary"], "all said");
    assert_eq!(result["verdict"], "verified");
    assert_eq!(result["branch"], "sb/1-say-hi-rm-rf-x-home");
    let attempt = &work.details(&task)["attempts"][0];
    assert_eq!(attempt["verdict"], "verified");
    let commit = git(work.root(), &["rev-parse", "sb/1-say-hi-rm-rf-x-home"]);
    let evidence = attempt["evidence"].as_array().expect("a list");
    let commands: Vec<&Value> = evidence.iter().map(|one| &one["command"]).collect();
    assert_eq!(commands, ["git status --porcelain", gate]);
    assert!(
        evidence
            .iter()
            .all(|one| one["commit"] == commit.trim() && one["source"] == "worker")
    );
    let said = git(
        work.root(),
        &["log", "-1", "--format=%B", "sb/1-say-hi-rm-rf-x-home"],
    );
    assert!(
        said.starts_with("Say: hi; rm -rf 'x' $HOME\n\nall said\n\n"),
        "{said}"
    );
    for trailer in [
        format!("Switchboard-Task: {task}"),
        "Switchboard-Epoch: 1".to_owned(),
        "Switchboard-Agent: sh-".to_owned(),
    ] {
        assert!(said.contains(&trailer), "{said}");
    }
    assert!(!work.tree("1-say-hi-rm-rf-x-home").exists(), "it was clean");
    assert_eq!(
        git(work.root(), &["status", "--porcelain"]),
        "",
        "the main worktree is untouched"
    );
    // jetpack.agent.logs_operations
    let log = fs::read_to_string(work.state("attempts/1-1.log")).expect("a log is kept");
    assert!(
        log.contains(&task) && log.contains("/worktrees/1-say-hi"),
        "{log}"
    );
    let said = work.switchboard(&["task", "show", "1"]);
    assert!(said.contains("verified"), "{said}");
}

#[test]
fn a_red_gate_sends_the_program_back_and_then_fails_the_task() {
    let work = Work::new();
    let task = work.add(json!({"title": "fix it", "type": "code", "maxRetries": 0}));
    // Each run counts itself; the prompt of a later one has what the gate said.
    let script = work.script("cat > prompt.txt; echo x >> runs.txt; echo done");
    let counts = |wanted: &str| {
        format!("sh -c 'test $(wc -l < runs.txt) = {wanted} || {{ echo GATE SAYS NO; exit 3; }}'")
    };
    let out = work
        .worker(&["--once", "--exec", &script, "--gate", &counts("3")])
        .ended();
    assert!(out.is_good, "{}", out.said);
    assert_eq!(work.task(&task)["status"], "completed");
    let prompt = git(work.root(), &["show", "sb/1-fix-it:prompt.txt"]);
    assert!(prompt.contains("GATE SAYS NO"), "{prompt}");
    let task = work.add(json!({"title": "never", "type": "code", "maxRetries": 0}));
    let out = work
        .worker(&[
            "--once",
            "--fix",
            "1",
            "--exec",
            &script,
            "--gate",
            &counts("9"),
        ])
        .ended();
    assert!(!out.is_good, "{}", out.said);
    let failed = work.task(&task);
    assert_eq!(
        (&failed["status"], &failed["failureType"]),
        (&json!("failed"), &json!("quality_failure"))
    );
    let details = work.details(&task)["attempts"][0]["details"].to_string();
    assert!(details.contains("GATE SAYS NO"), "{details}");
}

#[test]
fn gates_come_from_the_project_and_not_from_the_worktree() {
    let work = Work::new();
    let settings = "[worker]\nsetup = \"sh -c 'echo set up > .git-setup; echo .git-setup >> $(git rev-parse --git-common-dir)/info/exclude'\"\n[[gate]]\nname = \"house rules\"\nrun = \"test -e made.txt\"\n";
    fs::write(work.root().join("switchboard.toml"), settings).expect("written");
    git(work.root(), &["add", "."]);
    git(work.root(), &["commit", "-qm", "settings"]);
    let task = work.add(json!({"title": "cheat", "type": "code", "maxRetries": 0}));
    let script = work.script("cat > /dev/null; test -e .git-setup; printf '[[gate]]\\nrun = \"true\"\\n' > switchboard.toml");
    let out = work
        .worker(&["--once", "--fix", "0", "--exec", &script])
        .ended();
    assert!(
        !out.is_good && out.said.contains("house rules failed"),
        "{}",
        out.said
    );
    assert_eq!(work.task(&task)["failureType"], "quality_failure");
}

#[test]
fn a_code_task_without_a_change_is_not_done_and_another_may_be() {
    let work = Work::new();
    let code = work.add(json!({"title": "change it", "type": "code", "maxRetries": 0}));
    let script = work.script("cat > /dev/null; echo I did it");
    let out = work.worker(&["--once", "--exec", &script]).ended();
    assert!(!out.is_good, "{}", out.said);
    assert_eq!(work.task(&code)["failureType"], "quality_failure");
    let review = work.add(json!({"title": "read it", "type": "review"}));
    let out = work.worker(&["--once", "--exec", &script]).ended();
    assert!(out.is_good, "{}", out.said);
    let done = work.task(&review);
    assert_eq!(done["status"], "completed");
    let attempt = &work.details(&review)["attempts"][0];
    assert_eq!(
        attempt["verdict"], "unverified",
        "nothing but the program says so"
    );
}

#[test]
fn a_task_begins_where_its_branch_or_its_dependency_ended() {
    let work = Work::new();
    let first = work.add(json!({"title": "first", "type": "code"}));
    let second = work.add(json!({"title": "second", "type": "code", "dependencies": [first]}));
    let script =
        work.script("cat > /dev/null; ls; echo x > made-$SWITCHBOARD_EPOCH-$(ls | wc -l).txt");
    for _ in 0..2 {
        let out = work.worker(&["--once", "--exec", &script]).ended();
        assert!(out.is_good, "{}", out.said);
    }
    let parent = git(work.root(), &["rev-parse", "sb/2-second~1"]);
    assert_eq!(parent, git(work.root(), &["rev-parse", "sb/1-first"]));
    assert_eq!(work.task(&second)["status"], "completed");
    let third = work.add(json!({"title": "third", "type": "code", "branch": "sb/1-first"}));
    let out = work.worker(&["--once", "--exec", &script]).ended();
    assert!(out.is_good, "{}", out.said);
    let parent = git(work.root(), &["rev-parse", "sb/3-third~1"]);
    assert_eq!(parent, git(work.root(), &["rev-parse", "sb/1-first"]));
    assert_eq!(work.task(&third)["status"], "completed");
}

#[test]
fn leases_are_taken_before_the_start_and_a_held_one_gives_the_task_back() {
    let work = Work::new();
    let mut hub = work.hub();
    hub.register("holder");
    let lease =
        json!({"agentId": "holder", "taskId": null, "filePath": "src", "durationMs": 600_000});
    hub.post(&format!("{API}/leases/acquire"), &lease)
        .expect(200);
    let task = work.add(json!({"title": "t", "type": "code", "files": ["README", "src/a.rs"]}));
    let script = work.script("cat > /dev/null; echo x > src.txt");
    let out = work.worker(&["--once", "--exec", &script]).ended();
    assert!(
        !out.is_good && out.said.contains("src/a.rs is leased by holder"),
        "{}",
        out.said
    );
    let back = work.task(&task);
    assert_eq!(
        (&back["status"], &back["retryCount"]),
        (&json!("ready"), &json!(0))
    );
    let leases = hub.get(&format!("{API}/leases")).expect(200);
    assert_eq!(
        leases["leases"].as_array().map(Vec::len),
        Some(1),
        "what it had got is free again"
    );
    let release = json!({"agentId": "holder", "filePath": "src"});
    hub.post(&format!("{API}/leases/release"), &release)
        .expect(200);
    let seen = work.script(
        "cat > /dev/null; touch begun; while test -e begun; do sleep 0.02; done; echo x > made.txt",
    );
    let worker = work.worker(&["--once", "--exec", &seen]);
    let begun = work.tree("1-t").join("begun");
    until("it works", || begun.exists().then_some(()));
    let leases = hub.get(&format!("{API}/leases")).expect(200);
    assert_eq!(leases["leases"].as_array().map(Vec::len), Some(2));
    fs::remove_file(begun).expect("it goes on");
    assert!(worker.ended().is_good);
}

#[test]
fn a_canceled_or_stopped_task_ends_the_program_at_once_with_all_it_started() {
    // jetpack.progress.continue_false, jetpack.agent.graceful_shutdown
    let work = Work::new();
    let script =
        work.script("echo $$ > pids.txt; sleep 600 & echo $! >> pids.txt; touch begun; wait");
    for (number, how) in [(1, "cancel"), (2, "release"), (3, "stop")] {
        let task = work.add(json!({"title": how, "type": "code"}));
        let worker = work.worker(&["--exec", &script]);
        let tree = work.tree(&format!("{number}-{how}"));
        until("it works", || tree.join("begun").exists().then_some(()));
        let pids = fs::read_to_string(tree.join("pids.txt")).expect("they are there");
        match how {
            "stop" => worker.terminate(),
            how => {
                let path = format!("{API}/tasks/{task}/{how}");
                work.hub().post(&path, &json!({})).expect(200);
            }
        }
        for pid in pids.lines() {
            until("it ends", || kit::is_dead(pid).then_some(()));
        }
        if how == "stop" {
            let out = worker.ended();
            assert!(
                out.is_good && out.said.contains("given back"),
                "{}",
                out.said
            );
            let agents = work
                .hub()
                .get(&format!("{API}/agents?status=idle"))
                .expect(200);
            assert_eq!(agents["agents"], json!([]), "it deregistered");
        } else {
            until("it is told", || {
                worker.said().contains("taken away").then_some(())
            });
            work.cancel(&task);
            worker.terminate();
            assert!(worker.ended().is_good);
        }
        let task = work.task(&task);
        assert_eq!(task["retryCount"], 0);
        work.cancel_by(&task);
    }
}

#[test]
fn the_agent_table_is_walked_through_while_the_worker_lives() {
    // jetpack.error.agent_not_registered, jetpack.agent.unique_id
    let work = Work::new();
    let script = work.script("cat > /dev/null; echo x >> made.txt");
    let worker = work.worker(&["-n", "2", "--exec", &script]);
    let agents = || {
        let agents = work
            .hub()
            .get(&format!("{API}/agents?status=idle"))
            .expect(200);
        let agents = agents["agents"].as_array().cloned().unwrap_or_default();
        agents
            .iter()
            .map(|agent| agent["id"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let ids = until("both are there", || {
        Some(agents()).filter(|ids| ids.len() == 2)
    });
    assert_ne!(ids[0], ids[1]);
    for id in &ids {
        work.hub()
            .send(&switchboard_tests::Request::new(
                "DELETE",
                format!("{API}/agents/{id}"),
            ))
            .expect("sent");
    }
    let task = work.add(json!({"title": "after", "type": "code"}));
    until("they register anew and work", || {
        (work.task(&task)["status"] == "completed").then_some(())
    });
    worker.terminate();
    assert!(worker.ended().is_good);
}

#[test]
fn a_program_that_prints_a_hundred_megabytes_forks_and_fails_is_reported_with_its_end() {
    let work = Work::new();
    let task = work.add(json!({"title": "loud", "maxRetries": 0}));
    let script = work.script(
        "head -c 100000000 /dev/zero | tr '\\0' x; (sleep 600 &); echo; echo the end >&2; exit 7",
    );
    let out = work.worker(&["--once", "--exec", &script]).ended();
    assert!(!out.is_good, "{}", out.said);
    let failed = work.task(&task);
    assert_eq!(failed["failureType"], "task_error");
    assert_eq!(failed["lastError"], "the program ended with exit code 7");
    let details = work.details(&task)["attempts"][0]["details"].to_string();
    assert!(
        details.contains("the end"),
        "{}",
        &details[details.len().saturating_sub(200)..]
    );
    let log = fs::metadata(work.state("attempts/1-1.log")).expect("a log");
    assert!(log.len() < 9 * 1024 * 1024);
}

#[test]
fn a_new_worktree_has_its_submodules() {
    let work = Work::new();
    let library = work.root().join(".switchboard/library");
    fs::create_dir(&library).expect("made");
    kit::repository(&library);
    let path = library.to_string_lossy();
    let allow = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &path,
        "lib",
    ];
    git(work.root(), &allow);
    git(work.root(), &["commit", "-qm", "library"]);
    let task = work.add(json!({"title": "t", "type": "code"}));
    let script = work.script("cat > /dev/null; cp lib/README made.txt");
    let env = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "protocol.file.allow"),
        ("GIT_CONFIG_VALUE_0", "always"),
    ];
    let out = work
        .worker_with(&["--once", "--exec", &script], &env)
        .ended();
    assert!(out.is_good, "{}", out.said);
    assert_eq!(
        work.task(&task)["result"]["filesCreated"],
        json!(["made.txt"])
    );
    assert!(!work.tree("1-t").exists(), "submodules do not keep it");
}
