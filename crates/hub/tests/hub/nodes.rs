//! Nodes over HTTP: invited, joined, listed, known by their tickets, gone.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::node::NodeKey;
use switchboard_hub::config::{AuthMode, Tls};
use switchboard_wire::IsoTime;
use switchboard_wire::runtime::proof::{self, Signer};

use crate::harness::{Answer, Client, TestHub, start, start_as, start_signed};
use crate::signer::{bearer, now_ms, steward};
use crate::world::{Ledger, START, eventually};

const EXCHANGE: &str = "/ansible/auth/exchange";
const TICKET: &str = "/ansible/auth/ticket";
const NODES: &str = "/runtime/v1/nodes";

/// A node that is written elsewhere.
pub struct Stranger {
    id: &'static str,
    signer: Signer,
}

impl Stranger {
    pub fn new(id: &'static str, seed: u8) -> Stranger {
        let seed = format!("{seed:02x}").repeat(32);
        let signer = Signer::from_hex(&seed).unwrap();
        Stranger { id, signer }
    }

    fn introduction(&self, invite: &str, nonce: &str) -> Value {
        json!({
            "inviteToken": invite, "nodeId": self.id, "nonce": nonce,
            "nodeProof": self.signer.sign(&proof::exchange(invite, self.id, nonce)),
            "publicKey": self.signer.public_key(), "protocolVersion": "1.0",
        })
    }

    pub async fn exchange(&self, client: Client, invite: &str, nonce: &str) -> Answer {
        let body = self.introduction(invite, nonce);
        client.send("POST", EXCHANGE, &[], body.to_string()).await
    }

    fn asks(&self, audience: &str, at_ms: i64, nonce: &str) -> Value {
        let at = IsoTime(at_ms);
        let signed = proof::ticket(self.id, audience, at, nonce);
        json!({ "nodeId": self.id, "nonce": nonce, "at": at, "proof": self.signer.sign(&signed) })
    }
}

pub async fn invite(client: Client) -> String {
    let made = client.post("/runtime/v1/invites", json!({})).await;
    text(&made.expect(201), "inviteToken")
}

pub fn text(body: &Value, name: &str) -> String {
    body[name].as_str().expect(name).to_owned()
}

pub async fn own(client: Client) -> String {
    text(&client.get(NODES).await.expect(200)["own"], "nodeId")
}

async fn known(client: Client) -> Vec<String> {
    let list = client.get(NODES).await.expect(200);
    let nodes = list["nodes"].as_array().expect("a list").iter();
    nodes.map(|node| text(node, "nodeId")).collect()
}

pub async fn join(from: &TestHub, to: &TestHub, invite: &str, endpoint: Option<String>) -> Answer {
    let body = json!({ "url": to.running.url(), "inviteToken": invite, "endpoint": endpoint });
    from.client.post("/runtime/v1/nodes/join", body).await
}

/// A hub that others reach, and two behind routers that it invited.
async fn three() -> [TestHub; 3] {
    let hubs = [start().await, start().await, start().await];
    for joining in &hubs[1..] {
        let token = invite(hubs[0].client).await;
        join(joining, &hubs[0], &token, None).await.expect(200);
    }
    hubs
}

