//! `switchboard conformance runtime`: a hub that keeps every rule, and hubs that break one each.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use switchboard_tests::{Hub, Project, switchboard};

/// What only a hub that is killed shows.
const UNSEEN: [&str; 3] = [
    "runtime.message.ledger_durable",
    "runtime.ack.accepted_durable",
    "runtime.cursor.after_enqueue",
];

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

/// The exit code, and each clause with what is said of it.
fn check(hub: &Hub, at: &Path, level: &str) -> (i32, Vec<Value>) {
    let url = format!("http://{}", hub.addr());
    let checked = Command::new(switchboard())
        .args(["conformance", "runtime", "--json", "--url", &url])
        .args(["--level", level, "--skill", "conformance@1.0.0"])
        .args([
            "--gap-timeout",
            "2",
            "--cursor-lease",
            "4",
            "--accepted-timeout",
            "5",
        ])
        .args(["--processed-grace", "2"])
        .current_dir(at)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let complaint = String::from_utf8_lossy(&checked.stderr);
    let report: Value = serde_json::from_slice(&checked.stdout).expect(&complaint);
    let clauses = report["clauses"].as_array().expect("a list").clone();
    (checked.status.code().expect("it ended by itself"), clauses)
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
    let projects = [project(), project()];
    let hubs = [projects[0].start(), projects[1].start()];
    join(&hubs[0], &hubs[1]);
    let (code, clauses) = check(&hubs[0], projects[0].root(), "2");
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
}

#[test]
fn a_hub_that_breaks_a_rule_of_any_group_is_found_out() {
    let groups: [(&str, &str, &[&str]); 17] = [
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
    ];
    thread::scope(|scope| {
        for (group, level, expected) in groups {
            scope.spawn(move || {
                let project = project().with_variable("SWITCHBOARD_BREAK_RUNTIME", group);
                let hub = project.start();
                let (code, clauses) = check(&hub, project.root(), level);
                assert_eq!(those(&clauses, "broken"), expected, "{group}: {clauses:#?}");
                assert_eq!(code, 1, "{group}");
            });
        }
    });
}
