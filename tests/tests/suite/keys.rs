//! `switchboard key rotate` with the real binary, on both stores.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Hub, Project, Request, switchboard, until};
use switchboard_wire::signature::MasterKey;

/// What a command answers.
#[track_caller]
fn answer(project: &Project, arguments: &[&str]) -> Value {
    let output = Command::new(switchboard())
        .args(arguments)
        .arg("--json")
        .current_dir(project.root())
        .env_remove("SWITCHBOARD_URL")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// The status of a call that only a steward may make.
fn steers(hub: &Hub, token: &str) -> u16 {
    let request = Request::get(format!("{API}/tokens"));
    let request = request.header("Authorization", format!("Bearer {token}"));
    hub.client().send(&request).expect("it is answered").status
}

fn steward(project: &Project) -> String {
    let key = fs::read_to_string(project.data_dir().join("key")).expect("a key is kept");
    MasterKey::from_hex(&key)
        .expect("it is a key")
        .steward_token()
}

#[test]
fn a_new_key_in_a_file_is_taken_up_by_the_hub_that_runs_and_by_the_next() {
    let project = Project::new().with_variable("SWITCHBOARD_AUTH_MODE", "hmac");
    let hub = project.start();
    let made = answer(&project, &["token", "create", "ann"]);
    let token = made["token"]["secret"]
        .as_str()
        .expect("a secret")
        .to_owned();
    let old = steward(&project);
    assert_eq!((steers(&hub, &token), steers(&hub, &old)), (200, 200));
    let report = answer(&project, &["key", "rotate"]);
    assert_eq!(report["takenUp"], true, "{report}");
    assert_eq!((steers(&hub, &token), steers(&hub, &old)), (401, 401));
    assert_eq!(answer(&project, &["token", "list"])["tokens"], json!([]));
    hub.stop();
    let old = steward(&project);
    let report = answer(&project, &["key", "rotate"]);
    assert_eq!(report.get("takenUp"), None, "no hub runs: {report}");
    let hub = project.start();
    assert_eq!(
        (steers(&hub, &old), steers(&hub, &steward(&project))),
        (401, 200)
    );
    hub.stop();
}

#[test]
fn a_new_key_in_a_database_is_taken_up_by_every_coordinator() {
    let Some(server) = Cluster::shared("a new master key") else {
        return;
    };
    let database = server.create_database();
    let projects: [Project; 2] = std::array::from_fn(|_| {
        Project::on(&database.url).with_variable("SWITCHBOARD_AUTH_MODE", "hmac")
    });
    let hubs = projects.each_ref().map(Project::start);
    let old = steward(&projects[0]);
    assert_eq!(steward(&projects[1]), old, "they share it");
    let report = answer(&projects[0], &["key", "rotate", "--store", &database.url]);
    assert_eq!(report["takenUp"], true, "{report}");
    let new = steward(&projects[0]);
    assert_ne!(new, old);
    for (project, hub) in projects.iter().zip(&hubs) {
        until("it takes up the new key", || {
            (steers(hub, &new) == 200).then_some(())
        });
        assert_eq!(steers(hub, &old), 401);
        assert_eq!(steward(project), new);
    }
    for hub in hubs {
        hub.stop();
    }
}
