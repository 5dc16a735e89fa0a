//! Three hubs as real processes: two of them never exchanged an invite, and read each other; one moves.

use std::net::SocketAddr;

use serde_json::{Value, json};
use switchboard_tests::{Client, Hub, Project, Request, until};

use crate::exchange::free;

const NAMES: [&str; 3] = ["ann", "bob", "carl"];

fn nodes(client: &mut Client) -> Vec<Value> {
    let list = client.get("/runtime/v1/nodes").expect(200);
    list["nodes"].as_array().expect("a list").clone()
}

fn own(client: &mut Client) -> String {
    let list = client.get("/runtime/v1/nodes").expect(200);
    list["own"]["nodeId"].as_str().expect("an id").to_owned()
}

fn message(from: &str, to: &str, n: usize) -> Value {
    json!({
        "kind": "message", "sourceAgentId": from, "eventId": format!("evt_{from}_{to}_{n}"),
        "payload": { "toAgents": [to], "body": n },
    })
}

/// Until the other agent is known; under its id the event may be repeated.
fn publish(client: &mut Client, body: &Value) {
    until("it is published", || {
        let answer = client.send(&Request::post("/runtime/v1/events", body));
        answer.ok().filter(|answer| answer.status == 201)
    });
}

fn receives(client: &mut Client, agent: &str, event: &str) {
    until("it arrives", || {
        let page = client
            .get(&format!("/api/v1/messages?agentId={agent}"))
            .expect(200);
        let mut found = page["messages"].as_array().expect("a list").iter();
        found.any(|one| one["id"] == event).then_some(())
    });
}

#[test]
fn two_nodes_that_were_invited_by_a_third_talk_also_while_it_is_away() {
    let projects = [(); 3].map(|()| Project::new().at(free()));
    let mut hubs: Vec<Hub> = projects.iter().map(Project::start).collect();
    for (hub, name) in hubs.iter().zip(NAMES) {
        hub.client().register(name);
    }
    let inviter = hubs[0].addr();
    for hub in &hubs[1..] {
        let invite = hubs[0].client().post("/runtime/v1/invites", &json!({}));
        let join = json!({
            "url": format!("http://{inviter}"), "inviteToken": invite.expect(201)["inviteToken"],
            "endpoint": format!("http://{}", hub.addr()),
        });
        hub.client()
            .post("/runtime/v1/nodes/join", &join)
            .expect(200);
    }
    let ids: Vec<String> = hubs.iter().map(|hub| own(&mut hub.client())).collect();
    for (side, other) in [(1, 2), (2, 1)] {
        let mut client = hubs[side].client();
        let vouched = until("the other is known", || {
            let mut known = nodes(&mut client).into_iter();
            known.find(|node| node["nodeId"] == *ids[other])
        });
        assert_eq!(vouched["vouchedBy"], *ids[0]);
        assert_eq!(vouched["reach"], "pull");
    }
    for (from, to) in [(1, 2), (2, 1)] {
        publish(
            &mut hubs[from].client(),
            &message(NAMES[from], NAMES[to], 1),
        );
        let event = format!("evt_{}_{}_1", NAMES[from], NAMES[to]);
        receives(&mut hubs[to].client(), NAMES[to], &event);
    }
    // Neither needs who vouched any more, nor forgets the other.
    hubs[0].kill();
    hubs[1].kill();
    hubs[1] = projects[1].start();
    for (from, to) in [(1, 2), (2, 1)] {
        publish(
            &mut hubs[from].client(),
            &message(NAMES[from], NAMES[to], 2),
        );
        let event = format!("evt_{}_{}_2", NAMES[from], NAMES[to]);
        receives(&mut hubs[to].client(), NAMES[to], &event);
    }
    // Whom the inviter sends away leaves the others, too, as soon as they hear of it.
    hubs[0] = projects[0].start();
    let leave = format!("/runtime/v1/nodes/{}/leave", ids[2]);
    hubs[0].client().post(&leave, &json!({})).expect(200);
    let mut client = hubs[1].client();
    until("it has left", || {
        let mut known = nodes(&mut client).into_iter();
        let is_gone = !known.any(|node| node["nodeId"] == *ids[2]);
        is_gone.then_some(())
    });
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}

#[test]
fn a_node_that_is_reached_elsewhere_tells_all_others_where() {
    let at = |project: Project, addr: SocketAddr| {
        let url = format!("http://{addr}");
        let project = project.at(addr);
        project.with_variable("SWITCHBOARD_RUNTIME_ENDPOINT", url)
    };
    let moving = at(Project::new(), free());
    let others = [at(Project::new(), free()), Project::new().at(free())];
    let mut moved = moving.start();
    let hubs = [others[0].start(), others[1].start()];
    for (hub, name) in [&moved, &hubs[1]].into_iter().zip(["ann", "carl"]) {
        hub.client().register(name);
        let invite = hubs[0].client().post("/runtime/v1/invites", &json!({}));
        let invite = invite.expect(201)["inviteToken"].take();
        let join = json!({ "url": format!("http://{}", hubs[0].addr()), "inviteToken": invite });
        let joined = hub.client().post("/runtime/v1/nodes/join", &join);
        joined.expect(200);
    }
    let id = own(&mut moved.client());
    let talk = |moved: &Hub, n: usize| {
        for (from, to, name) in [(moved, &hubs[1], "ann"), (&hubs[1], moved, "carl")] {
            let other = if name == "ann" { "carl" } else { "ann" };
            publish(&mut from.client(), &message(name, other, n));
            receives(&mut to.client(), other, &format!("evt_{name}_{other}_{n}"));
        }
    };
    talk(&moved, 1);
    moved.stop();
    // Nobody listens at its old address any more: it goes to those whom it can reach, and they tell the others.
    let moving = at(moving, free());
    moved = moving.start();
    let url = format!("http://{}", moved.addr());
    for hub in &hubs {
        let mut client = hub.client();
        until("it is told where it is", || {
            let mut known = nodes(&mut client).into_iter();
            known.find(|node| node["nodeId"] == *id && node["endpoint"] == *url)
        });
    }
    talk(&moved, 2);
    for mut hub in hubs.into_iter().chain([moved]) {
        assert!(hub.runs());
        hub.stop();
    }
}
