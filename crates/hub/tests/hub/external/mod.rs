//! External agents over HTTP: invited, admitted with a key of their own, at work, sent away.

mod audit;
mod bad_input;
mod coordinators;
pub mod kit;

use serde_json::{Value, json};
use switchboard_hub::data_dir::Keys;

use crate::harness::{Client, start};
use crate::world::eventually;
use kit::{ALL, AUDIT, Far, REVOKE, SESSIONS, fresh, invite, send, text};

async fn audit(client: Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("{AUDIT}?{query}")).await.expect(200);
    answer["entries"].as_array().unwrap().clone()
}

fn operations(entries: &[Value]) -> Vec<String> {
    let shown = |entry: &Value| format!("{} {}", text(entry, "operation"), text(entry, "outcome"));
    entries.iter().map(shown).collect()
}

#[tokio::test]
async fn an_external_agent_claims_and_completes_a_task_of_a_jetpack_agent() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    client.register("near", &[]).await;
    let task = client.task("from afar").await;
    let tokens = far.admitted(client, ALL).await;
    let access = text(&tokens, "accessToken");
    assert_eq!(tokens["grantedScopes"].as_array().unwrap().len(), ALL.len());

    let claimed = far.invoke(
        client,
        &access,
        "ansible_claim_task",
        json!({ "taskId": task }),
    );
    let claimed = claimed.await.expect(200);
    assert_eq!(claimed["result"]["task"]["assignedAgent"], "far");
    assert_eq!(claimed["sessionId"], tokens["sessionId"]);
    let epoch = &claimed["result"]["task"]["epoch"];
    let update = json!({ "taskId": task, "progress": 60, "note": "halfway", "epoch": epoch });
    far.invoke(client, &access, "ansible_update_task", update)
        .await
        .expect(200);
    let done = json!({ "taskId": task, "resultSummary": "it is done", "epoch": epoch });
    let done = far
        .invoke(client, &access, "ansible_complete_task", done)
        .await
        .expect(200);
    assert_eq!(done["result"]["status"], "completed");
    let shown = client
        .get(&format!("/api/v1/tasks/{task}"))
        .await
        .expect(200);
    assert_eq!(shown["task"]["result"]["summary"], "it is done");

    let late = json!({ "taskId": task, "resultSummary": "once more" });
    far.invoke(client, &access, "ansible_complete_task", late)
        .await
        .refused(409, "task_already_claimed");

    // A message each way, acknowledged.
    let said = json!({ "toAgents": ["near"], "subject": "hello", "body": "from afar" });
    far.invoke(client, &access, "ansible_send_message", said)
        .await
        .expect(200);
    let mail = client
        .get("/api/v1/messages?agentId=near")
        .await
        .expect(200);
    assert_eq!(mail["messages"][0]["from"], "far");
    let back = json!({ "agentId": "near", "message": { "to": "far", "type": "custom", "ackRequired": true } });
    client.post("/api/v1/messages", back).await.expect(200);
    let mail = far
        .invoke(client, &access, "ansible_read_messages", json!({}))
        .await
        .expect(200);
    let message = mail["result"]["messages"][0]["id"].clone();
    let ack = json!({ "messageId": message });
    far.invoke(client, &access, "ansible_mark_read", ack)
        .await
        .expect(200);
    let state = client
        .get(&format!("/api/v1/messages/{}", message.as_str().unwrap()))
        .await;
    assert_eq!(state.expect(200)["deliveries"][0]["state"], "acknowledged");

    for (operation, args) in [
        ("ansible_status", json!({})),
        ("ansible_list_agents", json!({})),
        ("ansible_find_task", json!({ "taskId": task })),
        ("ansible_find_task", json!({ "status": ["completed"] })),
    ] {
        far.invoke(client, &access, operation, args)
            .await
            .expect(200);
    }

    let corr_id = text(&shown["task"], "corrId");
    let told = audit(client, &format!("corrId={corr_id}")).await;
    assert_eq!(
        operations(&told),
        [
            "ansible_claim_task allowed",
            "ansible_update_task allowed",
            "ansible_complete_task allowed",
            "ansible_complete_task refused",
            "ansible_find_task allowed"
        ]
    );
    let session = text(&tokens, "sessionId");
    let told = audit(client, &format!("sessionId={session}")).await;
    assert_eq!(told.len(), 12, "{told:#?}");
    assert_eq!(told[0]["operation"], "exchange");
    assert!(told.iter().all(|entry| entry["actor"] == "far"));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_copied_token_is_worth_nothing() {
    let hub = start().await;
    let (client, far, thief) = (hub.client, Far::new("far", 1), Far::new("thief", 2));
    let tokens = far.admitted(client, ALL).await;
    let access = text(&tokens, "accessToken");
    let stolen = thief
        .invoke(client, &access, "ansible_status", json!({}))
        .await;
    stolen.refused(401, "invalid_proof");
    let session = text(&tokens, "sessionId");
    let told = audit(client, &format!("sessionId={session}")).await;
    assert_eq!(told.last().unwrap()["code"], "invalid_proof", "{told:#?}");
    let proof = far.sign(&far.proof(client, kit::INVOKE, Some(&access)));
    let body = json!({ "operation": "ansible_status", "nonce": fresh("n") });
    send(client, kit::INVOKE, Some(&access), &proof, &body)
        .await
        .expect(200);
    let again = json!({ "operation": "ansible_status", "nonce": fresh("n") });
    let replayed = send(client, kit::INVOKE, Some(&access), &proof, &again).await;
    replayed.refused(409, "replay_detected");
    let proof = far.sign(&far.proof(client, kit::INVOKE, Some(&access)));
    let replayed = send(client, kit::INVOKE, Some(&access), &proof, &body).await;
    replayed.refused(409, "replay_detected");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_refresh_token_counts_once_and_its_family_ends_when_it_comes_again() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let first = far.admitted(client, ALL).await;
    let second = far
        .refresh(client, &text(&first, "refreshToken"))
        .await
        .expect(200);
    assert_ne!(first["refreshToken"], second["refreshToken"]);
    let access = text(&second, "accessToken");
    far.invoke(client, &access, "ansible_status", json!({}))
        .await
        .expect(200);
    let again = far.refresh(client, &text(&first, "refreshToken")).await;
    again.refused(401, "invalid_refresh_token");
    let gone = far
        .invoke(client, &access, "ansible_status", json!({}))
        .await;
    gone.refused(401, "invalid_access_token");
    let gone = far.refresh(client, &text(&second, "refreshToken")).await;
    gone.refused(401, "invalid_refresh_token");
    let incidents = client.get("/api/v1/incidents").await.expect(200);
    assert_eq!(incidents["incidents"][0]["kind"], "refresh_token_reused");
    let ended = client
        .get(&format!("{SESSIONS}?ended=true"))
        .await
        .expect(200);
    assert_eq!(ended["sessions"][0]["reason"], "refresh_token_reused");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_was_revoked_no_longer_works() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let [one, two] = [
        far.admitted(client, ALL).await,
        far.admitted(client, ALL).await,
    ];
    let task = client.task("to be left").await;
    let access = text(&two, "accessToken");
    far.invoke(
        client,
        &access,
        "ansible_claim_task",
        json!({ "taskId": task }),
    )
    .await
    .expect(200);
    let live = client
        .get(&format!("{SESSIONS}?agentId=far"))
        .await
        .expect(200);
    assert_eq!(live["sessions"].as_array().unwrap().len(), 2);
    client
        .post(REVOKE, json!({ "sessionId": one["sessionId"] }))
        .await
        .expect(200);
    let gone = far
        .invoke(
            client,
            &text(&one, "accessToken"),
            "ansible_status",
            json!({}),
        )
        .await;
    gone.refused(401, "invalid_access_token");
    far.invoke(client, &access, "ansible_status", json!({}))
        .await
        .expect(200);
    let revoked = client
        .post(REVOKE, json!({ "agentId": "far" }))
        .await
        .expect(200);
    assert_eq!(revoked["revoked"][0]["reason"], "revoked");
    let gone = far
        .invoke(client, &access, "ansible_status", json!({}))
        .await;
    gone.refused(401, "invalid_access_token");
    let shown = client
        .get(&format!("/api/v1/tasks/{task}"))
        .await
        .expect(200);
    assert_eq!(shown["task"]["status"], "ready", "what it held goes back");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn one_invite_is_one_session() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let invite = invite(client, "far", ALL).await;
    let stranger = Far::new("stranger", 3);
    stranger
        .exchange(client, &invite)
        .await
        .refused(401, "invalid_invite");
    let (one, two) = tokio::join!(far.exchange(client, &invite), far.exchange(client, &invite));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    far.exchange(client, &invite)
        .await
        .refused(409, "invite_used");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_token_that_was_shown_before_ends_with_the_master_key() {
    let hub = start().await;
    let (client, far) = (hub.client, Far::new("far", 1));
    let access = text(&far.admitted(client, ALL).await, "accessToken");
    let call = async || {
        far.invoke(client, &access, "ansible_status", json!({}))
            .await
    };
    for _ in 0..2 {
        call().await.expect(200);
    }
    Keys::of(hub.running.data_dir()).keep_own(&[9; 32]).unwrap();
    eventually(async || call().await.status == 401).await;
    call().await.refused(401, "invalid_access_token");
    hub.running.shutdown().await;
}
