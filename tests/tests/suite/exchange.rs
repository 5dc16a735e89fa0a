//! Hubs of one swarm, as real processes that are killed while agents of all of them talk to each other.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{Client, Hub, Project, Random, Request, completion, until};

use line::Line;

mod line;

/// An address that stays through restarts: other nodes know it.
pub fn free() -> SocketAddr {
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
        let got = all_received(&mut hubs[side].client(), names[side], EACH + 1);
        // Mail that RECEIVE handed over stays delivered, so what came twice would be here twice.
        let expected: Vec<String> = (0..=EACH).map(|n| format!("evt_{from}_{n}")).collect();
        assert_eq!(got, expected, "in order, each once");
    }
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}

fn task(from: &str, to: &str, n: usize) -> Value {
    json!({
        "kind": "task_create", "sourceAgentId": from, "eventId": format!("evt_task_{from}_{n}"),
        "payload": {
            "taskId": format!("task-{from}-{n}"), "title": "do it", "toAgents": [to],
            "requesterAgentId": from, "responseRequired": true,
        },
    })
}

/// All that an agent gets, once so much has come and everything is answered.
fn all_received(client: &mut Client, agent: &str, count: usize) -> Vec<String> {
    let mut got = Vec::new();
    until("everything has arrived", || {
        received(client, agent, &mut got);
        (got.len() >= count).then_some(())
    });
    until("everything is answered", || {
        (open_orders(client) == 0).then_some(())
    });
    received(client, agent, &mut got);
    got
}

/// What a node was sent in order, each once, beside `answers` about tasks.
#[track_caller]
fn check_received(got: &[String], from: &str, each: usize, answers: usize) {
    let prefix = format!("evt_{from}_");
    let said = got.iter().filter(|id| id.starts_with(&prefix));
    let said: Vec<&String> = said.collect();
    let expected: Vec<String> = (0..=each).map(|n| format!("{prefix}{n}")).collect();
    assert_eq!(
        said,
        expected.iter().collect::<Vec<_>>(),
        "in order, each once"
    );
    assert_eq!(got.len(), 1 + each + answers, "{got:?}");
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
        publish(addrs[(n + 1) % 2], &task("ann", "bob", n));
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
        let got = all_received(&mut client, name, 1 + EACH + answers);
        check_received(&got, from, EACH, answers);
        let orders = client.get("/runtime/v1/orders?ended=true&limit=1000");
        let orders = orders.expect(200)["orders"].take();
        for order in orders.as_array().expect("a list") {
            let is_task = order["taskId"].is_string();
            assert!(!is_task || order["state"] == "done", "{order}");
        }
    }
    let mut expected: Vec<String> = (1..=EACH).map(|n| format!("task-ann-{n}")).collect();
    expected.sort();
    done.sort();
    assert_eq!(done, expected, "each task was done once");
    // The one that gave them holds none.
    for n in 1..=EACH {
        let path = format!("/api/v1/tasks/task-ann-{n}");
        assert_eq!(hubs[1].client().get(&path).status, 404, "{path}");
    }
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}

/// The second one joins the first, and tells where it is reached, if it is.
fn join(inviter: &Hub, url: String, joiner: &Hub, endpoint: Option<String>) {
    let invite = inviter.client().post("/runtime/v1/invites", &json!({}));
    let invite = invite.expect(201)["inviteToken"].clone();
    let mut join = json!({ "url": url, "inviteToken": invite });
    if let Some(endpoint) = endpoint {
        join["endpoint"] = endpoint.into();
    }
    let joined = joiner.client().post("/runtime/v1/nodes/join", &join);
    joined.expect(200);
}

