//! External agents at several coordinators of one ledger, and over time.

use std::time::Duration;

use serde_json::json;
use switchboard_core::{Timestamp, limits};
use switchboard_wire::runtime::jose::PERIOD_SECONDS;

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

/// The moment from which another key signs.
const TURN: i64 = (START.0 / (1000 * PERIOD_SECONDS) + 1) * 1000 * PERIOD_SECONDS;

#[tokio::test]
async fn what_the_key_before_signed_counts_until_it_ends() {
    let ledger = Ledger::new();
    ledger.clock.set(Timestamp(TURN - 60_000));
    let (hub, _) = ledger.coordinator().await;
    let mut far = Far {
        now: || TURN - 60_000,
        ..Far::new("far", 1)
    };
    let tokens = far.admitted(hub.client, ALL).await;
    let before = text(&tokens, "accessToken");
    let wait = async |steps: u32| {
        for _ in 0..steps {
            ledger.clock.advance(Duration::from_secs(9));
            hub.client.task("time goes on").await;
        }
    };
    let invoke = async |far: &Far, token: &str| {
        far.invoke(hub.client, token, "ansible_status", json!({}))
            .await
    };
    wait(10).await;
    far.now = || TURN + 30_000;
    invoke(&far, &before).await.expect(200);
    let refresh = text(&tokens, "refreshToken");
    let next = far.refresh(hub.client, &refresh).await.expect(200);
    let after = text(&next, "accessToken");
    let header = |token: &str| token.split('.').next().map(str::to_owned);
    assert_ne!(header(&before), header(&after), "another key signs");
    invoke(&far, &after).await.expect(200);
    wait(91).await;
    far.now = || TURN + 849_000;
    let ended = invoke(&far, &before).await;
    ended.refused(401, "expired_access_token");
    invoke(&far, &after).await.expect(200);
    hub.running.shutdown().await;
}
