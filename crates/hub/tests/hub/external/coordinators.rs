//! External agents at several coordinators of one ledger, and over time.

use std::time::Duration;

use serde_json::json;
use switchboard_core::limits;

use super::kit::{ALL, Far, INVOKE, REVOKE, fresh, send, text};
use crate::coordinators::waiting;
use crate::harness::SOON;
use crate::world::{Ledger, START, eventually};

fn far() -> Far {
    Far {
        now: || START.0,
        ..Far::new("far", 1)
    }
}

#[tokio::test]
async fn a_proof_counts_once_at_all_coordinators_together() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    let far = far();
    let access = text(&far.admitted(here.client, ALL).await, "accessToken");
    for round in 0..8 {
        // The same proof and the same call, at both at once: so it names the address of neither.
        let mut proof = far.proof(here.client, INVOKE, Some(&access));
        proof.claims["htu"] = "http://localhost/ansible/agent/invoke".into();
        let (proof, host) = (far.sign(&proof), ("host", "localhost"));
        let body = json!({ "operation": "ansible_status", "nonce": fresh("n") }).to_string();
        let shown = format!("DPoP {access}");
        let headers = [host, ("dpop", &*proof), ("authorization", &*shown)];
        let (one, two) = tokio::join!(
            here.client.send("POST", INVOKE, &headers, body.clone()),
            there.client.send("POST", INVOKE, &headers, body.clone()),
        );
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(
            statuses,
            [200, 409],
            "round {round}: {} {}",
            one.text,
            two.text
        );
    }
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn what_is_revoked_there_ends_here_also_while_it_waits() {
    let ledger = Ledger::new();
    let (here, _) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    let far = far();
    let tokens = far.admitted(here.client, ALL).await;
    let access = text(&tokens, "accessToken");
    let body =
        json!({ "operation": "ansible_claim_task", "args": { "wait": 60 }, "nonce": fresh("n") });
    let mut proof = far.proof(here.client, INVOKE, Some(&access));
    // The clock is moved while it is made.
    proof.claims["iat"] = (START.0 / 1000 + 1).into();
    let (proof, token, client) = (far.sign(&proof), access.clone(), here.client);
    let call = async move { send(client, INVOKE, Some(&token), &proof, &body).await };
    let waits = waiting(&ledger, &here, "far", call).await;
    there
        .client
        .post(REVOKE, json!({ "agentId": "far" }))
        .await
        .expect(200);
    let ended = tokio::time::timeout(SOON, waits)
        .await
        .expect("it ends")
        .unwrap();
    ended.refused(401, "invalid_access_token");
    let gone = far
        .invoke(here.client, &access, "ansible_status", json!({}))
        .await;
    gone.refused(401, "invalid_access_token");
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn tokens_end_with_the_ledgers_time_and_the_agent_falls_silent() {
    let ledger = Ledger::new();
    let (hub, _) = ledger.coordinator().await;
    let far = far();
    let tokens = far.admitted(hub.client, ALL).await;
    let access = text(&tokens, "accessToken");
    let task = hub.client.task("held").await;
    far.invoke(
        hub.client,
        &access,
        "ansible_claim_task",
        json!({ "taskId": task }),
    )
    .await
    .expect(200);
    let mut late = far;
    late.now = || START.0 + 900_000;
    // A hub that is served all the time: the clock goes on in steps that are no outage.
    for _ in 0..100 {
        ledger.clock.advance(Duration::from_secs(9));
        hub.client.get("/api/v1/status").await.expect(200);
        hub.client.task("time goes on").await;
    }
    let ended = late
        .invoke(hub.client, &access, "ansible_status", json!({}))
        .await;
    ended.refused(401, "expired_access_token");
    ledger.clock.advance(Duration::from_secs(9));
    eventually(async || {
        hub.client.task("more time").await;
        let shown = hub
            .client
            .get(&format!("/api/v1/tasks/{task}"))
            .await
            .expect(200);
        shown["task"]["status"] == "ready"
    })
    .await;
    let next = late
        .refresh(hub.client, &text(&tokens, "refreshToken"))
        .await
        .expect(200);
    let access = text(&next, "accessToken");
    late.invoke(hub.client, &access, "ansible_status", json!({}))
        .await
        .expect(200);
    assert_eq!(limits::ACCESS_FOR_MAX, Duration::from_secs(900));
    hub.running.shutdown().await;
}