/// What hubs publish in so many seconds.
fn said_within(hubs: &[Hub], seconds: u64) -> usize {
    let mut waiting: Vec<Client> = Vec::new();
    for hub in hubs {
        let latest = hub.client().get("/runtime/v1/outbox?limit=1").expect(200)["latestSeq"].take();
        let path = format!("/runtime/v1/outbox?after={latest}&wait={seconds}");
        let mut client = Client::with_patience(hub.addr(), Duration::from_secs(60));
        client.begin(&Request::get(path)).expect("it is asked");
        waiting.push(client);
    }
    let waiting = waiting.iter_mut();
    let said = waiting.map(|client| {
        let page = client.finish().expect("it is answered").expect(200);
        page["events"].as_array().expect("a list").len()
    });
    said.sum()
}

#[test]
fn three_nodes_of_which_nobody_reaches_one_agree_over_bad_lines_and_through_kills() {
    const EACH: usize = 15;
    let seed = Random::seed_from("SWITCHBOARD_EXCHANGE_SEED");
    println!("SWITCHBOARD_EXCHANGE_SEED={seed}");
    let mut random = Random::seeded(seed);
    let projects: [Project; 3] = std::array::from_fn(|_| Project::new().at(free()));
    let mut hubs: Vec<Hub> = projects.iter().map(Project::start).collect();
    let addrs: Vec<SocketAddr> = hubs.iter().map(Hub::addr).collect();
    let names = ["ann", "bob", "cid"];
    for (hub, name) in hubs.iter().zip(names) {
        hub.client().register(name);
    }
    // The third one has no endpoint.
    let lines = [0, 1].map(|at| Line::to(addrs[at], random.fork()));
    join(&hubs[0], lines[0].url(), &hubs[1], Some(lines[1].url()));
    join(&hubs[0], lines[0].url(), &hubs[2], None);
    join(&hubs[1], lines[1].url(), &hubs[2], None);
    let next = |side: usize| names[(side + 1) % 3];
    for side in 0..3 {
        publish(addrs[side], &message(names[side], next(side), 0));
    }
    lines.iter().for_each(|line| line.set_bad(true));
    let mut done = Vec::new();
    for n in 1..=EACH {
        for side in 0..3 {
            publish(addrs[side], &message(names[side], next(side), n));
        }
        publish(addrs[0], &task("ann", "cid", n));
        publish(addrs[2], &task("cid", "bob", n));
        for side in [1, 2] {
            let key = format!("early-{side}-{n}");
            done.extend(work(&mut hubs[side].client(), names[side], &key));
        }
        if n % 5 == 0 {
            let one = random.index(hubs.len());
            hubs[one].kill();
            hubs[one] = projects[one].start();
        }
    }
    let mut tries = 0;
    until("every task was done", || {
        tries += 1;
        for side in [1, 2] {
            let key = format!("late-{side}-{tries}");
            done.extend(work(&mut hubs[side].client(), names[side], &key));
        }
        (done.len() >= 2 * EACH).then_some(())
    });
    lines.iter().for_each(|line| line.set_bad(false));
    let told: usize = lines.iter().map(|line| line.told().0 + line.told().1).sum();
    assert!(told > 0, "the lines were good");
    for (side, from, answers) in [(0, "cid", 2 * EACH), (1, "ann", 0), (2, "bob", 2 * EACH)] {
        let mut client = hubs[side].client();
        let got = all_received(&mut client, names[side], 1 + EACH + answers);
        check_received(&got, from, EACH, answers);
    }
    let tasks = ["ann", "cid"].into_iter();
    let tasks = tasks.flat_map(|from| (1..=EACH).map(move |n| format!("task-{from}-{n}")));
    let mut expected: Vec<String> = tasks.collect();
    expected.sort();
    done.sort();
    assert_eq!(done, expected, "each task was done once");
    until("nobody speaks", || {
        (said_within(&hubs, 1) == 0).then_some(())
    });
    assert_eq!(said_within(&hubs, 5), 0, "who has nothing to say is silent");
    for mut hub in hubs {
        assert!(hub.runs());
        hub.stop();
    }
}
