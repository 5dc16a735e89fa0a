//! What nodes and callers get wrong about events: it is refused by name, changes nothing, and holds nobody up.

use serde_json::{Value, json};
use switchboard_core::limits;

use crate::exchange::{OUTBOX, event, message, publish, received, stranger};
use crate::harness::{Answer, Client, TestHub, start};

const PATH: &str = "/runtime/v1/nodes/stranger/outbox";

type Ticket = (&'static str, String);

async fn bring(client: Client, ticket: &Ticket, body: String) -> Answer {
    let headers = [(ticket.0, ticket.1.as_str())];
    client.send("POST", PATH, &headers, body).await
}

fn page(events: &Value) -> String {
    json!({ "epoch": "route-epoch-1", "events": events }).to_string()
}

fn letter(body: &str) -> Value {
    json!({ "toAgents": ["ann"], "body": body })
}

async fn cursors(hub: &TestHub) -> Value {
    hub.client.get("/runtime/v1/cursors").await.expect(200)
}

#[tokio::test]
async fn pages_that_are_wrong_are_refused_by_their_field_and_change_nothing() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    let (_, ticket) = stranger(&hub).await;
    let good = event(1, "message", letter("x"));
    let with = |edit: fn(&mut Value)| {
        let mut wrong = event(2, "message", letter("y"));
        edit(&mut wrong);
        page(&json!([good, wrong]))
    };
    let without = |name: &str| {
        let mut wrong = good.clone();
        wrong.as_object_mut().unwrap().remove(name);
        page(&json!([wrong]))
    };
    let mut bodies = vec![
        ("not JSON".to_owned(), None),
        ("[]".to_owned(), None),
        (json!({ "events": [] }).to_string(), None),
        (
            json!({ "epoch": "", "events": [] }).to_string(),
            Some("epoch"),
        ),
        (
            json!({ "epoch": "x".repeat(10_000), "events": [] }).to_string(),
            Some("epoch"),
        ),
        (json!({ "epoch": "e", "events": {} }).to_string(), None),
        (json!({ "epoch": "e", "events": [7] }).to_string(), None),
        (with(|it| it["seq"] = json!(-1)), None),
        (with(|it| it["seq"] = json!("2")), None),
        (with(|it| it["seq"] = json!(1e30)), None),
        (with(|it| it["seq"] = json!(0)), Some("events[1].seq")),
        (
            with(|it| it["seq"] = json!(u64::MAX)),
            Some("events[1].seq"),
        ),
        (
            with(|it| it["eventId"] = json!("a b")),
            Some("events[1].eventId"),
        ),
        (
            with(|it| it["trace"]["attempt"] = json!(0)),
            Some("events[1].trace.attempt"),
        ),
        (with(|it| it["createdAt"] = json!("yesterday")), None),
        (
            with(|it| it["expiresAt"] = json!("+999999-01-01T00:00:00Z")),
            None,
        ),
    ];
    for name in [
        "eventId",
        "seq",
        "kind",
        "sourceNodeId",
        "sourceAgentId",
        "corrId",
        "createdAt",
        "expiresAt",
    ] {
        bodies.push((without(name), None));
    }
    // Deeper than any reader's stack.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    bodies.push((page(&json!([good])).replace("\"x\"", &deep), None));
    let before = cursors(&hub).await;
    for (body, field) in bodies {
        let shown: String = body.chars().take(300).collect();
        let refused = bring(hub.client, &ticket, body).await;
        assert_eq!(refused.status, 400, "{shown}: {}", refused.json());
        let refused = refused.refused(400, "invalid_operation");
        if let Some(field) = field {
            assert_eq!(refused["field"], field, "{shown}");
        }
        assert_eq!(cursors(&hub).await, before, "{shown}");
    }
    assert_eq!(received(hub.client, "ann").await.len(), 0);
    bring(hub.client, &ticket, page(&json!([good])))
        .await
        .expect(200);
    assert_eq!(received(hub.client, "ann").await.len(), 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_event_id_is_one_event_whoever_uses_it_again() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    hub.client.register("ben", &[]).await;
    publish(hub.client, message("ben", "ann", "evt_own"))
        .await
        .expect(201);
    let (_, ticket) = stranger(&hub).await;
    let named = |seq: u64, id: &str, body: &str| {
        let mut event = event(seq, "message", letter(body));
        event["eventId"] = json!(id);
        event
    };
    let events = json!([
        named(1, "evt_s", "one"),
        named(2, "evt_s", "two"),
        named(3, "evt_own", "mine")
    ]);
    let taken = bring(hub.client, &ticket, page(&events)).await.expect(200);
    assert_eq!(taken["lastSeq"], 3, "nobody is held up");
    let got = received(hub.client, "ann").await;
    let bodies: Vec<&Value> = got.iter().map(|one| &one["payload"]["body"]).collect();
    assert_eq!(bodies, ["evt_own", "one"]);
    let said = hub.client.get(OUTBOX).await.expect(200);
    let said = said["events"].as_array().unwrap().iter();
    let answers = said.filter(|event| event["corrId"] == "corr_s");
    let answers: Vec<(&Value, &Value)> = answers
        .map(|event| (&event["payload"]["refEventId"], &event["payload"]["reason"]))
        .collect();
    let exists = json!("event_exists");
    let expected = [
        (&json!("evt_s"), &Value::Null),
        (&json!("evt_s"), &exists),
        (&json!("evt_own"), &exists),
    ];
    assert_eq!(answers, expected);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn events_are_as_large_and_as_deep_as_may_be_and_no_more() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    let given = |bytes: usize| {
        let mut given = message("ann", "ann", "evt_1");
        given["payload"]["body"] = json!("");
        let rest = given["payload"].to_string().len();
        given["payload"]["body"] = json!("x".repeat(bytes - rest));
        given
    };
    // To nobody but its sender: it is read, and then refused for that or published.
    let most = limits::PAYLOAD_BYTES_MAX;
    let refused = publish(hub.client, given(most + 1)).await;
    assert_eq!(
        refused.refused(400, "invalid_operation")["field"],
        "payload"
    );
    publish(hub.client, given(most)).await.expect(201);
    let body = given(limits::BODY_BYTES_MAX + 1);
    let refused = publish(hub.client, body).await;
    assert_eq!(refused.status, 413, "{}", refused.json());
    let (_, ticket) = stranger(&hub).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = page(&json!([event(1, "message", letter("x"))])).replace("\"x\"", &deep);
    bring(hub.client, &ticket, deep)
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_page_that_comes_many_times_at_once_is_taken_once() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    let (_, ticket) = stranger(&hub).await;
    let events: Vec<Value> = (1..=40)
        .map(|seq| event(seq, "message", letter("x")))
        .collect();
    let whole = page(&json!(events));
    let half = page(&json!(events[..20]));
    let bring = |body: &str| bring(hub.client, &ticket, body.to_owned());
    let (one, two, three, four) =
        tokio::join!(bring(&whole), bring(&half), bring(&whole), bring(&half));
    for answer in [one, two, three, four] {
        answer.expect(200);
    }
    assert_eq!(cursors(&hub).await["cursors"][0]["lastSeq"], 40);
    assert_eq!(received(hub.client, "ann").await.len(), 40);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_cursor_is_set_to_no_number_that_cannot_be() {
    let hub = start().await;
    let (_, ticket) = stranger(&hub).await;
    let path = "/runtime/v1/cursors/stranger/reset";
    for (after, status) in [
        (limits::EVENT_SEQ_MAX, 200),
        (limits::EVENT_SEQ_MAX + 1, 400),
        (u64::MAX, 400),
    ] {
        let answer = hub.client.post(path, json!({ "after": after })).await;
        assert_eq!(answer.status, status, "{after}: {}", answer.json());
    }
    let shown = json!({ "epoch": "e", "oldestSeq": u64::MAX, "latestSeq": u64::MAX, "after": u64::MAX, "events": [] });
    let taken = bring(hub.client, &ticket, shown.to_string())
        .await
        .expect(200);
    assert_eq!(taken["status"], "expired", "what is between is lost");
    hub.running.shutdown().await;
}
