//! `switchboard conformance runtime`: a hub that keeps every rule, and hubs that break one each.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use switchboard_tests::{Client, Hub, Project, switchboard, until};

/// What only a hub that is killed shows.
const UNSEEN: [&str; 3] = [
    "runtime.message.ledger_durable",
    "runtime.ack.accepted_durable",
    "runtime.cursor.after_enqueue",
];

/// Hubs with a broken rule that are checked beside each other.
const HUBS_AT_ONCE: usize = 7;

/// A hub that does not keep anybody waiting, with a skill that capabilities can name.
fn project() -> Project {
    let project = Project::new();
    let skills = project.root().join("skills");
    let skill = skills.join("conformance");
    fs::create_dir_all(&skill).expect("a directory can be made");
    let manifest = json!({ "name": "conformance", "version": "1.0.0" });
    fs::write(skill.join("skill.json"), manifest.to_string()).expect("a file can be written");
    let skills = skills.display().to_string();
    [
        ("GAP_TIMEOUT_SECONDS", "2"),
        ("CURSOR_LEASE_SECONDS", "4"),
        ("ACCEPTED_ACK_TIMEOUT_SECONDS", "5"),
        ("PROCESSED_SLA_GRACE_SECONDS", "2"),
        ("SKILLS_DIR", skills.as_str()),
    ]
    .into_iter()
    .fold(project, |project, (name, value)| {
        project.with_variable(format!("SWITCHBOARD_RUNTIME_{name}"), value)
    })
}

/// The checker of a hub that is set up so.
fn checker(url: &str, at: &Path, level: &str) -> Command {
    let mut command = Command::new(switchboard());
    command
        .args(["conformance", "runtime", "--json", "--url", url])
        .args(["--level", level, "--skill", "conformance@1.0.0"])
        .args(["--gap-timeout", "2", "--cursor-lease", "4"])
        .args(["--accepted-timeout", "5", "--processed-grace", "2"])
        .current_dir(at)
        .stdin(Stdio::null());
    command
}

/// The exit code, and each clause with what is said of it.
fn report(checker: &mut Command) -> (i32, Vec<Value>) {
    let checked = checker.output().expect("it starts");
    let complaint = String::from_utf8_lossy(&checked.stderr);
    let report: Value = serde_json::from_slice(&checked.stdout).expect(&complaint);
    let clauses = report["clauses"].as_array().expect("a list").clone();
    (checked.status.code().expect("it ended by itself"), clauses)
}

fn check(hub: &Hub, at: &Path, level: &str) -> (i32, Vec<Value>) {
    report(&mut checker(&format!("http://{}", hub.addr()), at, level))
}

/// Clauses of which this is said; those that sum up others are left out.
fn those(clauses: &[Value], verdict: &str) -> Vec<String> {
    let sums_up = |id: &str| id.starts_with("runtime.l1.") || id.starts_with("runtime.l2.");
    let said = clauses.iter().filter(|one| one["verdict"] == verdict);
    let ids = said.map(|one| one["clause"].as_str().expect("an id").to_owned());
    ids.filter(|id| !sums_up(id)).collect()
}

fn join(here: &Hub, there: &Hub) {
    let invite = here.client().post("/runtime/v1/invites", &json!({}));
    let invite = invite.expect(201)["inviteToken"].clone();
    let join = json!({ "url": format!("http://{}", here.addr()), "inviteToken": invite });
    there
        .client()
        .post("/runtime/v1/nodes/join", &join)
        .expect(200);
}

#[test]
fn a_fresh_hub_among_nodes_does_all_that_can_be_seen_and_is_left_as_it_was() {
    // It has to manage with the authentications of a minute; what agents may do is another matter.
    let limited = ["CLAIM", "HEARTBEAT", "PUBLISH", "OTHER"];
    let limited = limited.map(|class| (format!("{class}_PER_MINUTE"), "100000"));
    let mut checked = project();
    for (name, value) in limited.into_iter().chain([("ENABLED".to_owned(), "true")]) {
        checked = checked.with_variable(format!("SWITCHBOARD_LIMITS_{name}"), value);
    }
    let projects = [checked, project()];
    let hubs = [projects[0].start(), projects[1].start()];
    join(&hubs[0], &hubs[1]);
    let (code, clauses) = check(&hubs[0], projects[0].root(), "3");
    let broken: Vec<&Value> = clauses
        .iter()
        .filter(|one| one["verdict"] == "broken")
        .collect();
    assert!(
        broken.is_empty(),
        "{}",
        serde_json::to_string_pretty(&broken).expect("JSON")
    );
    assert_eq!(code, 0);
    assert_eq!(those(&clauses, "notChecked"), UNSEEN, "{clauses:#?}");
    let mut client = hubs[0].client();
    let nodes = client.get("/runtime/v1/nodes").expect(200);
    assert_eq!(
        nodes["nodes"].as_array().expect("a list").len(),
        1,
        "its nodes left"
    );
    let agents = client.get("/api/v1/agents").expect(200);
    assert_eq!(agents["agents"], json!([]), "its agents are gone");
    let sessions = client.get("/ansible/agent/sessions").expect(200);
    assert_eq!(sessions["sessions"], json!([]), "and its sessions");
}

