//! Two hubs of one swarm, as real processes that are killed while agents of both talk to each other.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::{Client, Hub, Project, Random, Request, until};

/// An address that stays through restarts: other nodes know it.
fn free() -> SocketAddr {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    taken.local_addr().expect("it has an address")
}

/// What is sent from one side to the other, and how it is told from all others.
fn message(from: &str, to: &str, n: usize) -> Value {
    json!({
        "kind": "message", "sourceAgentId": from, "eventId": format!("evt_{from}_{n}"),
        "payload": { "toAgents": [to], "subject": "s", "body": n },
    })
}

/// Publishes until it is answered: under its id it may be repeated.
fn publish(addr: SocketAddr, body: &Value) -> Value {
    until("it is published", || {
        let mut client = Client::with_patience(addr, Duration::from_secs(5));
        let answer = client.send(&Request::post("/runtime/v1/events", body));
        answer
            .ok()
            .filter(|answer| answer.status == 201)
            .map(|answer| answer.json())
    })
}

fn received(client: &mut Client, agent: &str, into: &mut Vec<String>) {
    let page = client.get(&format!("/api/v1/messages?agentId={agent}&limit=500"));
    let page = page.expect(200);
    let ids = page["messages"].as_array().expect("a list").iter();
    into.extend(ids.map(|one| one["id"].as_str().expect("an id").to_owned()));
}

/// What is still waited for.
fn open_orders(client: &mut Client) -> usize {
    let open = client.get("/runtime/v1/orders?limit=1000").expect(200);
    open["orders"].as_array().expect("a list").len()
}

#[test]
fn what_agents_of_two_nodes_say_arrives_once_though_both_hubs_are_killed() {
    const EACH: usize = 60;
    let seed = Random::seed_from("SWITCHBOARD_EXCHANGE_SEED");
    println!("SWITCHBOARD_EXCHANGE_SEED={seed}");
    let mut random = Random::seeded(seed);
    let projects = [Project::new().at(free()), Project::new().at(free())];
    let mut hubs: Vec<Hub> = projects.iter().map(Project::start).collect();
    let names = ["ann", "bob"];
    let addrs = [hubs[0].addr(), hubs[1].addr()];
    for (hub, name) in hubs.iter().zip(names) {
        hub.client().register(name);
    }
    let invite = hubs[0].client().post("/runtime/v1/invites", &json!({}));
    let invite = invite.expect(201)["inviteToken"].clone();
    // The second one has no endpoint: it brings its events, and reads those of the first.
    let join = json!({ "url": format!("http://{}", addrs[0]), "inviteToken": invite });
    hubs[1]
        .client()
        .post("/runtime/v1/nodes/join", &join)
        .expect(200);
    for side in [0, 1] {
        let other = names[1 - side];
        // Until the other's agent is known; what comes before that is refused and changes nothing.
        publish(addrs[side], &message(names[side], other, 0));
    }
    for n in 1..=EACH {
        for side in [0, 1] {
            publish(addrs[side], &message(names[side], names[1 - side], n));
        }
        if n % 12 == 0 {
            let side = random.index(2);
            hubs[side].kill();
            hubs[side] = projects[side].start();
            assert_eq!(hubs[side].addr(), addrs[side]);
        }
    }
    for side in [0, 1] {
        let from = names[1 - side];
        let mut got = Vec::new();
        let mut client = hubs[side].client();
        until("everything has arrived", || {
            received(&mut client, names[side], &mut got);
            (got.len() > EACH).then_some(())
        });
        until("everything is answered", || {
            (open_orders(&mut client) == 0).then_some(())
        });
        received(&mut client, names[side], &mut got);
        // Mail that RECEIVE handed over stays delivered, so what came twice would be here twice.
        let expected: Vec<String> = (0..=EACH).map(|n| format!("evt_{from}_{n}")).collect();
        assert_eq!(got, expected, "in order, each once");
    }
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}
