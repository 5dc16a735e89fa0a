//! Two hubs become nodes of one swarm, as a person does it, with the real binary.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use switchboard_tests::{Project, switchboard};

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

#[track_caller]
fn ok(project: &Project, arguments: &[&str]) -> String {
    let ended = cli(project, arguments);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[track_caller]
fn fails(project: &Project, arguments: &[&str], part: &str) {
    let ended = cli(project, arguments);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{arguments:?}");
    assert!(said.contains(part), "no {part:?} in: {said}");
}

fn json(project: &Project, arguments: &[&str]) -> Value {
    let said = ok(project, &[arguments, &["--json"]].concat());
    serde_json::from_str(&said).expect("JSON")
}

/// The nodes that a hub lists, its own first.
fn nodes(project: &Project) -> (String, Vec<String>) {
    let list = json(project, &["node", "list"]);
    let id = |node: &Value| node["nodeId"].as_str().expect("an id").to_owned();
    let others = list["nodes"].as_array().expect("a list").iter();
    (id(&list["own"]), others.map(id).collect())
}

/// The command that the inviter prints, as it would be typed on the other machine.
fn printed(inviter: &Project) -> Vec<String> {
    let said = ok(inviter, &["node", "invite"]);
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("switchboard "));
    let line = line.unwrap_or_else(|| panic!("no command in: {said}"));
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn two_hubs_invite_join_list_and_leave() {
    let flags = ["--auth", "hmac", "--tls-self-signed"];
    let (mut here, mut there) = (Project::new(), Project::new());
    here.give_flags(&flags);
    there.give_flags(&flags);
    let there = there.with_variable("SWITCHBOARD_RUNTIME_NODE_ID", "there");
    let (first, second) = (here.start(), there.start());
    let (own, none) = nodes(&here);
    assert!(own.starts_with("node-") && none.is_empty());
    let command = printed(&here);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    assert_eq!(command[..2], ["node", "join"]);
    let endpoint = format!("https://{}", second.addr());
    let said = ok(&there, &[&command[..], &["--endpoint", &endpoint]].concat());
    assert_eq!(said, format!("node {own} is joined\n"));
    assert_eq!(nodes(&here).1, ["there"]);
    assert_eq!(nodes(&there), ("there".to_owned(), vec![own.clone()]));
    let shown = ok(&here, &["node", "show", "there"]);
    assert!(shown.contains(&endpoint), "{shown}");
    let list = ok(&here, &["node", "list"]);
    assert!(list.contains("there") && list.contains("pull"), "{list}");

    // What was joined is still there after a restart, on both sides.
    first.stop();
    second.stop();
    let (first, second) = (here.start(), there.start());
    assert_eq!(nodes(&here), (own.clone(), vec!["there".to_owned()]));
    assert_eq!(nodes(&there).1, [&*own]);

    // The addresses are others now: nobody is told, and yet each may leave.
    let said = ok(&here, &["node", "leave", "there"]);
    assert_eq!(said, "node there is no longer joined\n");
    assert_eq!(nodes(&here).1, [""; 0]);
    let status = json(&here, &["node", "show", "there"]);
    assert_eq!(status["node"]["status"], "left");
    assert_eq!(
        ok(&there, &["node", "leave"]),
        format!("node {own} is no longer joined\n")
    );
    assert_eq!(ok(&there, &["node", "leave"]), "no node is joined\n");
    first.stop();
    second.stop();
}

#[test]
fn what_is_wrong_with_a_join_or_an_id_is_told() {
    let (here, there) = (Project::new(), Project::new());
    let (first, second) = (here.start(), there.start());
    let url = format!("http://{}", first.addr());
    let unknown = format!("sbi_{}", "0".repeat(64));
    fails(&there, &["node", "join", &url, "sbi_1"], "inviteToken");
    fails(&there, &["node", "join", "hub", &unknown], "url");
    fails(
        &there,
        &["node", "join", &url, &unknown],
        "there is no such invite",
    );
    fails(
        &there,
        &["node", "show", "nobody"],
        "there is no node nobody",
    );
    fails(
        &there,
        &["node", "leave", "nobody"],
        "there is no node nobody",
    );
    fails(
        &here,
        &["node", "invite", "--ttl", "1h"],
        "300 to 900 seconds",
    );
    fails(&here, &["node", "invite", "--ttl", "soon"], "such as 10m");
    let token = json(&here, &["node", "invite", "--ttl", "5m"])["inviteToken"].clone();
    let token = token.as_str().expect("a token").to_owned();
    ok(&there, &["node", "join", &url, &token]);
    assert_eq!(nodes(&here).1, [nodes(&there).0]);
    // Its id was made with its ledger.
    let own = nodes(&here).0;
    first.stop();
    second.stop();
    let here = here.with_variable("SWITCHBOARD_RUNTIME_NODE_ID", "another");
    let said = here.start_in_vain().stderr;
    assert!(said.contains(&own) && said.contains("another"), "{said}");
}
