//! Who waits at one coordinator is woken by what is done at another.

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Client, Hub, PATIENCE, Request, until, with_parameter};

use super::Team;

/// Much longer than a client here has patience: an answer that only comes at the end of the wait fails the test.
const WAITS_FOR_S: u64 = 60;
const ROUNDS: usize = 5;

#[test]
fn who_waits_at_one_coordinator_is_woken_by_what_is_done_at_another() {
    let Some(server) = Cluster::shared("wake-ups by notification") else {
        return;
    };
    let database = server.create_database();
    let team = Team::on(&database.url, 2);
    all_are_woken(&team);
    team.stop();
}

#[test]
fn who_waits_is_woken_also_where_no_notification_comes() {
    let Some(server) = Cluster::shared("wake-ups by polling") else {
        return;
    };
    let database = server.create_database();
    let team = Team::on(&with_parameter(&database.url, "notify=off"), 2);
    all_are_woken(&team);
    team.stop();
}

/// A claim, a receive and a stream at one coordinator hear of what is done at the other; and the other way round.
pub fn all_are_woken(team: &Team) {
    let mut clients = team.clients();
    ["taker", "sender", "reader"]
        .iter()
        .for_each(|agent| clients[0].register(agent));
    let mut streams = [0, 1].map(|hub| begin_stream(&team.hubs[hub]));
    for round in 0..ROUNDS {
        let (here, there) = (round % 2, 1 - round % 2);
        let task = |kind: &str| format!("{kind}-{round}");
        let hub = &team.hubs[here];
        let there = &mut clients[there];

        let mut waits = begin_claim(hub, "taker");
        there.create(&task("first"));
        is_given(&mut waits, &task("first"));
        for stream in &mut streams {
            assert_eq!(next_event(stream, "task_created")["task"], task("first"));
        }

        // What becomes ready because something else is done.
        let second =
            json!({"id": task("second"), "title": "next", "dependencies": [task("first")]});
        there.post(&format!("{API}/tasks"), &second).expect(201);
        let mut waits = begin_claim(hub, "sender");
        there.complete("taker", &task("first"), 1);
        is_given(&mut waits, &task("second"));
        there.complete("sender", &task("second"), 1);
        for stream in &mut streams {
            assert_eq!(next_event(stream, "task_ready")["task"], task("second"));
        }

        let mut waits = begin_receive(hub, "reader");
        let message = json!({"id": task("m"), "to": "reader", "type": "info.discovery"});
        let body = json!({"agentId": "sender", "message": message});
        there.post(&format!("{API}/messages"), &body).expect(200);
        let read = waits
            .finish()
            .expect("it is woken before its time")
            .expect(200);
        assert_eq!(read["messages"][0]["id"], task("m").as_str(), "{read}");
    }
}

#[track_caller]
fn is_given(waits: &mut Client, task: &str) {
    let given = waits
        .finish()
        .expect("it is woken before its time")
        .expect(200);
    assert_eq!(given["task"]["id"], task, "{given}");
}

/// A client with less patience than the hub.
fn impatient(hub: &Hub) -> Client {
    Client::with_patience(hub.addr(), PATIENCE)
}

/// A claim that has looked and found nothing.
pub fn begin_claim(hub: &Hub, agent: &str) -> Client {
    let body = json!({"agentId": agent, "wait": WAITS_FOR_S});
    let request = Request::post(format!("{API}/tasks/claim"), &body);
    // It asks who it is, and looks.
    begin(hub, &request, 2)
}

/// The same for messages.
pub fn begin_receive(hub: &Hub, agent: &str) -> Client {
    let path = format!("{API}/messages?agentId={agent}&wait={WAITS_FOR_S}");
    begin(hub, &Request::get(path), 1)
}

fn begin(hub: &Hub, request: &Request, verbs: u64) -> Client {
    let mut watch = hub.client();
    let before = watch.figure("switchboard_verbs_total");
    let mut client = impatient(hub);
    client.begin(request).expect("the hub listens");
    until("it waits", || {
        (watch.figure("switchboard_verbs_total") >= before + verbs).then_some(())
    });
    client
}

/// Events from now on.
pub fn begin_stream(hub: &Hub) -> Client {
    let mut stream = impatient(hub);
    let request = Request::get(format!("{API}/events")).header("Accept", "text/event-stream");
    stream.begin(&request).expect("the hub listens");
    assert_eq!(stream.finish_head().expect("it begins").status, 200);
    stream
}

/// The next event of a kind; others are passed over.
#[track_caller]
pub fn next_event(stream: &mut Client, kind: &str) -> Value {
    loop {
        let line = stream.line().expect("the stream goes on before its time");
        let line = line.expect("the stream does not end");
        let event = line
            .strip_prefix("data:")
            .map(serde_json::from_str::<Value>);
        if let Some(event) = event {
            let event = event.expect("an event is JSON");
            if event["type"] == kind {
                return event;
            }
        }
    }
}
