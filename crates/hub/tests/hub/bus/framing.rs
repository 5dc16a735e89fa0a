//! Lines that are no frames, and frames that are none here.

use serde_json::{Value, json};

use super::kit::{ASSIGN, Peer, bus, bus_as, entry, flagged, hello, make, shown};
use crate::harness::TestHub;
use crate::world::eventually;

/// A frame that is answered, padded to a line of exactly so many bytes.
fn padded(peer: &mut Peer, bytes: usize) -> String {
    let mut frame = peer.frame("catalog_refresh_request.v1", &json!({}));
    frame["pad"] = json!("");
    let missing = bytes - frame.to_string().len();
    frame["pad"] = json!("x".repeat(missing));
    assert_eq!(frame.to_string().len(), bytes);
    frame.to_string()
}

#[tokio::test]
async fn a_line_of_the_maximum_passes_and_one_byte_more_is_dropped_and_flagged() {
    // agentbus.limits.max_message_size, agentbus.config.max_message_bytes
    const BYTES: usize = 4096;
    let hub = bus_as(|config| config.bus.max_message_bytes = BYTES).await;
    let mut worker = Peer::open(&hub).await;
    worker.greet("worker", "w1", hello("w1", &[])).await;
    let welcome = worker.expect("protocol_welcome.v1").await;
    assert_eq!(welcome["limits"]["max_message_bytes"], BYTES);
    for bytes in [BYTES - 1, BYTES] {
        let line = padded(&mut worker, bytes);
        worker.line(&line).await;
        worker.expect("engram_catalog_snapshot.v1").await;
    }
    let line = padded(&mut worker, BYTES);
    worker.raw(format!("{line}\r\n").as_bytes()).await;
    worker.expect("engram_catalog_snapshot.v1").await;
    let line = padded(&mut worker, BYTES + 1);
    worker.line(&line).await;
    worker.refused("too_large").await;
    worker.fence().await;
    assert_eq!(worker.came("engram_catalog_snapshot.v1"), 0);
    assert_eq!(flagged(hub.client, "too_large").await, 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_line_without_an_end_is_told_of_once_and_let_go() {
    // agentbus.framing.bounded
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let chunk = vec![b'x'; 256 * 1024];
    for _ in 0..64 {
        worker.raw(&chunk).await;
    }
    worker.refused("too_large").await;
    worker.raw(b"\n").await;
    worker.fence().await;
    assert_eq!(worker.came("protocol_error.v1"), 0);
    // Before the hello it is the end.
    let mut stranger = Peer::open(&hub).await;
    stranger.raw(&chunk).await;
    stranger.refused("too_large").await;
    stranger.ended().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_is_no_json_object_is_refused_and_the_connection_goes_on() {
    // agentbus.framing.ndjson, agentbus.framing.no_length_prefix
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(300), "}".repeat(300));
    let frame = worker.frame("heartbeat.v1", &json!({})).to_string();
    let mut prefixed = u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
    prefixed.extend_from_slice(frame.as_bytes());
    let cases: [(&[u8], &str); 11] = [
        (b"[]", "bad_envelope"),
        (b"[{}]", "bad_envelope"),
        (b"17", "bad_envelope"),
        (b"\"hello\"", "bad_envelope"),
        (b"null", "bad_envelope"),
        (b"{", "bad_json"),
        (b"{} {}", "bad_json"),
        (b"\x00\x01\x02\xff\xfe", "bad_json"),
        (b"{\"a\":\"\xc3\x28\"}", "bad_json"),
        (deep.as_bytes(), "bad_json"),
        (&prefixed, "bad_json"),
    ];
    for (line, code) in cases {
        worker.raw(line).await;
        worker.raw(b"\n").await;
        let error = worker.expect("protocol_error.v1").await;
        assert_eq!(
            error["code"],
            code,
            "{}: {error}",
            String::from_utf8_lossy(line)
        );
    }
    worker.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_envelope_that_lacks_something_is_refused() {
    // agentbus.envelope.required, agentbus.envelope.sender_role, agentbus.envelope.sender_id,
    // agentbus.envelope.payload_object, agentbus.envelope.run_id_optional
    let hub = bus().await;
    let refused = async |change: &dyn Fn(&mut Value)| {
        let mut worker = Peer::worker(&hub, "w1", &[]).await;
        let mut frame = worker.frame("catalog_refresh_request.v1", &json!({}));
        change(&mut frame);
        worker.line(&frame.to_string()).await;
        let error = worker.refused("bad_envelope").await;
        worker.fence().await;
        error["message"].as_str().unwrap().to_owned()
    };
    for field in [
        "schema_version",
        "message_type",
        "sent_at",
        "sender",
        "seq",
        "payload",
    ] {
        let message = refused(&|frame| drop(frame.as_object_mut().unwrap().remove(field))).await;
        assert!(message.contains(field), "{field}: {message}");
    }
    for (pointer, wrong) in [
        ("/sender/role", json!("boss")),
        ("/sender/id", json!("")),
        ("/sender", json!([])),
        ("/seq", json!(-1)),
        ("/seq", json!(1.5)),
        ("/seq", json!("2")),
        ("/payload", json!([])),
        ("/payload", json!(null)),
        ("/message_type", json!(7)),
    ] {
        refused(&|frame| *frame.pointer_mut(pointer).unwrap() = wrong.clone()).await;
    }
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let mut frame = worker.frame("catalog_refresh_request.v1", &json!({}));
    frame["sender"]["run_id"] = json!("run_7");
    frame["of_tomorrow"] = json!([1]);
    worker.line(&frame.to_string()).await;
    worker.expect("engram_catalog_snapshot.v1").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn payloads_that_are_not_what_they_should_be_are_refused_with_the_field() {
    // agentbus.heartbeat.stage_enum, agentbus.heartbeat.issue_attempt, agentbus.error.identity
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let state = |stage: &str| json!({ "stage": stage, "issue_number": 1, "attempt": 1, "last_update_at": "2026-02-12T00:00:00Z" });
    let mut percent = state("CODE");
    percent["progress"] = json!({ "step": "s", "percent": 101 });
    let mut number = state("CODE");
    number["issue_number"] = json!("21");
    for (payload, field) in [
        (json!({}), "state"),
        (json!({ "state": state("CODING") }), "stage"),
        (json!({ "state": percent }), "percent"),
        (json!({ "state": number }), "issue_number"),
    ] {
        let seq = worker.send("heartbeat.v1", payload).await;
        let error = worker.refused("bad_envelope").await;
        assert_eq!(error["ref_seq"], seq);
        assert!(
            error["message"].as_str().unwrap().contains(field),
            "{error}"
        );
    }
    let mut report = super::kit::error("e", 1, (true, true, true));
    report["error"]
        .as_object_mut()
        .unwrap()
        .remove("is_transient");
    worker.send("worker_error.v1", report).await;
    let error = worker.refused("bad_envelope").await;
    assert!(
        error["message"].as_str().unwrap().contains("is_transient"),
        "{error}"
    );
    worker.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn whoever_a_payload_names_as_its_sender_is_the_sender() {
    // agentbus.hello.worker, agentbus.error.identity
    let hub = bus().await;
    let mut stranger = Peer::open(&hub).await;
    stranger.greet("worker", "w2", hello("w1", &[])).await;
    let error = stranger.refused("role_forbidden").await;
    assert!(error["message"].as_str().unwrap().contains("worker_id"));
    stranger.ended().await;
    let mut worker = Peer::worker(&hub, "w2", &[]).await;
    let report = super::kit::error("e", 0, (true, true, true));
    worker.send("worker_error.v1", report).await;
    let error = worker.refused("role_forbidden").await;
    assert!(error["message"].as_str().unwrap().contains("worker_id"));
    worker.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn any_instant_of_iso_8601_in_utc_is_taken() {
    // agentbus.envelope.sent_at
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    for at in [
        "2026-02-12T00:00Z",
        "20260212T000000,5+00",
        "2026-W07-4T00Z",
    ] {
        let mut frame = worker.frame("catalog_refresh_request.v1", &json!({}));
        frame["sent_at"] = json!(at);
        worker.line(&frame.to_string()).await;
        worker.expect("engram_catalog_snapshot.v1").await;
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn numbers_only_grow_and_a_gap_is_flagged() {
    // agentbus.envelope.seq_monotonic
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    worker.fence().await;
    for behind in [0, 1] {
        worker.seq -= 1 + behind;
        let seq = worker.send("catalog_refresh_request.v1", json!({})).await;
        let error = worker.refused("bad_seq").await;
        assert_eq!(error["ref_seq"], seq);
        worker.seq = 2;
    }
    worker.seq += 100;
    worker.fence().await;
    assert_eq!(worker.came("protocol_error.v1"), 0, "a gap is accepted");
    eventually(async || flagged(hub.client, "seq_gap").await == 1).await;
    assert_eq!(flagged(hub.client, "bad_seq").await, 2);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_unknown_message_is_flagged_and_ignored_and_an_unknown_envelope_is_the_end() {
    // agentbus.envelope.message_type, agentbus.envelope.schema_version
    let hub = bus().await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    worker
        .send("weather_report.v1", json!({ "sun": true }))
        .await;
    worker.send("heartbeat.v2", json!({})).await;
    worker.fence().await;
    assert!(worker.passed.is_empty(), "{:?}", worker.passed);
    assert_eq!(flagged(hub.client, "unknown_type").await, 2);
    let mut frame = worker.frame("heartbeat.v1", &json!({}));
    frame["schema_version"] = json!("agentbus-envelope/v2");
    worker.line(&frame.to_string()).await;
    let error = worker.refused("bad_envelope").await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("schema_version"),
        "{error}"
    );
    worker.ended().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_first_frame_that_is_no_hello_is_the_last() {
    // agentbus.version.hello_first, agentbus.hello.version_and_capabilities, agentbus.hello.worker, agentbus.hello.repo
    let hub = bus().await;
    let opened = async |message_type: &str, payload: Value, code: &str| {
        let mut peer = Peer::open(&hub).await;
        (peer.role, peer.id) = ("worker", "w1".to_owned());
        peer.send(message_type, payload).await;
        // What comes behind it is not heard any more.
        peer.try_raw(b"{}\n").await;
        peer.refused(code).await;
        peer.ended().await;
        assert!(peer.passed.is_empty(), "{:?}", peer.passed);
    };
    let state = json!({ "stage": "CODE", "issue_number": 0, "attempt": 1, "last_update_at": "2026-02-12T00:00:00Z" });
    opened("heartbeat.v1", json!({ "state": state }), "hello_required").await;
    opened("weather_report.v1", json!({}), "hello_required").await;
    for missing in ["protocol_version", "capabilities", "worker", "repo"] {
        let mut hello = hello("w1", ASSIGN);
        hello.as_object_mut().unwrap().remove(missing);
        opened("protocol_hello.v1", hello, "bad_envelope").await;
    }
    let mut nameless = hello("w1", ASSIGN);
    nameless["worker"] = json!({});
    opened("protocol_hello.v1", nameless, "bad_envelope").await;
    let mut numbers = hello("w1", ASSIGN);
    numbers["capabilities"] = json!([1]);
    opened("protocol_hello.v1", numbers, "bad_envelope").await;
    for line in [&b"GET / HTTP/1.1\r\n"[..], b"\xff\xfe\n", b"[]\n"] {
        let mut peer = Peer::open(&hub).await;
        peer.raw(line).await;
        peer.expect("protocol_error.v1").await;
        peer.ended().await;
    }
    let agents = hub.client.get("/api/v1/agents").await.expect(200)["agents"].take();
    assert_eq!(agents, json!([]));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn who_only_sends_rubbish_is_put_out() {
    let hub = bus().await;
    let mut good = Peer::worker(&hub, "good", ASSIGN).await;
    let mut bad = Peer::worker(&hub, "bad", &[]).await;
    bad.raw("rubbish\n".repeat(100).as_bytes()).await;
    bad.ended().await;
    let told = bad.came("protocol_error.v1");
    assert!((2..=20).contains(&told), "{told}");
    let (_, number) = make(hub.client, json!({ "title": "T" })).await;
    good.take_on(number).await;
    // It may try again.
    Peer::worker(&hub, "bad", &[]).await.fence().await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn frames_may_come_in_any_pieces() {
    // agentbus.framing.many_per_connection, agentbus.transport.reliable_ordered
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let mut worker = Peer::worker(&hub, "w1", &[]).await;
    let report = |worker: &mut Peer, n: usize| {
        let report = super::kit::error(&format!("e-{n}"), 0, (true, true, false));
        worker.frame("worker_error.v1", &report).to_string()
    };
    // Many at once, with lines that are none in between; then one in many pieces.
    let many: Vec<String> = (0..50).map(|n| report(&mut worker, n)).collect();
    worker
        .raw(format!("\n{}\r\n\n", many.join("\r\n\n")).as_bytes())
        .await;
    let one = report(&mut worker, 50);
    for piece in one.as_bytes().chunks(7) {
        worker.raw(piece).await;
        tokio::task::yield_now().await;
    }
    worker.raw(b"\n").await;
    for n in 0..=50 {
        let passed = watcher.expect("worker_error.v1").await;
        assert_eq!(
            passed["error"]["error_id"],
            format!("e-{n}"),
            "in the order they were sent"
        );
    }
    hub.running.shutdown().await;
}

/// The worker has begun a task.
async fn at_work(hub: &TestHub) -> (Peer, String, u64) {
    let mut worker = Peer::worker(hub, "w1", ASSIGN).await;
    let (id, number) = make(hub.client, json!({ "title": "T" })).await;
    worker.take_on(number).await;
    (worker, id, number)
}

#[tokio::test]
async fn a_tail_without_its_newline_is_no_message() {
    // agentbus.framing.newline_terminated
    let hub = bus().await;
    let mut watcher = Peer::operator(&hub, "o1").await;
    let (mut worker, id, number) = at_work(&hub).await;
    watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["connected"] == true)
        .await;
    let state = json!({ "stage": "DONE", "issue_number": number, "attempt": 1, "last_update_at": "2026-02-12T00:00:00Z" });
    let frame = worker.frame("heartbeat.v1", &json!({ "state": state }));
    worker.raw(frame.to_string().as_bytes()).await;
    drop(worker);
    watcher
        .snapshot(|snapshot| entry(snapshot, "w1")["connected"] == false)
        .await;
    assert_eq!(shown(hub.client, &id).await["status"], "in_progress");
    hub.running.shutdown().await;
}
