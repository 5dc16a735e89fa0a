//! Background agents of the real binary: a foreign client, the command line, and a hub that is killed.

use std::fs;
use std::process::Command;

use serde_json::Value;
use switchboard_tests::{API, Project, switchboard, until};

use crate::broker::{broker, project};
use crate::libsql::{node, run};

fn with(command: &str) -> Project {
    let project = project();
    let settings = format!("[squidrun.background]\ncommand = {command:?}\n");
    fs::write(project.root().join("switchboard.toml"), settings).expect("it is ours");
    project
}

fn bg(project: &Project, args: &[&str]) -> (bool, String) {
    let url = format!("ws://{}", broker(project).expect("it listens"));
    let output = Command::new(switchboard())
        .arg("bg")
        .args(args)
        .args(["--broker", &url])
        .current_dir(project.root())
        .output()
        .expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn a_client_of_node_performs_every_action() {
    let Some(programs) = node("background agents") else {
        return;
    };
    let project = with("cat");
    let _hub = project.start();
    let url = format!("ws://{}", broker(&project).expect("it listens"));
    let said = run(
        &programs,
        "background.mjs",
        &[("BROKER_URL".to_owned(), url)],
    );
    assert!(said.contains("all actions"), "{said}");
}

#[test]
fn background_agents_at_the_command_line() {
    let project = with("sh -c 'echo ready; cat'");
    let hub = project.start();
    let online = || {
        let roles = hub.client().get(&format!("{API}/roles")).expect(200);
        let roles = roles["roles"].as_array().cloned().unwrap_or_default();
        let slot = roles.iter().find(|role| role["target"] == "builder-bg-1");
        slot.is_some_and(|slot| slot["online"] == true)
    };
    let (_, said) = bg(&project, &["list"]);
    assert!(said.contains("no background agents") && !online(), "{said}");
    let (is_ok, said) = bg(&project, &["spawn"]);
    assert!(is_ok && said.contains("builder-bg-1 runs"), "{said}");
    until("its output", || {
        let (_, said) = bg(&project, &["show", "1"]);
        said.contains("ready").then_some(())
    });
    let (_, said) = bg(&project, &["list", "--json"]);
    let list: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(list["agents"][0]["status"], "running");
    assert!(online());
    assert!(bg(&project, &["map"]).1.contains("bg-2-3"));
    assert!(bg(&project, &["kill", "bg-2-1"]).0 && !online());
    let (is_ok, said) = bg(&project, &["kill", "1"]);
    assert!(!is_ok && said.contains("not_running"), "{said}");
    assert!(bg(&project, &["kill-all"]).1.contains("0 ended"));
}

#[test]
fn what_a_killed_hub_ran_is_ended_at_the_next_start() {
    // One that no signal to a terminal or group reaches, and does not listen to polite ones.
    let project = with(
        "sh -c 'setsid sh -c \"trap : TERM HUP; echo id=$SWITCHBOARD_RUN_ID=; while :; do sleep 1; done\" & cat'",
    );
    let mut hub = project.start();
    assert!(bg(&project, &["spawn"]).0);
    let run = until("its run id", || {
        let (_, said) = bg(&project, &["show", "1"]);
        let id = said.split('=').nth(1).map(str::to_owned);
        id.filter(|id| !id.is_empty())
    });
    hub.kill();
    drop(hub);
    let mark = format!("SWITCHBOARD_RUN_ID={run}");
    assert!(is_carried(&mark), "it outlives the hub");
    let _hub = project.start();
    assert!(
        !is_carried(&mark),
        "whoever is served finds nothing left of it"
    );
    assert!(bg(&project, &["list"]).1.contains("no background agents"));
    assert!(bg(&project, &["spawn", "1"]).0);
    assert!(bg(&project, &["kill-all"]).0);
}

fn is_carried(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("it is Linux").flatten();
    let mut environs = processes.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environs.any(|environ| {
        environ
            .split(|byte| *byte == 0)
            .any(|one| one == mark.as_bytes())
    })
}
