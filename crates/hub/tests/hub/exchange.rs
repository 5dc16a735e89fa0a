//! Events between two hubs, and what a hub says to a node that brings or asks for the wrong thing.

use serde_json::{Value, json};

use crate::events::Stream;
use crate::harness::{Answer, Client, TestHub, result, start};
use crate::nodes::{Stranger, invite, join, own, text};
use crate::world::eventually;

pub const OUTBOX: &str = "/runtime/v1/outbox";

pub async fn publish(client: Client, body: Value) -> Answer {
    client.post("/runtime/v1/events", body).await
}

pub fn message(from: &str, to: &str, id: &str) -> Value {
    json!({
        "kind": "message", "sourceAgentId": from, "eventId": id,
        "payload": { "toAgents": [to], "subject": "s", "body": id },
    })
}

fn task(id: &str, to: &str) -> Value {
    json!({
        "kind": "task_create", "sourceAgentId": "ann", "eventId": format!("evt_{id}"),
        "payload": { "taskId": id, "title": "do it", "toAgents": [to], "requesterAgentId": "ann", "responseRequired": true },
    })
}

/// Two hubs with an agent each; the second one has no address and brings its events.
pub async fn pair() -> (TestHub, TestHub) {
    let (a, b) = (start().await, start().await);
    a.client.register("ann", &[]).await;
    b.client.register("bob", &[]).await;
    let token = invite(a.client).await;
    join(&b, &a, &token, None).await.expect(200);
    for (client, far) in [(a.client, "bob"), (b.client, "ann")] {
        let probe = |n: usize| message("steward", far, &format!("evt_probe_{far}_{n}"));
        let mut tries = 0;
        // Whether the agent is known over there; each try is another event.
        eventually(async || {
            tries += 1;
            publish(client, probe(tries)).await.status == 201
        })
        .await;
    }
    (a, b)
}

/// What an agent was handed, beside probes.
pub async fn received(client: Client, agent: &str) -> Vec<Value> {
    let path = format!("/api/v1/messages?agentId={agent}");
    let found = client.get(&path).await.expect(200);
    let found = found["messages"].as_array().unwrap().clone();
    let is_probe = |one: &Value| one["id"].as_str().unwrap().starts_with("evt_probe");
    found.into_iter().filter(|one| !is_probe(one)).collect()
}

pub async fn order(client: Client, event: &str) -> Option<Value> {
    let path = "/runtime/v1/orders?ended=true&limit=1000";
    let found = client.get(path).await.expect(200);
    let mut orders = found["orders"].as_array().unwrap().clone().into_iter();
    orders.find(|order| order["eventId"] == event)
}

#[tokio::test]
async fn messages_go_both_ways_once_and_are_acknowledged() {
    let (a, b) = pair().await;
    for (here, there, from, to) in [
        (a.client, b.client, "ann", "bob"),
        (b.client, a.client, "bob", "ann"),
    ] {
        let id = format!("evt_from_{from}");
        let said = publish(here, message(from, to, &id)).await.expect(201);
        assert_eq!(said["recipients"], json!([to]));
        let again = publish(here, message(from, to, &id)).await.expect(201);
        assert_eq!(again, said, "repeatable under its id");
        let mut got = Vec::new();
        eventually(async || {
            got.extend(received(there, to).await);
            !got.is_empty()
        })
        .await;
        assert_eq!(got.len(), 1);
        assert_eq!((&got[0]["id"], &got[0]["from"]), (&json!(id), &json!(from)));
        eventually(async || order(here, &id).await.is_some()).await;
        let order = order(here, &id).await.unwrap();
        assert_eq!(order["destinations"][0]["state"], "accepted");
        let mut other = message(from, to, &id);
        other["payload"]["body"] = json!("another");
        publish(here, other).await.refused(409, "event_exists");
    }
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn a_task_is_done_at_the_other_node_and_its_requester_hears_of_it() {
    let (a, b) = pair().await;
    let given = publish(a.client, task("t1", "bob")).await.expect(201);
    assert_eq!(given["nodeId"], *own(b.client).await);
    let mut claimed = Value::Null;
    eventually(async || {
        claimed = b.client.claim("bob").await;
        claimed["success"] == true
    })
    .await;
    assert_eq!(claimed["task"]["id"], "t1");
    let body = json!({ "agentId": "bob", "epoch": claimed["epoch"], "result": result("done") });
    b.client
        .post("/api/v1/tasks/t1/complete", body)
        .await
        .expect(200);
    let mut told = Vec::new();
    eventually(async || {
        told.extend(received(a.client, "ann").await);
        told.len() == 2
    })
    .await;
    let kinds: Vec<&str> = told
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["task.accepted", "task.completed"]);
    assert_eq!(told[1]["payload"]["resultSummary"], "done");
    let order = order(a.client, "evt_t1").await.unwrap();
    assert_eq!(
        (&order["state"], &order["taskId"]),
        (&json!("done"), &json!("t1"))
    );
    a.client
        .get("/api/v1/tasks/t1")
        .await
        .refused(404, "task_not_found");
    a.running.shutdown().await;
    b.running.shutdown().await;
}

