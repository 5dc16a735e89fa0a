//! Two hubs of one swarm, as real processes that are killed while agents of both talk to each other.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{Client, Hub, Project, Random, Request, completion, until};

use line::Line;

mod line;

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

fn task(n: usize) -> Value {
    json!({
        "kind": "task_create", "sourceAgentId": "ann", "eventId": format!("evt_task_{n}"),
        "payload": {
            "taskId": format!("task-{n}"), "title": "do it", "toAgents": ["bob"],
            "requesterAgentId": "ann", "responseRequired": true,
        },
    })
}

/// Takes one of those that wait for this agent and ends it; an answer that is lost is asked for again.
fn work(client: &mut Client, agent: &str, key: &str) -> Option<String> {
    let call = |client: &mut Client, path: &str, body: &Value| {
        until("it is answered", || {
            let request = Request::post(format!("/api/v1/tasks/{path}"), body);
            let answer = client.send(&request.key(format!("{key}-{path}")));
            answer.ok().filter(|answer| answer.status < 500)
        })
    };
    let claimed = call(client, "claim", &json!({ "agentId": agent })).expect(200);
    let task = claimed["task"]["id"].as_str()?.to_owned();
    let epoch = claimed["task"]["epoch"]
        .as_u64()
        .expect("the epoch of a claim");
    let body = completion(agent, epoch);
    call(client, &format!("{task}/complete"), &body).expect(200);
    Some(task)
}

#[test]
fn a_node_of_two_coordinators_and_one_on_a_file_agree_over_a_bad_line_and_through_kills() {
    const EACH: usize = 24;
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("a node that is a PostgreSQL"),
    };
    let database = cluster.create_database();
    let seed = Random::seed_from("SWITCHBOARD_EXCHANGE_SEED");
    println!("SWITCHBOARD_EXCHANGE_SEED={seed}");
    let mut random = Random::seeded(seed);
    let projects = [
        Project::on(&database.url).at(free()),
        Project::on(&database.url).at(free()),
        Project::new().at(free()),
    ];
    let mut hubs: Vec<Hub> = projects.iter().map(Project::start).collect();
    let addrs: Vec<SocketAddr> = hubs.iter().map(Hub::addr).collect();
    // Ann is at the node of two coordinators, Bob at the other one; both sides read by way of a line.
    hubs[0].client().register("ann");
    hubs[2].client().register("bob");
    let there = Line::to(addrs[0], random.fork());
    let back = Line::to(addrs[2], random.fork());
    let invite = hubs[1].client().post("/runtime/v1/invites", &json!({}));
    let invite = invite.expect(201)["inviteToken"].clone();
    let join = json!({ "url": there.url(), "inviteToken": invite, "endpoint": back.url() });
    hubs[2]
        .client()
        .post("/runtime/v1/nodes/join", &join)
        .expect(200);
    publish(addrs[1], &message("ann", "bob", 0));
    publish(addrs[2], &message("bob", "ann", 0));
    let lines = [&there, &back];
    lines.iter().for_each(|line| line.set_bad(true));

    let mut done = Vec::new();
    for n in 1..=EACH {
        publish(addrs[n % 2], &message("ann", "bob", n));
        publish(addrs[2], &message("bob", "ann", n));
        publish(addrs[(n + 1) % 2], &task(n));
        done.extend(work(&mut hubs[2].client(), "bob", &format!("early-{n}")));
        if n % 6 == 0 {
            let one = random.index(hubs.len());
            hubs[one].kill();
            hubs[one] = projects[one].start();
        }
    }
    let mut tries = 0;
    until("every task was done", || {
        tries += 1;
        done.extend(work(&mut hubs[2].client(), "bob", &format!("late-{tries}")));
        (done.len() >= EACH).then_some(())
    });
    lines.iter().for_each(|line| line.set_bad(false));
    let told = lines.map(Line::told);
    let (cuts, repeats) = (told[0].0 + told[1].0, told[0].1 + told[1].1);
    assert!(cuts > 0 && repeats > 0, "{cuts} cuts, {repeats} repeats");
    let sides = [(1, "ann", "bob", EACH * 2), (2, "bob", "ann", 0)];
    for (at, name, from, answers) in sides {
        let mut client = hubs[at].client();
        let mut got = Vec::new();
        until("everything has arrived", || {
            received(&mut client, name, &mut got);
            (got.len() > EACH + answers).then_some(())
        });
        until("everything is answered", || {
            (open_orders(&mut client) == 0).then_some(())
        });
        received(&mut client, name, &mut got);
        let is_said = |id: &&String| id.starts_with(&format!("evt_{from}_"));
        let said: Vec<String> = got.iter().filter(is_said).cloned().collect();
        let expected: Vec<String> = (0..=EACH).map(|n| format!("evt_{from}_{n}")).collect();
        assert_eq!(said, expected, "in order, each once");
        assert_eq!(got.len(), 1 + EACH + answers, "{got:?}");
        let orders = client.get("/runtime/v1/orders?ended=true&limit=1000");
        let orders = orders.expect(200)["orders"].take();
        for order in orders.as_array().expect("a list") {
            let is_task = order["taskId"].is_string();
            assert!(!is_task || order["state"] == "done", "{order}");
        }
    }
    let mut expected: Vec<String> = (1..=EACH).map(|n| format!("task-{n}")).collect();
    expected.sort();
    done.sort();
    assert_eq!(done, expected, "each task was done once");
    // The one that gave them holds none.
    for n in 1..=EACH {
        let path = format!("/api/v1/tasks/task-{n}");
        assert_eq!(hubs[1].client().get(&path).status, 404, "{path}");
    }
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}