#[test]
fn a_check_that_is_stopped_leaves_nothing_behind() {
    let project = project();
    let hub = project.start();
    let url = format!("http://{}", hub.addr());
    let mut checker = checker(&url, project.root(), "3");
    let checker = checker.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut checker = checker.spawn().expect("it starts");
    let mut client = hub.client();
    let left = |client: &mut Client| {
        [
            "/runtime/v1/nodes",
            "/api/v1/agents",
            "/ansible/agent/sessions",
        ]
        .map(|path| {
            let name = path.rsplit('/').next().expect("a word");
            let list = client.get(path).expect(200)[name].take();
            list.as_array().expect("a list").len()
        })
    };
    until("it is in the middle of it", || {
        let [nodes, agents, _] = left(&mut client);
        (nodes > 3 && agents > 3).then_some(())
    });
    let pid = Pid::from_child(&checker);
    kill_process(pid, Signal::INT).expect("it runs");
    let status = checker.wait().expect("it ends");
    let mut said = String::new();
    let mut stderr = checker.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut said).expect("it is text");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("stopped before the end"), "{said}");
    assert_eq!(left(&mut client), [0, 0, 0], "{said}");
    hub.stop();
}

#[test]
fn a_node_elsewhere_is_checked_over_tls_with_the_invites_and_the_agent_that_were_given() {
    let mut project = project();
    let before = project.start();
    before.client().register("architect");
    before.stop();
    project.give_flags(&["--auth", "hmac", "--tls-self-signed"]);
    let hub = project.start();
    let cli = |arguments: &[&str]| {
        let mut command = Command::new(switchboard());
        let done = command
            .args(arguments)
            .arg("--json")
            .current_dir(project.root());
        let done = done.stdin(Stdio::null()).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stderr);
        serde_json::from_slice::<Value>(&done.stdout).expect(&said)
    };
    let token = cli(&["token", "create", "ann"])["token"]["secret"].take();
    let mut invites = Vec::new();
    for _ in 0..9 {
        let made = cli(&["node", "invite"])["inviteToken"].take();
        invites.extend([
            "--invite".to_owned(),
            made.as_str().expect("text").to_owned(),
        ]);
    }
    let elsewhere = tempfile::tempdir().expect("there is room");
    let cert = project.data_dir().join("tls-cert.pem");
    let mut checker = checker(&format!("https://{}", hub.addr()), elsewhere.path(), "1");
    checker
        .env("SWITCHBOARD_TOKEN", token.as_str().expect("text"))
        .args(["--agent", "architect", "--ca-cert"])
        .arg(cert)
        .args(invites);
    let (code, clauses) = report(&mut checker);
    assert_eq!(those(&clauses, "broken"), [""; 0], "{clauses:#?}");
    assert_eq!(code, 0);
    let met = those(&clauses, "met");
    for clause in [
        "runtime.plane.own_outbox_only",
        "runtime.plane.consumer_reads_others",
        "runtime.message.all_expanded",
        "runtime.task_complete.fields",
        "runtime.cursor.epoch",
    ] {
        assert!(met.iter().any(|one| one == clause), "{clauses:#?}");
    }
    // One node less than it needs: what that one would have seen is named, with the reason.
    let short = clauses.iter().filter(|one| {
        let why = one["why"].as_str().unwrap_or_default();
        why.contains("no invite was left for it")
    });
    assert!(short.count() > 0, "{clauses:#?}");
    assert_eq!(cli(&["node", "list"])["nodes"], json!([]), "its nodes left");
    hub.stop();
}

#[test]
fn a_hub_that_breaks_a_rule_of_any_group_is_found_out() {
    let groups: [(&str, &str, &[&str]); 21] = [
        ("plane", "1", &["runtime.plane.own_outbox_only"]),
        ("envelope", "1", &["runtime.envelope.source"]),
        (
            "message",
            "1",
            &["runtime.message.payload", "runtime.message.exactly_once"],
        ),
        ("task_create", "1", &["runtime.task_create.request_fields"]),
        ("route", "1", &["runtime.route.explicit_targets"]),
        ("task_accept", "1", &["runtime.task_accept.fields"]),
        ("task_update", "1", &["runtime.task_update.fields"]),
        ("task_complete", "1", &["runtime.task_complete.fields"]),
        ("task_failed", "1", &["runtime.task_failed.fields"]),
        ("ack", "1", &["runtime.ack.reference"]),
        (
            "cursor",
            "1",
            &["runtime.cursor.per_pair", "runtime.cursor.epoch"],
        ),
        ("default", "1", &["runtime.default.accepted_timeout"]),
        ("catalog", "2", &["runtime.catalog.owner"]),
        (
            "index",
            "2",
            &["runtime.index.fields", "runtime.index.policy_version"],
        ),
        ("compaction", "2", &["runtime.compaction.active_only"]),
        ("skill", "2", &["runtime.skill.task_created"]),
        (
            "review",
            "2",
            &[
                "runtime.review.eta_missed",
                "runtime.review.task_failed",
                "runtime.review.schema_failed",
                "runtime.review.route_failing",
            ],
        ),
        ("pop_tokens", "3", &["runtime.l3.pop_tokens"]),
        ("replay_nonce", "3", &["runtime.l3.replay_nonce"]),
        ("replay_jti", "3", &["runtime.l3.replay_jti"]),
        ("audit", "3", &["runtime.l3.audit_correlation"]),
    ];
    // Not all at once: what takes long for want of a processor would be told as a broken promise.
    for some in groups.chunks(HUBS_AT_ONCE) {
        thread::scope(|scope| {
            for (group, level, expected) in some {
                scope.spawn(move || {
                    let project = project().with_variable("SWITCHBOARD_BREAK_RUNTIME", *group);
                    let hub = project.start();
                    let (code, clauses) = check(&hub, project.root(), level);
                    assert_eq!(
                        those(&clauses, "broken"),
                        *expected,
                        "{group}: {clauses:#?}"
                    );
                    assert_eq!(code, 1, "{group}");
                });
            }
        });
    }
}
