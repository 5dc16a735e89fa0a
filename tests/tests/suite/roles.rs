//! What a person types to talk to roles: `say`, `inbox`, `role list`, with the real binary.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use switchboard_tests::{Project, switchboard, until};

fn project() -> Project {
    Project::new().with_variable("SWITCHBOARD_BROKER_LISTEN", "127.0.0.1:0")
}

fn cli(project: &Project, arguments: &[&str]) -> Output {
    Command::new(switchboard())
        .args(arguments)
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .env_remove("SQUIDRUN_ROLE")
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[track_caller]
fn ok(project: &Project, arguments: &[&str]) -> String {
    let output = cli(project, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn fails(project: &Project, arguments: &[&str], code: i32) -> String {
    let output = cli(project, arguments);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn role(project: &Project, target: &str) -> Value {
    let answer = ok(project, &["role", "list", "--json"]);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let roles = answer["roles"].as_array().expect("a list").iter();
    let found = roles.into_iter().find(|role| role["target"] == *target);
    found.expect("a role").clone()
}

#[test]
fn what_is_said_is_kept_shown_and_told_apart() {
    // squidrun.route.responsibilities, squidrun.startup.check_in
    let project = project();
    let hub = project.start();
    let said = ok(&project, &["say", "1", "(BUILDER #1): Builder online."]);
    assert!(said.contains("kept for 1"), "{said}");
    assert!(said.contains("accepted.unverified"), "{said}");
    let architect = role(&project, "architect");
    assert_eq!(
        (&architect["waiting"], &architect["pane"]),
        (&1.into(), &"1".into())
    );
    assert_eq!(
        architect["responsibilities"],
        "coordination, decisions, review"
    );
    assert!(role(&project, "builder")["checkedInAt"].is_string());
    let shown = ok(&project, &["inbox", "--role", "lead"]);
    assert!(shown.contains("(BUILDER #1): Builder online."), "{shown}");
    assert_eq!(
        role(&project, "architect")["waiting"],
        1,
        "looking takes nothing"
    );
    let why = fails(&project, &["say", "nobody", "x"], 1);
    assert!(why.contains("invalid_target"), "{why}");
    let why = fails(
        &project,
        &["say", "builder-bg-1", "x", "--from", "oracle"],
        1,
    );
    assert!(why.contains("owner_binding_violation"), "{why}");
    fails(&project, &["say", "architect", " "], 2);
    fails(&project, &["inbox"], 2);
    hub.stop();
}

#[test]
fn a_persons_own_messages_are_handed_over_once() {
    // squidrun.route.user_terminal
    let project = project();
    let hub = project.start();
    ok(&project, &["say", "user", "(ORACLE #1): for you"]);
    let read = until("it is handed over", || {
        let read = ok(&project, &["inbox", "--user"]);
        (!read.is_empty()).then_some(read)
    });
    assert_eq!(read.trim(), "(ORACLE #1): for you");
    until("it is settled", || {
        ok(&project, &["inbox", "--user"]).is_empty().then_some(())
    });
    hub.stop();
}

#[test]
fn without_a_hub_a_message_waits_as_a_file_and_arrives_once() {
    // squidrun.trigger.automatic, squidrun.delivery.two_paths
    let project = project();
    let nowhere = ["say", "architect", "x", "--broker", "ws://127.0.0.1:9"];
    let why = fails(&project, &nowhere, 3);
    assert!(why.contains("switchboard up"), "no project, no file: {why}");
    project.start().stop();
    let text = "(ORACLE #1): FINDING: the cache is cold";
    let say = |id: &str| {
        let words = [
            "say",
            "architect",
            text,
            "--id",
            id,
            "--broker",
            "ws://127.0.0.1:9",
        ];
        ok(&project, &words)
    };
    assert!(say("hm-1").contains("fallback.triggered"));
    let hub = project.start();
    until("the file is taken", || {
        (role(&project, "architect")["waiting"] == 1).then_some(())
    });
    // The same by the broker, and by file once more: it is known.
    let again = ok(&project, &["say", "architect", text, "--id", "hm-1"]);
    assert!(again.contains("kept for architect"), "{again}");
    say("hm-1");
    say("hm-2");
    until("the files are gone", || {
        let left = project.root().join(".squidrun/triggers");
        let left = std::fs::read_dir(left).expect("a directory");
        let left = left.filter_map(Result::ok);
        let files = left.filter(|entry| entry.path().is_file()).count();
        (files == 0).then_some(())
    });
    assert_eq!(
        role(&project, "architect")["waiting"],
        1,
        "same number, same body"
    );
    for target in ["user", "builder-bg-1"] {
        let why = fails(
            &project,
            &["say", target, "x", "--broker", "ws://127.0.0.1:9"],
            3,
        );
        assert!(why.contains("running hub"), "{why}");
    }
    hub.stop();
}

#[test]
fn a_configured_role_is_listed_spoken_to_and_in_the_journal() {
    // squidrun.extend.config, squidrun.extend.role_definition, squidrun.extend.spec_listed
    let project = project();
    let settings = "[squidrun.roles.reviewer]\npane = \"4\"\naliases = [\"review\"]\nheader = [\"REV\"]\nresponsibilities = \"reads every change\"\n";
    std::fs::write(project.root().join("switchboard.toml"), settings).expect("settings");
    let hub = project.start();
    let reviewer = role(&project, "reviewer");
    assert_eq!(reviewer["pane"], "4");
    assert_eq!(reviewer["responsibilities"], "reads every change");
    ok(
        &project,
        &["say", "review", "(ARCH #1): DECISION: we ship on Friday"],
    );
    fails(&project, &["say", "nobody", "(REV #1): hello?"], 1);
    assert_eq!(role(&project, "reviewer")["waiting"], 1);
    let journal = |words: &[&str]| ok(&project, &[&["journal", "--json"], words].concat());
    until("the journal follows", || {
        let said = journal(&[]);
        let is_there = |text: &str| said.contains(text);
        (is_there("Friday") && is_there("invalid_target")).then_some(())
    });
    let failed: Value = serde_json::from_str(&journal(&["--failed"])).expect("JSON");
    assert_eq!(failed["messages"][0]["errorCode"], "invalid_target");
    hub.stop();
    // Both are read without a hub.
    let shown = ok(&project, &["journal", "--role", "reviewer"]);
    assert!(shown.contains("we ship on Friday"), "{shown}");
    let told = ok(&project, &["briefing"]);
    assert!(told.contains("we ship on Friday"), "{told}");
}

#[test]
fn the_gate_before_a_restart_is_signed_in_order_and_for_one_commit() {
    // squidrun.gate.builder_tests, squidrun.gate.architect_verifies, squidrun.gate.oracle_review, squidrun.gate.docs_updated
    let project = project();
    let git = |words: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e@example.org"])
            .args(words)
            .current_dir(project.root())
            .output()
            .expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    let commit = |file: &str| {
        std::fs::write(project.root().join(file), "x").expect("a file");
        git(&["add", "-A"]);
        git(&["commit", "-qm", file]);
    };
    git(&["init", "-q"]);
    commit("one");
    let hub = project.start();
    let sign = |step: &'static str, role: &'static str| ["gate", "sign", step, "--role", role];
    fails(&project, &sign("tests", "builder"), 1);
    ok(&project, &["gate", "open"]);
    let steps = [
        ("tests", "builder"),
        ("verified", "architect"),
        ("risk", "oracle"),
        ("docs", "oracle"),
    ];
    for (at, (step, role)) in steps.into_iter().enumerate() {
        fails(&project, &["gate", "status"], 1);
        if let Some((later, by)) = steps.get(at + 1) {
            let why = fails(&project, &sign(later, by), 1);
            assert!(why.contains("comes first"), "{why}");
        }
        let stranger = if role == "builder" {
            "oracle"
        } else {
            "builder"
        };
        let why = fails(&project, &sign(step, stranger), 1);
        assert!(why.contains("is signed by"), "{why}");
        ok(&project, &sign(step, role));
    }
    let passed = ok(&project, &["gate", "status"]);
    assert!(passed.contains("may be restarted"), "{passed}");
    std::fs::write(project.root().join("two"), "x").expect("a file");
    let why = fails(&project, &sign("tests", "builder"), 1);
    assert!(why.contains("commit first"), "{why}");
    commit("two");
    let why = fails(&project, &sign("verified", "architect"), 1);
    assert!(why.contains("another commit"), "{why}");
    hub.stop();
}

#[test]
fn a_roll_call_reaches_every_role_and_shows_who_answered() {
    // squidrun.extend.roll_call
    let project = project();
    let hub = project.start();
    let answered = std::thread::scope(|scope| {
        let call = scope.spawn(|| cli(&project, &["roll-call", "--wait", "60", "--json"]));
        for (target, word) in [
            ("architect", "ARCH"),
            ("builder", "BUILDER"),
            ("oracle", "ORACLE"),
        ] {
            until("it is asked", || {
                let seen = ok(&project, &["inbox", "--role", target]);
                seen.contains("Roll call").then_some(())
            });
            ok(&project, &["say", "user", &format!("({word} #1): here")]);
        }
        call.join().expect("it ends")
    });
    assert_eq!(answered.status.code(), Some(0), "{answered:?}");
    let told: Value = serde_json::from_slice(&answered.stdout).expect("JSON");
    assert_eq!(told["roles"][1]["answer"], "(BUILDER #1): here");
    let why = fails(&project, &["roll-call", "--wait", "1"], 1);
    assert!(why.contains("3 roles did not answer"), "{why}");
    hub.stop();
}

fn inbox(project: &Project, role: &str) -> String {
    ok(project, &["inbox", "--role", role])
}

#[test]
fn a_failure_is_tried_once_more_and_then_told_with_its_log() {
    // squidrun.escalate.local_retry, squidrun.escalate.architect
    let project = project();
    let escalate = |rest: &[&str]| {
        let words = [&["escalate", "--role", "builder"][..], rest].concat();
        let output = cli(&project, &words);
        (output.status.code(), format!("{output:?}"))
    };
    let (code, said) = escalate(&["x", "--broker", "ws://127.0.0.1:9", "--", "false"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nobody was told"), "{said}");
    let hub = project.start();
    let tries = || {
        let found = std::fs::read_to_string(project.root().join("tries"));
        let count = found.unwrap_or_default().lines().count();
        let _ = std::fs::remove_file(project.root().join("tries"));
        count
    };
    for (script, code, tried, is_told) in [
        ("echo x >> tries", 0, 1, false),
        (
            "echo x >> tries; [ $(wc -l < tries) = 2 ] || exit 75",
            0,
            2,
            false,
        ),
        (
            "echo x >> tries; echo error: bad type in a.rs >&2; exit 3",
            3,
            1,
            true,
        ),
        (
            "echo x >> tries; echo 'curl: Connection refused' >&2; exit 7",
            7,
            2,
            true,
        ),
    ] {
        let (ended, said) = escalate(&["it fails", "--", "sh", "-c", script]);
        assert_eq!((ended, tries()), (Some(code), tried), "{script}: {said}");
        assert_eq!(said.contains("kept for architect"), is_told, "{said}");
    }
    let told = inbox(&project, "architect");
    assert!(
        told.contains("first error: error: bad type in a.rs"),
        "{told}"
    );
    assert!(
        told.contains("ended with exit code 7, tried twice"),
        "{told}"
    );
    assert!(
        told.contains("end of the log:\ncurl: Connection refused"),
        "{told}"
    );
    let log = project.root().join("bench.log");
    std::fs::write(&log, "warm up\nfatal: out of memory\n").expect("written");
    let log = log.to_str().expect("a path");
    let (code, said) = escalate(&["--log", log, "the benchmark dies"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(inbox(&project, "architect").contains("first error: fatal: out of memory"));
    assert_eq!(escalate(&["--log", "nowhere.log", "x"]).0, Some(1));
    assert_eq!(escalate(&[" "]).0, Some(2));
    ok(&project, &["escalate", "--role", "lead", "my own"]);
    until("the person has it", || {
        let read = ok(&project, &["inbox", "--user"]);
        read.contains("my own").then_some(())
    });
    // squidrun.escalate.negative_knowledge
    for _ in 0..3 {
        let script = "echo fatal: no space in /tmp/$$; exit 1";
        escalate(&["again", "--", "sh", "-c", script]);
    }
    until("the oracle hears of it", || {
        let told = inbox(&project, "oracle");
        told.contains("3 times within 24 hours").then_some(())
    });
    let known = ok(&project, &["memory", "search", "negative", "space"]);
    assert!(known.contains("builder failed 3 times"), "{known}");
    hub.stop();
    // Without a hub it waits as a file.
    let (code, said) = escalate(&["later", "--broker", "ws://127.0.0.1:9"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("fallback.triggered"), "{said}");
}

#[test]
fn claims_are_listed_judged_and_found() {
    let project = project();
    let hub = project.start();
    ok(
        &project,
        &[
            "say",
            "architect",
            "(BUILDER #1): FINDING: the cache is cold\nTASK: warm it",
        ],
    );
    let listed = ok(&project, &["claim", "list"]);
    assert!(
        listed.contains("the cache is cold") && listed.contains("proposed"),
        "{listed}"
    );
    let open = ok(&project, &["claim", "ls", "--unresolved"]);
    assert!(open.contains("warm it") && !open.contains("cold"), "{open}");
    let judged = [
        "claim",
        "status",
        "1",
        "confirmed",
        "--by",
        "oracle",
        "--why",
        "measured",
    ];
    assert!(ok(&project, &judged).contains("claim 1 is confirmed"));
    let listed = ok(
        &project,
        &["claim", "list", "--status", "confirmed", "--json"],
    );
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["claims"][0]["judged"]["why"], "measured");
    let found = ok(&project, &["memory", "search", "cache", "cold"]);
    assert!(
        found.contains("the cache is cold (confirmed, claim 1)"),
        "{found}"
    );
    fails(&project, &["claim", "status", "1", "perhaps"], 2);
    fails(&project, &["claim", "status", "77", "confirmed"], 1);
    hub.stop();
}
