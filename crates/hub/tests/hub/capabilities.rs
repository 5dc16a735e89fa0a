//! Capabilities of two hubs: published through gates, routed to, their skills installed, their failures reviewed.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use switchboard_wire::runtime::capability_from_wire::{checksum, signed};
use switchboard_wire::signature::to_hex;

use crate::exchange::{order, pair, publish};
use crate::harness::{Answer, Client, TestHub, result, start, start_as};
use crate::nodes::own;
use crate::world::eventually;

const CAPABILITIES: &str = "/runtime/v1/capabilities";

/// Puts a skill where the hub looks for it.
fn install(hub: &TestHub, name: &str, version: &str, smoke: Value) {
    let dir = hub.home.path().join(".switchboard/skills").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let skill = json!({ "name": name, "version": version, "smoke": smoke });
    std::fs::write(dir.join("skill.json"), skill.to_string()).unwrap();
}

fn manifest(version: &str) -> Value {
    json!({
        "capabilityId": "cap.fs.diff-apply", "name": "Filesystem Diff Apply", "version": version,
        "ownerAgentId": "ann", "defaultEtaSeconds": 900,
        "delegationSkillRef": { "name": "delegate-fs", "version": version, "path": "/skills/delegate-fs" },
        "executorSkillRef": { "name": "execute-fs", "version": version, "path": "/skills/execute-fs" },
        "contractSchemaRef": "schema://x/1",
        "contractSchema": { "type": "object", "required": ["patch"] },
    })
}

async fn offer(client: Client, manifest: Value) -> Answer {
    client.post(CAPABILITIES, manifest).await
}

async fn shown(client: Client) -> Value {
    let path = format!("{CAPABILITIES}/cap.fs.diff-apply");
    client.get(&path).await.expect(200)
}

fn outcomes(gates: &Value) -> Vec<&str> {
    let gates = gates.as_array().unwrap().iter();
    gates
        .map(|gate| gate["outcome"].as_str().unwrap())
        .collect()
}

async fn complete(client: Client, agent: &str, claimed: &Value, result: Value) -> Value {
    let id = claimed["task"]["id"].as_str().unwrap();
    let body =
        json!({ "agentId": agent, "taskId": id, "epoch": claimed["epoch"], "result": result });
    let path = format!("/api/v1/tasks/{}/complete", id.replace(':', "%3A"));
    client.post(&path, body).await.expect(200)
}

