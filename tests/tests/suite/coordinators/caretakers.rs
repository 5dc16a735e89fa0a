//! Everyone looks after what is due, all at the same moment; each thing happens once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{API, Client, Project, until};

use super::Team;
use crate::bus::peer::Peer;

const COORDINATORS: usize = 3;
/// Of each kind; more than one step of a caretaker takes.
const MANY: usize = 300;
/// Agents that fall silent, each with a task; more than one step takes.
const MUTE: usize = 24;
/// Everything becomes due after this: by then each coordinator, which looks every five seconds, knows of it.
const DUE_AFTER_MS: u64 = 8000;
/// Retries, leases, messages, silent agents.
const ONE_SWEEP: u64 = 4;

#[test]
fn what_becomes_due_for_all_coordinators_at_once_happens_exactly_once() {
    let Some(server) = Cluster::shared("caretakers on all coordinators") else {
        return;
    };
    let database = server.create_database();
    let team = Team::on(&database.url, COORDINATORS);
    let mut clients = team.clients();
    let expected = prepare(&mut clients[0]);
    all_is_due_soon(&database);

    until("all of it has happened", || {
        let status = clients[0].status();
        let left = [&status["leases"], &status["messages"]["queued"]];
        let is_over = left.iter().all(|left| **left == 0)
            && status["agents"]["offline"] == MUTE
            && status["tasks"]["ready"] == MANY + MUTE;
        is_over.then_some(())
    });
    // Whoever came second has looked by now.
    let verbs = |client: &mut Client| client.figure("switchboard_verbs_total");
    let before: Vec<u64> = clients.iter_mut().map(verbs).collect();
    for (client, before) in clients.iter_mut().zip(before) {
        until("its caretaker has looked once more", || {
            (verbs(client) > before + ONE_SWEEP).then_some(())
        });
    }
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for what in clients[2].events().iter().filter_map(due) {
        *found.entry(what).or_default() += 1;
    }
    let missing: Vec<_> = expected
        .iter()
        .filter(|what| !found.contains_key(what))
        .collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
    found.retain(|what, times| *times > 1 || !expected.contains(what));
    assert!(found.is_empty(), "too often, or unexpected: {found:?}");
    drop(clients);
    team.stop();
}

#[test]
fn what_a_killed_coordinators_stream_left_unacknowledged_comes_over_another() {
    let Some(server) = Cluster::shared("mail of a coordinator that was killed") else {
        return;
    };
    let database = server.create_database();
    let of = || Project::on(&database.url).with_bus();
    let mut team = Team::of(vec![of(), of()]);
    let mut client = team.client(1);
    client.register("w");
    let mut worker = Peer::hand(team.hubs[0].bus(), "w");
    let message =
        json!({"id": "m", "to": "w", "type": "custom", "payload": {}, "ackRequired": true});
    let sent = client.post(&format!("{API}/messages"), &json!({ "message": message }));
    sent.expect(200);
    worker.hear("agent_message.v1");
    until("it counts as handed over", || {
        let shown = client.get(&format!("{API}/messages/m")).expect(200);
        (shown["deliveries"][0]["state"] == "delivered").then_some(())
    });
    team.hubs[0].kill();
    drop(worker);
    // It lives on at the other one, and says no hello.
    let message = until("it comes again", || {
        let got = client.get(&format!("{API}/messages?agentId=w")).expect(200);
        got["messages"].get(0).cloned()
    });
    assert_eq!(message["id"], "m", "{message}");
    assert_eq!(message["redelivered"], true, "{message}");
    drop(client);
    team.hubs.remove(0);
    team.stop();
}

/// What the event says that happened because its time had come.
fn due(event: &Value) -> Option<(String, String)> {
    let of = match event["type"].as_str()? {
        "lease_expired" => "path",
        "message_expired" => "message",
        "task_ready" | "task_requeued" => "task",
        "agent_silent" => "agent",
        _ => return None,
    };
    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
    Some((text("type"), text(of)))
}

/// Leases, messages, retries and agents; and the events that are to come of them.
fn prepare(client: &mut Client) -> BTreeSet<(String, String)> {
    let mut expected = BTreeSet::new();
    let mut expect = |kind: &str, of: String| expected.insert((kind.to_owned(), of));
    ["worker", "reader"]
        .iter()
        .for_each(|agent| client.register(agent));
    for n in 0..MUTE {
        let (agent, task) = (format!("mute-{n}"), format!("held-{n}"));
        client.register(&agent);
        client.create(&task);
        client.claim(&agent).expect("there is a task");
        expect("agent_silent", agent);
        expect("task_requeued", task.clone());
        expect("task_ready", task);
    }
    let tasks: Vec<Value> = (0..MANY)
        .map(|n| json!({"id": format!("retry-{n}"), "title": "fails"}))
        .collect();
    client
        .post(&format!("{API}/tasks"), &json!({"tasks": tasks}))
        .expect(201);
    let operation = |kind: &str, mut body: Value| {
        body["operation"] = json!(kind);
        body["agentId"] = json!("worker");
        body
    };
    let failure = json!({"type": "task_error", "message": "it broke", "recoverable": true});
    for n in 0..MANY {
        expect("task_ready", format!("retry-{n}"));
        expect("lease_expired", format!("src/{n}.rs"));
        expect("message_expired", format!("m-{n}"));
    }
    let of_kind = |make: &dyn Fn(usize) -> Value| (0..MANY).map(make).collect::<Vec<Value>>();
    let calls = [
        of_kind(&|n| operation("CLAIM", json!({"taskId": format!("retry-{n}")}))),
        of_kind(&|n| {
            let body = json!({"taskId": format!("retry-{n}"), "failure": failure});
            operation("FAIL", body)
        }),
        of_kind(&|n| {
            let message = json!({"id": format!("m-{n}"), "to": "reader", "type": "info.discovery",
                "payload": {}, "expiresIn": DUE_AFTER_MS});
            operation("SEND_MESSAGE", json!({"message": message}))
        }),
        of_kind(&|n| {
            let body = json!({"taskId": null, "filePath": format!("src/{n}.rs"), "durationMs": DUE_AFTER_MS});
            operation("ACQUIRE_LEASE", body)
        }),
    ];
    for operations in calls {
        let done = client.post(&format!("{API}/batch"), &json!({"operations": operations}));
        for result in done.expect(200)["results"].as_array().expect("results") {
            assert_eq!(result["body"]["success"], true, "{result}");
        }
    }
    expected
}

/// Moves retries and the silence of agents, which take longer, to the same moment as the rest.
fn all_is_due_soon(database: &Database) {
    let soon = format!("(SELECT (extract(epoch FROM now()) * 1000)::bigint + {DUE_AFTER_MS})");
    // Written by nobody: whatever a coordinator remembers counts no longer.
    database.sql(&format!(
        "SET switchboard.hub = 'on'; UPDATE sb_head SET floor = 0, writer = 0;
         UPDATE tasks SET state_at = {soon} WHERE status = 'pending_retry';
         UPDATE agents SET seen_at = {soon} - 120000 WHERE id LIKE 'mute-%'"
    ));
}
