//! The event log: pages without gaps, streams that are taken up where they broke off.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};
use switchboard_wire::jetpack::EventPlace;

use crate::harness::{SOON, TestHub, start, start_signed};
use crate::signer::{Signer, bearer, key, steward};

#[tokio::test]
async fn pages_cover_the_log_without_gaps() {
    let hub = start().await;
    for number in 0..25 {
        hub.client.task(&number.to_string()).await;
    }
    let latest = hub.client.get("/api/v1/status").await.expect(200)["events"]["latest"]
        .as_u64()
        .unwrap();
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = hub
            .client
            .get(&format!("/api/v1/events?after={after}&limit=10"))
            .await
            .expect(200);
        seen.extend(
            page["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["seq"].as_u64().unwrap()),
        );
        assert_eq!(page["latest"], latest);
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, (1..=latest).collect::<Vec<u64>>());
    let created = hub
        .client
        .get("/api/v1/events?types=task_created&limit=7")
        .await
        .expect(200);
    let events = created["events"].as_array().unwrap();
    assert_eq!(events.len(), 7);
    assert!(
        events
            .iter()
            .all(|event| event["type"] == "task_created" && event["at"].is_string())
    );
    assert_eq!(created["next"], events[6]["seq"]);
    let none = hub
        .client
        .get("/api/v1/events?types=engram_evicted")
        .await
        .expect(200);
    assert_eq!(
        (
            none["events"].as_array().unwrap().len(),
            none["next"].is_null()
        ),
        (0, true)
    );
    hub.running.shutdown().await;
}

pub struct Stream {
    response: Response<Incoming>,
    text: String,
}

impl Stream {
    pub async fn open(hub: &TestHub, path: &str, last: Option<&str>) -> Stream {
        let last = last.map(|last| ("last-event-id", last));
        Self::open_with(hub, path, last.as_slice()).await
    }

    pub async fn open_with(hub: &TestHub, path: &str, headers: &[(&str, &str)]) -> Stream {
        let headers = [headers, &[("accept", "text/event-stream")]].concat();
        let response = hub.client.open("GET", path, &headers, Bytes::new()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream {
            response,
            text: String::new(),
        }
    }

    /// The next frame with an event in it; `None` at the end.
    pub async fn next(&mut self) -> Option<(u64, String, Value)> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    frame
                        .lines()
                        .find_map(|line| line.strip_prefix(name).map(str::to_owned))
                };
                if let Some(id) = field("id: ") {
                    let data: Value = serde_json::from_str(&field("data: ").unwrap()).unwrap();
                    let place: EventPlace = id.parse().unwrap();
                    let is_log = data.get("eventId").is_none();
                    assert_eq!(place.epoch.is_some(), is_log, "{id}");
                    return Some((place.number, field("event: ").unwrap(), data));
                }
                continue;
            }
            let frame = tokio::time::timeout(SOON, self.response.body_mut().frame())
                .await
                .expect("a frame in time")?;
            let data = frame.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }
}

#[tokio::test]
async fn a_stream_tells_what_happens_from_now_on_and_ends_with_the_hub() {
    let hub = start().await;
    hub.client.task("before").await;
    let mut stream = Stream::open(&hub, "/api/v1/events?types=task_created", None).await;
    let mut all = Stream::open(&hub, "/api/v1/events", None).await;
    let id = hub.client.task("after").await;
    let (seq, kind, data) = stream.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), data["seq"].as_u64(), data["task"].as_str()),
        ("task_created", Some(seq), Some(&*id))
    );
    assert_eq!(all.next().await.unwrap().0, seq);
    hub.running.shutdown().await;
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_stream_is_taken_up_where_it_broke_off() {
    let hub = start().await;
    for number in 0..200 {
        hub.client.task(&number.to_string()).await;
    }
    let latest = hub.client.get("/api/v1/status").await.expect(200)["events"]["latest"]
        .as_u64()
        .unwrap();
    let mut stream = Stream::open(&hub, "/api/v1/events", Some("3")).await;
    for expected in 4..=latest {
        assert_eq!(stream.next().await.unwrap().0, expected);
    }
    let mut from_query =
        Stream::open(&hub, &format!("/api/v1/events?after={}", latest - 1), None).await;
    assert_eq!(from_query.next().await.unwrap().0, latest);
    hub.client
        .send(
            "GET",
            "/api/v1/events",
            &[("accept", "text/event-stream"), ("last-event-id", "x")],
            "",
        )
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_token_or_the_key_that_opened_it() {
    let hub = start_signed().await;
    let steward = steward(&hub).await;
    let path = "/api/v1/events?types=task_created";
    let token = async || {
        let body = json!({ "name": "screen", "scope": "viewer" });
        let made = bearer(hub.client, "POST", "/api/v1/tokens", &steward, body).await;
        let made = made.expect(201)["token"].clone();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("id"), format!("Bearer {}", text("secret")))
    };
    let (ended, first) = token().await;
    let (_, second) = token().await;
    let mut revoked = Stream::open_with(&hub, path, &[("authorization", &first)]).await;
    let mut kept = Stream::open_with(&hub, path, &[("authorization", &second)]).await;
    let agent_key = key(&hub, &steward, "a1").await;
    let signed = Signer::new("a1", &agent_key).headers("GET", path, "");
    let signed: Vec<(&str, &str)> = signed
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut replaced = Stream::open_with(&hub, path, &signed).await;

    let make = async |title: &str| {
        let body = json!({ "title": title });
        bearer(hub.client, "POST", "/api/v1/tasks", &steward, body)
            .await
            .expect(201);
    };
    make("before").await;
    for stream in [&mut revoked, &mut kept, &mut replaced] {
        assert!(stream.next().await.is_some());
    }
    let own = format!("/api/v1/tokens/{ended}");
    bearer(hub.client, "DELETE", &own, &steward, json!({}))
        .await
        .expect(200);
    make("between").await;
    assert_eq!(revoked.next().await, None);
    assert!(replaced.next().await.is_some());
    key(&hub, &steward, "a1").await;
    make("after").await;
    assert_eq!(replaced.next().await, None);
    assert!(kept.next().await.is_some() && kept.next().await.is_some());
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_caller_has_at_most_sixteen_streams_and_others_have_theirs() {
    let hub = start_signed().await;
    let steward = steward(&hub).await;
    let path = "/api/v1/events";
    let own = format!("Bearer {steward}");
    let own = [("authorization", own.as_str())];
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(Stream::open_with(&hub, path, &own).await);
    }
    let streams = [own[0], ("accept", "text/event-stream")];
    let more = hub.client.send("GET", path, &streams, "").await;
    let told = more.refused(429, "rate_limited");
    assert!(told["message"].as_str().unwrap().contains("16"), "{told}");
    let page = hub.client.send("GET", path, &own, "").await;
    page.expect(200);
    let agent_key = key(&hub, &steward, "a1").await;
    let signed = Signer::new("a1", &agent_key).headers("GET", path, "");
    let signed: Vec<(&str, &str)> = signed
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let other = Stream::open_with(&hub, path, &signed).await;
    held.pop();
    crate::world::eventually(async || {
        let again = hub.client.open("GET", path, &streams, Default::default());
        again.await.status() == 200
    })
    .await;
    drop((held, other));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn where_nobody_is_asked_who_it_is_callers_are_not_counted() {
    let hub = start().await;
    let mut held = Vec::new();
    for _ in 0..17 {
        held.push(Stream::open(&hub, "/api/v1/events", None).await);
    }
    drop(held);
    hub.running.shutdown().await;
}
