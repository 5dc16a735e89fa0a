//! What roles claim and what they escalate, from the socket to the memory.

use serde_json::{Value, json};

use super::kit::{Client, broker, content};
use crate::harness::{self, TestHub};
use crate::squidrun_kit::{Dir, serve};
use crate::world::eventually;

async fn claims(client: &harness::Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("/api/v1/claims{query}")).await;
    answer.expect(200)["claims"].as_array().unwrap().clone()
}

fn texts(claims: &[Value]) -> Vec<&str> {
    let texts = claims.iter().map(|claim| claim["text"].as_str().unwrap());
    texts.collect()
}

async fn judge(client: &harness::Client, id: u64, status: &str) -> harness::Answer {
    let body = json!({ "agentId": "architect", "status": status, "reason": "seen" });
    client
        .post(&format!("/api/v1/claims/{id}/status"), body)
        .await
}

#[tokio::test]
async fn a_claim_is_listed_searched_and_judged() {
    let hub = broker().await;
    let mut oracle = Client::role(&hub, "oracle").await;
    let text = "(ORACLE #1): DECISION: keep SQLite\nFINDING: the cache is cold\nand a line";
    oracle.say("architect", "m1", text).await;
    oracle.say("architect", "m1", text).await;
    let blocker = "(ORACLE #2): BLOCKER: no disk\n\nTASK: buy one";
    oracle.say("builder", "m2", blocker).await;
    let all = claims(&hub.client, "").await;
    let said = ["buy one", "no disk", "the cache is cold", "keep SQLite"];
    assert_eq!(texts(&all), said);
    let first = &all[3];
    let id = first["id"].as_u64().unwrap();
    let expected = json!({
        "kind": "claim", "id": id, "type": "decision", "text": "keep SQLite", "status": "proposed",
        "unresolved": false, "by": "oracle", "messageId": "m1", "createdAt": first["createdAt"], "judged": null,
    });
    assert_eq!(*first, expected);
    for (query, found) in [
        ("?unresolved=true", &said[..2]),
        ("?type=finding", &said[2..3]),
        ("?by=architect", &[]),
        ("?status=proposed&limit=2", &said[..2]),
        ("?status=confirmed", &[]),
    ] {
        assert_eq!(texts(&claims(&hub.client, query).await), found, "{query}");
    }
    let page = hub.client.get("/api/v1/claims?limit=3").await.expect(200);
    let next = page["next"].as_str().unwrap();
    let rest = claims(&hub.client, &format!("?after={next}")).await;
    assert_eq!(texts(&rest), &said[3..]);

    let judged = judge(&hub.client, id, "contested").await.expect(200);
    assert_eq!(judged["claim"]["status"], "contested");
    assert_eq!(judged["claim"]["judged"]["by"], "architect");
    assert_eq!(judged["claim"]["judged"]["why"], "seen");
    let open = claims(&hub.client, "?unresolved=true").await;
    assert_eq!(texts(&open), ["buy one", "no disk", "keep SQLite"]);

    let search = hub.client.get("/api/v1/memory/search?q=cache%20cold").await;
    let found = search.expect(200);
    let found = found["claims"].as_array().unwrap();
    assert_eq!(texts(found), ["the cache is cold"]);

    judge(&hub.client, 99, "confirmed").await.expect(404);
    judge(&hub.client, id, "maybe").await.expect(400);
    let nobody = json!({ "agentId": "", "status": "confirmed" });
    let path = format!("/api/v1/claims/{id}/status");
    hub.client.post(&path, nobody).await.expect(400);
    let word = json!({ "agentId": "a", "status": "confirmed" });
    let path = "/api/v1/claims/first/status";
    hub.client.post(path, word).await.expect(400);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_is_sent_to_a_role_over_http_is_numbered_and_claims() {
    let hub = broker().await;
    for agent in ["jet", "other"] {
        hub.client.register(agent, &[]).await;
    }
    let mut ears = [
        Client::role(&hub, "oracle").await,
        Client::role(&hub, "oracle").await,
    ];
    let send = async |to: &str, payload: Value| {
        let message = json!({ "to": to, "type": "custom", "payload": payload });
        let sent = json!({ "agentId": "jet", "message": message });
        let sent = hub.client.post("/api/v1/messages", sent).await;
        assert!(sent.status < 300, "{}", sent.text);
    };
    send("oracle", json!({ "text": "see\nDECISION: keep SQLite" })).await;
    send("other", json!({ "text": "DECISION: among agents" })).await;
    send("oracle", json!({ "subject": "BLOCKER", "body": "no disk" })).await;
    for ear in &mut ears {
        for expected in [
            "(JET #1): see\nDECISION: keep SQLite",
            "(JET #2): BLOCKER: no disk",
        ] {
            assert_eq!(content(&ear.expect("message").await), expected);
        }
    }
    let all = claims(&hub.client, "").await;
    assert_eq!(texts(&all), ["no disk", "keep SQLite"]);
    assert_eq!(all[0]["by"], "jet");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_asks_for_more_than_claims_is_not_supported() {
    let hub = broker().await;
    let mut client = Client::role(&hub, "oracle").await;
    for kind in ["evidence-ledger", "team-memory"] {
        client
            .send(
                json!({ "type": kind, "action": "list-claims", "payload": {}, "requestId": kind }),
            )
            .await;
        let answer = client.expect("response").await;
        let result = json!({ "ok": false, "status": "unsupported_action" });
        assert_eq!(answer["requestId"], kind);
        assert_eq!((&answer["ok"], &answer["result"]), (&true.into(), &result));
    }
    hub.running.shutdown().await;
}

async fn fails(hub: &TestHub, id: &str, line: &str) {
    let mut builder = Client::role(hub, "builder").await;
    let text = format!("[URGENT] [ESCALATE] builder: deploy\nfirst error: {line}\nlog");
    let ack = builder.say("architect", id, &text).await;
    assert_eq!(ack["accepted"], true, "{ack}");
}

#[tokio::test]
async fn a_failure_that_recurs_reaches_the_oracle_and_the_memory() {
    // squidrun.escalate.negative_knowledge
    let hub = broker().await;
    let mut oracle = Client::role(&hub, "oracle").await;
    fails(&hub, "m1", "error: no space in /tmp/a1").await;
    fails(&hub, "m2", "error: no space in /tmp/b2").await;
    assert!(oracle.hears_no("message").await);
    fails(&hub, "m3", "error: no space in /tmp/c3").await;
    let told = oracle.expect("message").await;
    let text = content(&told);
    assert!(
        text.contains("builder failed 3 times within 24 hours"),
        "{text}"
    );
    assert!(text.contains("error: no space in /tmp/c3"), "{text}");
    let search = hub.client.get("/api/v1/memory/search?q=no%20space").await;
    let found = search.expect(200);
    let found = found["learnings"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["agentId"]), (1, &"builder".into()));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_handoff_tells_which_claims_are_unresolved_from_the_journal_alone() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    let text = "[HM-MESSAGE-ID:m1]\n(ARCH #1): DECISION: ship\nTASK: mend\nBLOCKER: disk";
    dir.put("builder", text);
    hub.hears("m1").await;
    let all = claims(&hub.client, "").await;
    let id = |text: &str| {
        let found = all.iter().find(|claim| claim["text"] == *text);
        found.unwrap()["id"].as_u64().unwrap()
    };
    let unresolved = || {
        let index = dir.text("handoffs/session.md").unwrap_or_default();
        let (_, rest) = index.split_once("## Unresolved Claims").unwrap_or_default();
        let (lines, rest) = rest.split_once("\n## ").unwrap_or_default();
        let (digest, _) = rest.split_once("\n## ").unwrap_or_default();
        (lines.trim().to_owned(), digest.to_owned())
    };
    let shows = |words: &[&str]| {
        let (lines, _) = unresolved();
        let count = lines.lines().count();
        count == words.len() && words.iter().all(|word| lines.contains(word))
    };
    eventually(async || shows(&["TASK: `mend`", "BLOCKER: `disk`"])).await;
    judge(&hub.client, id("mend"), "confirmed")
        .await
        .expect(200);
    judge(&hub.client, id("disk"), "confirmed")
        .await
        .expect(200);
    let disputed = [
        "BLOCKER (confirmed): `disk`",
        "DECISION (contested): `ship`",
    ];
    judge(&hub.client, id("ship"), "contested")
        .await
        .expect(200);
    eventually(async || shows(&disputed)).await;
    judge(&hub.client, id("ship"), "deprecated")
        .await
        .expect(200);
    judge(&hub.client, id("disk"), "deprecated")
        .await
        .expect(200);
    eventually(async || unresolved().0 == "- none").await;
    assert!(!unresolved().1.contains("ship"), "it holds no more");
    let index = dir.text("handoffs/session.md").unwrap();
    let journal = hub.client.get("/api/v1/journal?role=builder").await;
    let journal = journal.expect(200);
    assert_eq!(journal["messages"][0]["messageId"], "m1");
    assert_eq!(journal["messages"][0]["from"], "architect");
    let none = hub.client.get("/api/v1/journal?failed=true").await;
    assert_eq!(none.expect(200)["messages"], json!([]));
    hub.client.get("/api/v1/journal?limit=0").await.expect(400);
    hub.stop().await;
    let rows = switchboard_store::journal::Journal::read(&dir.journal_path(), 100, 100).unwrap();
    assert_eq!(switchboard_hub::squidrun::handoff::index(&rows), index);
}