#[tokio::test]
async fn a_capability_of_one_hub_is_routed_to_from_the_other() {
    let (a, b) = pair().await;
    install(&a, "execute-fs", "1.0.0", json!("true"));
    let mut given = manifest("1.0.0");
    given["eligibleAgentIds"] = json!(["bob"]);
    let published = offer(a.client, given.clone()).await.expect(201);
    let gates = outcomes(&published["gates"]);
    assert_eq!(gates[..7], ["passed"; 7], "{published}");
    assert_eq!(gates[7..], ["skipped", "passed", "passed"], "{published}");
    offer(a.client, given).await.expect(200);
    eventually(async || {
        b.client
            .get(&format!("{CAPABILITIES}/cap.fs.diff-apply"))
            .await
            .status
            == 200
    })
    .await;
    let mut there = Value::Null;
    eventually(async || {
        there = shown(b.client).await["capability"].clone();
        there["index"]["eligibleAgentIds"] == json!(["ann", "bob"])
    })
    .await;
    assert_eq!(there["catalog"]["ownerNodeId"], *own(a.client).await);
    // Whoever joins reads the same of its owner's node, and only there.
    let of = async |client: Client| {
        let control = client.get("/runtime/v1/control").await.expect(200);
        let records = control["records"].as_array().unwrap().clone().into_iter();
        let ours = records.filter(|one| one["path"].as_str().unwrap().starts_with("capabilities."));
        ours.collect::<Vec<Value>>()
    };
    let records = of(a.client).await;
    for (at, kind) in ["catalog", "index", "routing"].into_iter().enumerate() {
        let record = &records[at];
        assert_eq!(
            record["path"],
            format!("capabilities.{kind}.cap.fs.diff-apply")
        );
        assert!(record["rev"].as_u64().unwrap() > 0, "{record}");
        assert_eq!(record["record"], there[kind], "{record}");
    }
    assert_eq!((records.len(), of(b.client).await), (3, vec![]));
    assert_eq!(there["catalog"]["status"], "active");
    let agent = b.client.get("/api/v1/agents/bob").await.expect(200);
    let skills = &agent["agent"]["capabilities"]["skills"];
    assert_eq!(skills, &json!(["cap.fs.diff-apply"]), "{agent}");

    // What bob is asked to install, he gets only by asking for it.
    assert_eq!(b.client.claim("bob").await["task"], Value::Null);
    let ask = json!({ "agentId": "bob", "filter": { "types": ["skill_distribution"] } });
    let mut claimed = Value::Null;
    eventually(async || {
        claimed = b
            .client
            .post("/api/v1/tasks/claim", ask.clone())
            .await
            .expect(200);
        claimed["success"] == true
    })
    .await;
    let mut done = result("installed");
    done["installed"] = json!({ "name": "delegate-fs", "version": "1.0.0" });
    let said = complete(b.client, "bob", &claimed, done).await;
    assert_eq!(said["status"], "completed", "{said}");

    // A task of the other hub goes to the owner's, whose result must be as the schema says.
    let task = json!({
        "kind": "task_create", "sourceAgentId": "bob", "eventId": "evt_t1",
        "payload": { "taskId": "t1", "title": "do it", "requiredCapabilities": ["cap.fs.diff-apply"], "requesterAgentId": "bob" },
    });
    let sent = publish(b.client, task).await.expect(201);
    assert_eq!(sent["nodeId"], *own(a.client).await);
    let outbox = b.client.get("/runtime/v1/outbox").await.expect(200);
    let events = outbox["events"].as_array().unwrap();
    let event = events
        .iter()
        .find(|event| event["eventId"] == "evt_t1")
        .unwrap();
    let policy = &event["trace"]["capabilityPolicyVersion"];
    assert_eq!(policy, &there["index"]["policyVersion"]);
    let mut claimed = Value::Null;
    eventually(async || {
        claimed = a.client.claim("ann").await;
        claimed["success"] == true
    })
    .await;
    let mut done = result("done");
    done["output"] = json!({ "diff": 1 });
    let said = complete(a.client, "ann", &claimed, done).await;
    assert_eq!(said["status"], "needs_review", "{said}");
    a.client
        .post("/api/v1/tasks/t1/approve", json!({}))
        .await
        .refused(400, "invalid_operation");
    let mut reviews = Value::Null;
    eventually(async || {
        reviews = a.client.get("/runtime/v1/reviews").await.expect(200)["reviews"].clone();
        reviews != json!([])
    })
    .await;
    assert_eq!(reviews[0]["failureClass"], "contract_violation");
    assert_eq!(reviews[0]["sampleCorrIds"], json!(["corr_evt_t1"]));
    let id = reviews[0]["reviewId"].as_str().unwrap();
    let path = format!("/runtime/v1/reviews/{id}/resolve");
    let note = json!({ "note": "the skill says patch now" });
    let resolved = a.client.post(&path, note.clone()).await.expect(200);
    assert_eq!(resolved["review"]["note"], note["note"]);
    a.client.post(&path, note).await.refused(404, "not_found");
    a.client
        .post("/api/v1/tasks/t1/reject", json!({ "reason": "no patch" }))
        .await
        .expect(200);
    let claimed = a.client.claim("ann").await;
    let mut done = result("done");
    done["output"] = json!({ "patch": "" });
    complete(a.client, "ann", &claimed, done).await;
    eventually(async || order(b.client, "evt_t1").await.is_some()).await;
    assert_eq!(order(b.client, "evt_t1").await.unwrap()["state"], "done");

    let path = format!("{CAPABILITIES}/cap.fs.diff-apply");
    let refused = b.client.delete(&path).await;
    refused.refused(400, "wrong_node");
    let gone = a.client.delete(&path).await.expect(200);
    assert_eq!(gone["capability"]["catalog"]["status"], "retired");
    eventually(async || shown(b.client).await["capability"]["catalog"]["status"] == "retired")
        .await;
    let agent = b.client.get("/api/v1/agents/bob").await.expect(200);
    assert_eq!(agent["agent"]["capabilities"]["skills"], json!([]));
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn each_gate_says_why_it_does_not_let_a_version_pass() {
    let hub = start().await;
    hub.client.register("ann", &[]).await;
    let why = async |given: Value, gate: &str, word: &str| {
        let said = offer(hub.client, given).await;
        let said = said.refused(409, "publish_failed");
        assert_eq!(said["reason"], *gate, "{said}");
        assert!(said["message"].as_str().unwrap().contains(word), "{said}");
        assert_eq!(said["gates"].as_array().unwrap().len(), 10);
    };
    why(manifest("1.0.0"), "install", "skill.json").await;
    install(&hub, "execute-fs", "0.9.0", Value::Null);
    why(manifest("1.0.0"), "install", "execute-fs 0.9.0").await;
    install(
        &hub,
        "execute-fs",
        "1.0.0",
        json!(["sh", "-c", "echo no luck >&2; exit 3"]),
    );
    why(manifest("1.0.0"), "smoke", "no luck").await;
    install(&hub, "execute-fs", "1.0.0", Value::Null);
    install(&hub, "delegate-fs", "1.0.0", json!("false"));
    why(manifest("1.0.0"), "rollout", "exit status: 1").await;
    install(&hub, "delegate-fs", "1.0.0", Value::Null);
    let with = |name: &str, value: Value| {
        let mut given = manifest("1.0.0");
        given[name] = value;
        given
    };
    why(
        with("ownerAgentId", json!("nobody")),
        "owner_alive",
        "nobody",
    )
    .await;
    let outward = json!({ "$ref": "http://127.0.0.1:1/x.json" });
    why(with("contractSchema", outward), "wire", "cannot be used").await;
    why(
        with("contractSchema", Value::Null),
        "wire",
        "schemas/x/1.json",
    )
    .await;
    let wrong = json!({ "manifestChecksum": format!("sha256:{}", "0".repeat(64)) });
    why(with("provenance", wrong), "provenance", "sha256:").await;
    for (name, value, field) in [
        ("capabilityId", json!("fs"), "capabilityId"),
        ("capabilityId", json!("cap.FS"), "capabilityId"),
        (
            "capabilityId",
            json!(format!("cap.{}", "x".repeat(61))),
            "capabilityId",
        ),
        ("version", json!("1"), "version"),
        ("defaultEtaSeconds", json!(29), "defaultEtaSeconds"),
        ("defaultEtaSeconds", json!(86_401), "defaultEtaSeconds"),
        (
            "executorSkillRef",
            json!({ "name": "../x", "version": "1.0.0" }),
            "executorSkillRef.name",
        ),
        (
            "name",
            json!("key ghp_0123456789abcdefghijABCDEFGHIJ012345"),
            "name",
        ),
        (
            "provenance",
            json!({ "manifestChecksum": "x" }),
            "provenance.manifestChecksum",
        ),
        ("eligibleAgentIds", json!(["nobody"]), "eligibleAgentIds"),
    ] {
        let said = offer(hub.client, with(name, value)).await;
        let said = said.refused(400, "invalid_operation");
        assert_eq!(said["field"], field, "{said}");
    }
    let known = shown(hub.client).await;
    assert_eq!(known.get("capability"), None, "nothing of it is in use");
    assert_eq!(known["releases"][0]["state"], "failed");
    for eta in [30, 86_400] {
        let mut given = with("defaultEtaSeconds", json!(eta));
        given["version"] = json!(format!("1.0.{eta}"));
        given["executorSkillRef"]["version"] = json!("1.0.0");
        offer(hub.client, given).await.expect(201);
    }
    let lower = offer(hub.client, manifest("1.0.0")).await;
    assert_eq!(lower.refused(400, "invalid_operation")["field"], "version");
    let mut other = with("name", json!("another"));
    other["version"] = json!("1.0.86400");
    offer(hub.client, other)
        .await
        .refused(409, "version_exists");
    let mut elsewhere = manifest("2.0.0");
    elsewhere["ownerNodeId"] = json!("node-elsewhere");
    offer(hub.client, elsewhere)
        .await
        .refused(400, "wrong_node");
    // Three tasks that go nowhere, though the capability is in use.
    let path = "/api/v1/agents/ann";
    hub.client.delete(path).await.expect(200);
    for n in 0..3 {
        let task = json!({
            "kind": "task_create", "payload": {
                "taskId": format!("t{n}"), "title": "do it", "requesterAgentId": "steward",
                "requiredCapabilities": ["cap.fs.diff-apply"],
            },
        });
        let said = publish(hub.client, task).await.refused(400, "no_route");
        assert_eq!(said["reason"], "capability_unavailable");
    }
    eventually(async || {
        let found = hub.client.get("/runtime/v1/reviews").await.expect(200);
        found["reviews"][0]["failureClass"] == "capability_unavailable"
    })
    .await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_signature_counts_by_the_key_of_its_publisher() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let key = to_hex(pair.public_key().as_ref());
    let hub = start_as(|config| {
        config.runtime.require_signature = true;
        config.runtime.publishers.insert("acme".to_owned(), key);
    })
    .await;
    hub.client.register("ann", &[]).await;
    install(&hub, "execute-fs", "1.0.0", Value::Null);
    let reason = async |given: Value| {
        let said = offer(hub.client, given).await;
        said.refused(409, "publish_failed")["message"].to_string()
    };
    let why = reason(manifest("1.0.0")).await;
    assert!(why.contains("require_signature"), "{why}");
    let sign = |key: &str, text: &str| {
        let mut given = manifest("1.0.0");
        given["provenance"] = json!({ "keyId": key });
        let bytes = signed(&given);
        let signature = pair.sign(format!("{bytes}{text}").as_bytes());
        let coded = STANDARD.encode(signature.as_ref());
        given["provenance"]["manifestChecksum"] = json!(checksum(&bytes));
        given["provenance"]["manifestSignature"] = json!(format!("ed25519:{coded}"));
        given
    };
    let why = reason(sign("other", "")).await;
    assert!(why.contains("has no key other"), "{why}");
    let why = reason(sign("acme", "x")).await;
    assert!(why.contains("is not one by the key acme"), "{why}");
    // Members of the call's envelope are none of the manifest's.
    let mut given = sign("acme", "");
    given["requestId"] = json!("r1");
    offer(hub.client, given).await.expect(201);
    hub.running.shutdown().await;
}