#[tokio::test]
async fn nodes_that_never_exchanged_an_invite_know_each_other_by_who_invited_both() {
    let [a, b, c] = three().await;
    let ids = [
        own(a.client).await,
        own(b.client).await,
        own(c.client).await,
    ];
    for (hub, other) in [(&b, &ids[2]), (&c, &ids[1])] {
        eventually(async || known(hub.client).await.contains(other)).await;
        let list = hub.client.get(NODES).await.expect(200);
        let found = list["nodes"].as_array().unwrap().iter();
        let node = found
            .clone()
            .find(|node| node["nodeId"] == **other)
            .unwrap();
        assert_eq!(node["vouchedBy"], *ids[0]);
        assert_eq!(node["reach"], "unreachable", "neither has an address");
        let first_hand = found
            .clone()
            .find(|node| node["nodeId"] == *ids[0])
            .unwrap();
        assert_eq!(first_hand["reach"], "pull");
    }
    b.client.register("bob", &[]).await;
    let body = json!({
        "kind": "message", "sourceAgentId": "bob", "payload": { "toAgents": ["carl"], "body": "secret words" },
    });
    let refused = b.client.post("/runtime/v1/events", body).await;
    assert_eq!(refused.refused(400, "no_route")["reason"], "unreachable");

    // What a joiner reads: what there is, nothing of what is said.
    a.client.register("ann", &[]).await;
    a.client.register("ben", &[]).await;
    let body = json!({
        "kind": "message", "sourceAgentId": "ann", "payload": { "toAgents": ["ben"], "body": "secret words" },
    });
    a.client.post("/runtime/v1/events", body).await.expect(201);
    let mut control = Value::Null;
    eventually(async || {
        control = a.client.get("/runtime/v1/control").await.expect(200);
        control.to_string().contains("agents.ann")
    })
    .await;
    assert!(!control.to_string().contains("secret"));
    let records = control["records"].as_array().unwrap();
    let paths: Vec<&str> = records
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    for id in &ids {
        assert!(paths.contains(&&*format!("nodes.{id}")), "{paths:?}");
    }
    assert_eq!(records[0]["record"]["status"], "online");
    assert_eq!(
        records[0]["record"]["publicKey"].as_str().unwrap().len(),
        64
    );

    // Whom the inviter sends away the others do not keep.
    let path = format!("{NODES}/{}/leave", ids[2]);
    a.client.post(&path, json!({})).await.expect(200);
    eventually(async || !known(b.client).await.contains(&ids[2])).await;
    for hub in [a, b, c] {
        hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn two_hubs_join_know_each_other_and_part() {
    let (a, b) = (start().await, start().await);
    let (a_id, b_id) = (own(a.client).await, own(b.client).await);
    assert!(a_id.starts_with("node-") && a_id != b_id);
    let token = invite(a.client).await;
    let endpoint = Some(b.running.url());
    let joined = join(&b, &a, &token, endpoint.clone()).await.expect(200);
    assert_eq!(joined["node"]["nodeId"], *a_id);
    assert_eq!(known(a.client).await, [&*b_id]);
    assert_eq!(known(b.client).await, [&*a_id]);
    let shown = a.client.get(&format!("{NODES}/{b_id}")).await.expect(200);
    let node = &shown["node"];
    assert_eq!(
        (&node["status"], &node["reach"]),
        (&"joined".into(), &"pull".into())
    );
    assert_eq!(node["endpoint"], b.running.url());
    assert_eq!(node["invitedBy"], "steward");
    let own_b = b.client.get(NODES).await.expect(200)["own"].clone();
    assert_eq!(node["publicKey"], own_b["publicKey"]);

    // A join that broke off is repeated.
    join(&b, &a, &token, endpoint).await.expect(200);
    assert_eq!(known(a.client).await, [&*b_id]);

    let left = a
        .client
        .post(&format!("{NODES}/{b_id}/leave"), json!({}))
        .await;
    assert_eq!(left.expect(200)["left"][0]["status"], "left");
    assert!(known(a.client).await.is_empty());
    assert!(known(b.client).await.is_empty(), "it was told");
    let shown = b.client.get(&format!("{NODES}/{a_id}")).await.expect(200);
    assert!(shown["node"]["leftAt"].is_string());
    let events = "/api/v1/events?types=node_invited,node_joined,node_left&after=0";
    let events = a.client.get(events).await.expect(200);
    let kinds = events["events"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["node_invited", "node_joined", "node_left"]);
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn a_hub_leaves_all_by_its_own_id_and_joins_again_by_a_new_invite() {
    let (a, b) = (start().await, start().await);
    let token = invite(a.client).await;
    let joined = join(&b, &a, &token, None).await.expect(200);
    assert_eq!(joined["node"]["reach"], "pull");
    let b_id = own(b.client).await;
    let shown = a.client.get(&format!("{NODES}/{b_id}")).await.expect(200);
    assert_eq!(shown["node"]["reach"], "push", "it said no endpoint");
    let left = b
        .client
        .post(&format!("{NODES}/{b_id}/leave"), json!({}))
        .await;
    assert_eq!(left.expect(200)["left"].as_array().unwrap().len(), 1);
    assert!(known(a.client).await.is_empty() && known(b.client).await.is_empty());
    let again = join(&b, &a, &token, None).await;
    assert_eq!(again.refused(409, "join_failed")["reason"], "invite_used");
    let token = invite(a.client).await;
    join(&b, &a, &token, None).await.expect(200);
    assert_eq!(known(a.client).await, [b_id]);
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn an_exchange_is_refused_by_name_and_leaves_the_invite_as_it_was() {
    let hub = start_signed().await;
    let steward = steward(&hub).await;
    let made = bearer(
        hub.client,
        "POST",
        "/runtime/v1/invites",
        &steward,
        json!({}),
    )
    .await;
    let token = text(&made.expect(201), "inviteToken");
    let node = Stranger::new("far", 1);
    let send = async |body: Value| {
        hub.client
            .send("POST", EXCHANGE, &[], body.to_string())
            .await
    };
    let with = |name: &str, value: Value| {
        let mut body = node.introduction(&token, "n1");
        body[name] = value;
        body
    };
    let other = Stranger::new("far", 2).signer.public_key();
    send(with("publicKey", other.into()))
        .await
        .refused(401, "node_proof_invalid");
    send(with("nodeId", "near".into()))
        .await
        .refused(401, "node_proof_invalid");
    send(with("nonce", "n2".into()))
        .await
        .refused(401, "node_proof_invalid");
    let told = send(with("protocolVersion", "2.0".into()))
        .await
        .refused(400, "invalid_operation");
    assert_eq!(
        (&told["field"], &told["supported"]),
        (&"protocolVersion".into(), &json!(["1.0"]))
    );
    let told = send(with("publicKey", Value::Null))
        .await
        .refused(400, "invalid_operation");
    assert_eq!(told["field"], "publicKey");
    for unknown in [
        "",
        "sbi_",
        &token.replace(|c: char| c.is_ascii_digit(), "0"),
    ] {
        node.exchange(hub.client, unknown, "n1")
            .await
            .refused(401, "invalid_invite");
    }
    let first = node.exchange(hub.client, &token, "n1").await.expect(200);
    let again = node.exchange(hub.client, &token, "n1").await.expect(200);
    assert_eq!(again, first, "the same exchange is the same answer");
    node.exchange(hub.client, &token, "n2")
        .await
        .refused(409, "invite_used");
    let made = bearer(
        hub.client,
        "POST",
        "/runtime/v1/invites",
        &steward,
        json!({}),
    )
    .await;
    let second = text(&made.expect(201), "inviteToken");
    node.exchange(hub.client, &second, "n1")
        .await
        .refused(409, "replay_detected");
    let impostor = Stranger::new("far", 3);
    impostor
        .exchange(hub.client, &second, "n3")
        .await
        .refused(403, "node_mismatch");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn of_two_nodes_that_bring_one_invite_at_once_one_is_let_in() {
    let hub = start().await;
    for round in 0..8_u8 {
        let token = invite(hub.client).await;
        let (one, other) = (Stranger::new("one", 1), Stranger::new("other", 2));
        let nonce = format!("n{round}");
        let (one, other) = tokio::join!(
            one.exchange(hub.client, &token, &nonce),
            other.exchange(hub.client, &token, &nonce)
        );
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{} {}", one.text, other.text);
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_ticket_is_given_to_a_joined_node_for_each_signature_once() {
    let hub = start_signed().await;
    let token = steward(&hub).await;
    let made = bearer(hub.client, "POST", "/runtime/v1/invites", &token, json!({})).await;
    let invited = made.expect(201);
    let (here, invite) = (text(&invited, "nodeId"), text(&invited, "inviteToken"));
    let node = Stranger::new("far", 1);
    let send = async |body: Value| hub.client.send("POST", TICKET, &[], body.to_string()).await;
    let now = now_ms();
    send(node.asks(&here, now, "n1"))
        .await
        .refused(403, "node_mismatch");
    let first = node.exchange(hub.client, &invite, "n0").await.expect(200);
    let given = send(node.asks(&here, now, "n1")).await.expect(200);
    assert_ne!(given["sessionId"], first["sessionId"]);
    send(node.asks(&here, now, "n1"))
        .await
        .refused(409, "replay_detected");
    send(node.asks("elsewhere", now, "n2"))
        .await
        .refused(401, "node_proof_invalid");
    let forged = Stranger::new("far", 2).asks(&here, now, "n2");
    send(forged).await.refused(401, "node_proof_invalid");
    const HOUR: i64 = 3_600_000;
    for (skew, is_fine) in [
        (-HOUR, true),
        (HOUR, true),
        (-3 * HOUR, false),
        (3 * HOUR, false),
    ] {
        let answer = send(node.asks(&here, now + skew, &format!("h{skew}"))).await;
        match is_fine {
            true => drop(answer.expect(200)),
            false => assert_eq!(answer.refused(400, "invalid_operation")["field"], "at"),
        }
    }
    let shown = |ticket: &Value| format!("Bearer {}", ticket.as_str().unwrap());
    for ticket in [&first["ticket"], &given["ticket"]] {
        let header = shown(ticket);
        let with = [("authorization", header.as_str())];
        hub.client.send("GET", NODES, &with, "").await.expect(200);
        let steers = hub
            .client
            .send("POST", "/runtime/v1/invites", &with, "{}")
            .await;
        steers.refused(403, "forbidden");
        let other = hub
            .client
            .send("POST", &format!("{NODES}/{here}/leave"), &with, "{}")
            .await;
        other.refused(403, "node_mismatch");
    }
    let header = shown(&given["ticket"]);
    let with = [("authorization", header.as_str())];
    let left = hub
        .client
        .send("POST", &format!("{NODES}/far/leave"), &with, "{}")
        .await;
    assert_eq!(left.expect(200)["left"][0]["nodeId"], "far");
    hub.client
        .send("GET", NODES, &with, "")
        .await
        .refused(403, "node_mismatch");
    send(node.asks(&here, now, "n9"))
        .await
        .refused(403, "node_mismatch");
    for forged in [
        "sbn_",
        "sbn_00.00",
        &header["Bearer ".len()..header.len() - 1],
    ] {
        let header = format!("Bearer {forged}");
        let with = [("authorization", header.as_str())];
        hub.client
            .send("GET", NODES, &with, "")
            .await
            .refused(401, "unauthenticated");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn invites_and_tickets_end_and_count_at_every_coordinator() {
    let ledger = Ledger::new();
    let (here, _) = ledger
        .coordinator_as(|config| config.auth = AuthMode::Hmac)
        .await;
    let (there, _) = ledger
        .coordinator_as(|config| config.auth = AuthMode::Hmac)
        .await;
    let token = steward(&here).await;
    let invite = async |seconds: u32| {
        let body = json!({ "ttlSeconds": seconds });
        bearer(here.client, "POST", "/runtime/v1/invites", &token, body).await
    };
    assert_eq!(
        invite(299).await.refused(400, "invalid_operation")["field"],
        "ttlSeconds"
    );
    let (one, other) = (invite(300).await.expect(201), invite(900).await.expect(201));
    assert_eq!(
        text(&one, "expiresAt"),
        IsoTime(START.0 + 300_000).to_string()
    );
    let node = Stranger::new("far", 1);
    ledger.clock.advance(Duration::from_secs(301));
    let late = node
        .exchange(there.client, &text(&one, "inviteToken"), "n")
        .await;
    late.refused(401, "expired_invite");
    let given = node
        .exchange(there.client, &text(&other, "inviteToken"), "n")
        .await;
    let header = format!("Bearer {}", text(&given.expect(200), "ticket"));
    let with = [("authorization", header.as_str())];
    here.client.send("GET", NODES, &with, "").await.expect(200);
    ledger.clock.advance(Duration::from_secs(61));
    // Word of the time comes with the next change.
    invite(300).await.expect(201);
    here.client
        .send("GET", NODES, &with, "")
        .await
        .refused(401, "unauthenticated");
    here.running.shutdown().await;
    there.running.shutdown().await;
}

/// A person at the machine itself, who need not look at the certificate.
async fn over_tls(method: &str, url: &str) -> Value {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true);
    let method = method.parse::<reqwest::Method>().unwrap();
    let request = http.build().unwrap().request(method, url);
    let answer = request.send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

#[tokio::test]
async fn with_tls_an_invite_names_the_certificate_and_no_other_is_trusted() {
    let tls = start_as(|config| config.http.tls = Tls::SelfSigned).await;
    let other = start_as(|config| config.http.tls = Tls::SelfSigned).await;
    let plain = start().await;
    let running = &tls.running;
    let own = running
        .hub
        .read(|reader| reader.gateway())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(&own.key, NodeKey(seed) if seed.len() == 64));
    let made = over_tls("POST", &format!("{}/runtime/v1/invites", running.url())).await;
    let token = text(&made, "inviteToken");
    assert_eq!(token.matches('.').count(), 1, "{token}");
    let wrong = join(&plain, &other, &token, None).await;
    assert_eq!(wrong.refused(409, "join_failed")["reason"], "unreachable");
    let body = json!({ "url": running.url().replace("https", "http"), "inviteToken": token });
    let without = plain.client.post("/runtime/v1/nodes/join", body).await;
    assert_eq!(without.refused(400, "invalid_operation")["field"], "url");
    let joined = join(&plain, &tls, &token, None).await.expect(200);
    assert_eq!(joined["node"]["nodeId"], own.node_id.as_str());
    let id = self::own(plain.client).await;
    let left = plain
        .client
        .post(&format!("{NODES}/{id}/leave"), json!({}))
        .await;
    left.expect(200);
    let nodes = over_tls("GET", &format!("{}{NODES}", running.url())).await;
    assert_eq!(nodes["nodes"], json!([]), "told over TLS");
    for hub in [tls, other, plain] {
        hub.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_join_that_cannot_be_is_told_precisely() {
    let (a, b) = (start().await, start().await);
    let good = invite(a.client).await;
    let send = async |body: Value| b.client.post("/runtime/v1/nodes/join", body).await;
    let url = a.running.url();
    for (body, field) in [
        (json!({ "url": url }), "inviteToken"),
        (json!({ "inviteToken": good }), "url"),
        (json!({ "url": "hub", "inviteToken": good }), "url"),
        (json!({ "url": url, "inviteToken": "sbi_1" }), "inviteToken"),
        (
            json!({ "url": url, "inviteToken": good, "endpoint": "x" }),
            "endpoint",
        ),
    ] {
        let told = send(body.clone()).await.refused(400, "invalid_operation");
        assert_eq!(told["field"], field, "{body}");
    }
    let unknown = format!("sbi_{}", "0".repeat(64));
    let told = send(json!({ "url": url, "inviteToken": unknown })).await;
    assert_eq!(told.refused(409, "join_failed")["reason"], "invalid_invite");
    let nobody = send(json!({ "url": "http://127.0.0.1:9", "inviteToken": good })).await;
    assert_eq!(nobody.refused(409, "join_failed")["reason"], "unreachable");
    let itself = json!({ "url": url, "inviteToken": good });
    let itself = a.client.post("/runtime/v1/nodes/join", itself).await;
    assert_eq!(
        itself.refused(409, "join_failed")["reason"],
        "node_mismatch"
    );
    for path in ["nobody", "nobody/leave"] {
        let method = if path == "nobody" { "GET" } else { "POST" };
        let answer = b
            .client
            .send(method, &format!("{NODES}/{path}"), &[], "")
            .await;
        answer.refused(404, "not_found");
    }
    assert!(known(a.client).await.is_empty() && known(b.client).await.is_empty());
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn an_invite_is_made_once_under_its_key_and_auth_calls_are_counted() {
    let hub = start_as(|config| config.limits.enabled = true).await;
    let with = [("idempotency-key", "k1")];
    let make = async || {
        let answer = hub
            .client
            .with("POST", "/runtime/v1/invites", &with, json!({}))
            .await;
        answer.expect(201)
    };
    assert_eq!(make().await, make().await);
    for call in 0..31 {
        let path = if call % 2 == 0 { EXCHANGE } else { TICKET };
        let answer = hub.client.send("POST", path, &[], "{}").await;
        match call {
            30 => drop(answer.refused(429, "rate_limited")),
            _ => drop(answer.refused(400, "invalid_operation")),
        }
    }
    hub.running.shutdown().await;
}