/// What an agent does, as it publishes it.
fn step(kind: &str, agent: &str, corr: &str, payload: Value) -> Value {
    let id = format!("evt_{kind}_of_{agent}");
    json!({ "kind": kind, "sourceAgentId": agent, "eventId": id, "corrId": corr, "payload": payload })
}

#[tokio::test]
async fn agents_work_by_events_alone() {
    let (a, b) = pair().await;
    let given = publish(a.client, task("t1", "bob")).await.expect(201);
    let corr = text(&given, "corrId");
    let steps = [
        step(
            "task_accept",
            "bob",
            &corr,
            json!({ "taskId": "t1", "acceptedByAgentId": "bob", "etaSeconds": 600 }),
        ),
        step(
            "task_update",
            "bob",
            &corr,
            json!({ "taskId": "t1", "status": "in_progress", "progress": 60, "revisedEtaAt": "2096-02-25T18:30:00.000Z" }),
        ),
        step(
            "task_complete",
            "bob",
            &corr,
            json!({ "taskId": "t1", "completedByAgentId": "bob", "resultSummary": "done", "completedAt": "2026-02-25T17:54:10.000Z" }),
        ),
    ];
    eventually(async || b.client.get("/api/v1/tasks/t1").await.status == 200).await;
    for (said, status) in steps.iter().zip(["claimed", "in_progress", "completed"]) {
        let published = publish(b.client, said.clone()).await.expect(201);
        assert_eq!(published["recipients"], json!(["ann"]));
        let again = publish(b.client, said.clone()).await.expect(201);
        assert_eq!(again, published);
        let mut other = said.clone();
        other["payload"]["note"] = json!("more");
        publish(b.client, other).await.refused(409, "event_exists");
        let shown = b.client.get("/api/v1/tasks/t1").await.expect(200);
        assert_eq!(shown["task"]["status"], status);
    }
    let mut late = steps[1].clone();
    late["eventId"] = json!("evt_late");
    publish(b.client, late)
        .await
        .refused(409, "task_already_claimed");
    let mut told = Vec::new();
    eventually(async || {
        told.extend(received(a.client, "ann").await);
        told.len() == 2
    })
    .await;
    let ids: Vec<&Value> = told.iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, ["evt_task_accept_of_bob", "evt_task_complete_of_bob"]);
    let ordered = order(a.client, "evt_t1").await.unwrap();
    assert_eq!(ordered["state"], "done");
    let eta_at = text(&ordered, "etaAt");
    assert!(eta_at.starts_with("2096-02-25T18:3"), "revised: {eta_at}");

    let mut asks = message("ann", "bob", "evt_asks");
    asks["payload"]["expectsReply"] = json!(true);
    let corr = text(&publish(a.client, asks).await.expect(201), "corrId");
    let answer = step(
        "reply",
        "bob",
        &corr,
        json!({ "refEventId": "evt_asks", "body": { "yes": true } }),
    );
    eventually(async || publish(b.client, answer.clone()).await.status == 201).await;
    let mut got = Vec::new();
    eventually(async || {
        got.extend(received(a.client, "ann").await);
        !got.is_empty()
    })
    .await;
    assert_eq!(
        (got.len(), &got[0]["payload"]["body"]["yes"]),
        (1, &json!(true))
    );
    let ordered = order(a.client, "evt_asks").await.unwrap();
    assert_eq!(ordered["destinations"][0]["state"], "processed");
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn an_outbox_is_a_stream_that_goes_on_where_it_broke_off_and_ends_when_the_node_leaves() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    hub.client.register("ben", &[]).await;
    let (_, ticket) = stranger(&hub).await;
    let headers = [(ticket.0, ticket.1.as_str())];
    publish(hub.client, message("ann", "ben", "e1"))
        .await
        .expect(201);
    let first = hub
        .client
        .get(&format!("{OUTBOX}?limit=1"))
        .await
        .expect(200);
    let after = first["events"][0]["seq"].to_string();
    let mut stream =
        Stream::open_with(&hub, OUTBOX, &[headers[0], ("last-event-id", &after)]).await;
    let page = hub
        .client
        .get(&format!("{OUTBOX}?after={after}"))
        .await
        .expect(200);
    for expected in page["events"].as_array().unwrap() {
        let (seq, kind, event) = stream.next().await.unwrap();
        assert_eq!(
            (json!(seq), json!(kind)),
            (expected["seq"].clone(), expected["kind"].clone())
        );
        assert_eq!(event, *expected);
    }
    publish(hub.client, message("ann", "ben", "e2"))
        .await
        .expect(201);
    assert_eq!(stream.next().await.unwrap().2["eventId"], "e2");
    let cursors = hub.client.get("/runtime/v1/cursors").await.expect(200);
    assert_eq!(
        cursors["cursors"][0]["lastSeq"].to_string(),
        after,
        "more is not durable there"
    );
    for (last, status) in [("x", 400), ("1000", 409)] {
        let accept = ("accept", "text/event-stream");
        let answer = hub
            .client
            .send(
                "GET",
                OUTBOX,
                &[accept, ("last-event-id", last)],
                String::new(),
            )
            .await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let leave = "/runtime/v1/nodes/stranger/leave";
    hub.client.post(leave, json!({})).await.expect(200);
    while stream.next().await.is_some() {}
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_was_not_given_up_is_not_sent_again() {
    let hub = start().await;
    let path = "/runtime/v1/dead-letters";
    let none = hub.client.get(path).await.expect(200);
    assert_eq!(none["deadLetters"], json!([]));
    let resend = format!("{path}/evt_1/resend");
    let refused = hub.client.post(&resend, json!({})).await;
    refused.refused(404, "not_found");
    hub.client
        .get(&format!("{path}?limit=1001"))
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_published_is_told_by_its_field_and_changes_nothing() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    let latest = async || hub.client.get(OUTBOX).await.expect(200)["latestSeq"].clone();
    let refused = publish(hub.client, message("ann", "nobody", "e1")).await;
    assert_eq!(
        refused.refused(400, "no_route")["reason"],
        "invalid_targets"
    );
    let mut nowhere = task("t1", "ann");
    nowhere["payload"]["toAgents"] = json!([]);
    let refused = publish(hub.client, nowhere.clone()).await;
    assert_eq!(
        refused.refused(400, "no_route")["reason"],
        "missing_route_fields"
    );
    nowhere["payload"]["requiredCapabilities"] = json!(["cap.x"]);
    let refused = publish(hub.client, nowhere).await;
    assert_eq!(
        refused.refused(400, "no_route")["reason"],
        "capability_unavailable"
    );
    publish(hub.client, message("nobody", "ann", "e2"))
        .await
        .refused(404, "agent_not_registered");
    for (name, value, field) in [
        ("kind", json!("ack"), "kind"),
        ("payload", json!({}), "payload.toAgents"),
        ("expiresAt", json!("2001-01-01T00:00:00Z"), "expiresAt"),
        ("eventId", json!("a b"), "eventId"),
    ] {
        let mut body = message("ann", "ann", "e3");
        body[name] = value;
        let refused = publish(hub.client, body)
            .await
            .refused(400, "invalid_operation");
        assert_eq!(refused["field"], field);
    }
    assert_eq!(latest().await, 0);
    hub.running.shutdown().await;
}

/// A node that is written elsewhere, joined, with a ticket.
pub async fn stranger(hub: &TestHub) -> (Stranger, (&'static str, String)) {
    let stranger = Stranger::new("stranger", 7);
    let token = invite(hub.client).await;
    let answer = stranger
        .exchange(hub.client, &token, "n1")
        .await
        .expect(200);
    let ticket = format!("Bearer {}", text(&answer, "ticket"));
    (stranger, ("authorization", ticket))
}

pub fn event(seq: u64, kind: &str, payload: Value) -> Value {
    json!({
        "eventId": format!("evt_s_{seq}"), "seq": seq, "kind": kind, "sourceNodeId": "stranger",
        "sourceAgentId": "sam", "corrId": "corr_s", "createdAt": "2026-01-19T10:00:00.000Z",
        "expiresAt": "2096-01-19T10:00:00.000Z", "payload": payload, "trace": { "attempt": 1 },
    })
}

#[tokio::test]
async fn a_node_brings_its_own_events_in_order_and_each_once() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    let (_, ticket) = stranger(&hub).await;
    let push = async |path: &str, events: Value| {
        let body = json!({ "epoch": "route-epoch-1", "events": events }).to_string();
        let headers = [(ticket.0, ticket.1.as_str())];
        hub.client.send("POST", path, &headers, body).await
    };
    const PATH: &str = "/runtime/v1/nodes/stranger/outbox";
    let letter = |to: &str| json!({ "toAgents": [to], "body": "x" });
    let one = event(1, "message", letter("ann"));
    let two = event(2, "telemetry", json!({ "x": 1 }));
    let three = event(3, "message", json!({ "toAgents": 7 }));
    let page = json!([one, two, three]);
    for _ in 0..2 {
        let taken = push(PATH, page.clone()).await.expect(200);
        assert_eq!(
            (&taken["lastSeq"], &taken["status"]),
            (&json!(3), &json!("active"))
        );
    }
    let got = hub
        .client
        .get("/api/v1/messages?agentId=ann")
        .await
        .expect(200);
    assert_eq!(got["messages"].as_array().unwrap().len(), 1);
    let late = push(PATH, json!([event(5, "message", letter("ann"))]))
        .await
        .expect(200);
    assert_eq!(
        (&late["lastSeq"], &late["status"]),
        (&json!(3), &json!("gap"))
    );

    let mut foreign = event(4, "message", letter("ann"));
    foreign["sourceNodeId"] = json!("other");
    let refused = push(PATH, json!([foreign]))
        .await
        .refused(400, "invalid_operation");
    assert_eq!(refused["field"], "events[0].sourceNodeId");
    push("/runtime/v1/nodes/other/outbox", json!([]))
        .await
        .refused(403, "node_mismatch");
    let many: Vec<Value> = (4..261)
        .map(|seq| event(seq, "telemetry", json!({})))
        .collect();
    push(PATH, json!(many))
        .await
        .refused(400, "invalid_operation");
    let most: Vec<Value> = (4..260)
        .map(|seq| event(seq, "telemetry", json!({})))
        .collect();
    let taken = push(PATH, json!(most)).await.expect(200);
    assert_eq!(
        (&taken["lastSeq"], &taken["status"]),
        (&json!(259), &json!("active"))
    );

    // What was said long ago comes once more: nothing happens. Who knows how far it was read and has less was restored.
    let said = |after: Value| json!({ "epoch": "route-epoch-1", "latestSeq": 2, "after": after, "events": [] });
    for (after, status) in [
        (Value::Null, "active"),
        (json!(1), "active"),
        (json!(259), "halted"),
    ] {
        let headers = [(ticket.0, ticket.1.as_str())];
        let body = said(after).to_string();
        let answer = hub.client.send("POST", PATH, &headers, body).await;
        let answer = answer.expect(200);
        assert_eq!(
            (&answer["lastSeq"], &answer["status"]),
            (&json!(259), &json!(status))
        );
    }
    let reset = json!({ "after": 258 });
    hub.client
        .post("/runtime/v1/cursors/stranger/reset", reset)
        .await
        .expect(200);
    // Which outbox it is of is seen with the next event.
    let taken = push(PATH, json!([event(259, "telemetry", json!({}))])).await;
    assert_eq!(taken.expect(200)["lastSeq"], 259);

    // Another epoch is another outbox: a person decides.
    let body = json!({ "epoch": "route-epoch-2", "events": [event(260, "telemetry", json!({}))] });
    let headers = [(ticket.0, ticket.1.as_str())];
    let halted = hub
        .client
        .send("POST", PATH, &headers, body.to_string())
        .await
        .expect(200);
    assert_eq!(halted["status"], "halted");
    let incidents = hub.client.get("/api/v1/incidents").await.expect(200);
    let kinds = incidents["incidents"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|incident| &incident["kind"]).collect();
    assert_eq!(kinds, ["malformed_event", "epoch_mismatch"]);
    let reset = json!({ "after": 259 });
    let reset = hub
        .client
        .post("/runtime/v1/cursors/stranger/reset", reset)
        .await;
    assert_eq!(reset.expect(200)["status"], "active");
    let taken = hub
        .client
        .send("POST", PATH, &headers, body.to_string())
        .await
        .expect(200);
    assert_eq!(
        (&taken["lastSeq"], &taken["status"]),
        (&json!(260), &json!("active"))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_outbox_is_read_from_where_its_reader_is() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    hub.client.register("ben", &[]).await;
    for n in 1..=3 {
        publish(hub.client, message("ann", "ben", &format!("e{n}")))
            .await
            .expect(201);
    }
    let (_, ticket) = stranger(&hub).await;
    let headers = [(ticket.0, ticket.1.as_str())];
    let read = async |query: &str| {
        let path = format!("{OUTBOX}?{query}");
        hub.client.send("GET", &path, &headers, String::new()).await
    };
    let page = read("after=0&limit=2").await.expect(200);
    let seqs = page["events"].as_array().unwrap().iter();
    let seqs: Vec<u64> = seqs.map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!((seqs, &page["oldestSeq"]), (vec![1, 2], &json!(1)));
    let latest = page["latestSeq"].as_u64().unwrap();
    let second = text(&page["events"][1], "eventId");
    read(&format!("after=2&last={second}")).await.expect(200);
    read("after=2&last=another")
        .await
        .refused(409, "epoch_mismatch");
    read(&format!("after={}", latest + 1))
        .await
        .refused(409, "epoch_mismatch");
    read("limit=257").await.refused(400, "invalid_operation");
    let cursors = hub.client.get("/runtime/v1/cursors").await.expect(200);
    assert_eq!(
        cursors["cursors"][0]["lastSeq"], 2,
        "as far as it said last that fits"
    );
    // A person only looks.
    hub.client
        .get(&format!("{OUTBOX}?after=1"))
        .await
        .expect(200);
    let cursors = hub.client.get("/runtime/v1/cursors").await.expect(200);
    assert_eq!(cursors["cursors"].as_array().unwrap().len(), 1);
    assert_eq!(cursors["cursors"][0]["lastSeq"], 2);
    let page = hub.client.get(OUTBOX).await.expect(200);
    assert_eq!(cursors["cursors"][0]["epoch"], page["epoch"]);

    let query = format!("after={latest}&wait=30");
    let waits = read(&query);
    let says = async {
        let said = message("ann", "ben", "e4");
        publish(hub.client, said).await.expect(201);
    };
    let (page, ()) = tokio::join!(waits, says);
    assert_eq!(page.expect(200)["events"][0]["eventId"], "e4");
    hub.running.shutdown().await;
}
