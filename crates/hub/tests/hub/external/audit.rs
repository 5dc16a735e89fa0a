//! The audit: over all nodes, in pages, and bounded where it is about refusals.

use serde_json::{Value, json};
use switchboard_core::limits;

use super::kit::{ALL, AUDIT, Far, INVOKE, fresh, text};
use crate::harness::{Client, start};
use crate::nodes::{invite, join, own};

async fn read(client: Client, query: &str) -> Value {
    client.get(&format!("{AUDIT}?{query}")).await.expect(200)
}

#[tokio::test]
async fn one_story_over_all_nodes_and_who_does_not_answer_is_named() {
    let (a, b) = (start().await, start().await);
    let (a_id, b_id) = (own(a.client).await, own(b.client).await);
    let token = invite(a.client).await;
    join(&b, &a, &token, Some(b.running.url()))
        .await
        .expect(200);
    let far = Far::new("far", 1);
    let access = text(&far.admitted(a.client, ALL).await, "accessToken");
    far.invoke(a.client, &access, "ansible_status", json!({}))
        .await
        .expect(200);
    let elsewhere = text(&far.admitted(b.client, ALL).await, "accessToken");
    far.invoke(b.client, &elsewhere, "ansible_fly", json!({}))
        .await
        .refused(403, "scope_denied");

    let story = read(a.client, "agentId=far").await;
    let told: Vec<(&str, &str)> = story["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["nodeId"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (&*a_id, "exchange"),
            (&*a_id, "ansible_status"),
            (&*b_id, "exchange"),
            (&*b_id, "invoke")
        ]
    );
    assert_eq!(story["entries"][3]["code"], "scope_denied");
    assert_eq!(
        story["entries"][3]["sessionId"],
        read(b.client, "own=true&agentId=far").await["entries"][0]["sessionId"]
    );
    assert_eq!(story["unanswered"], json!([]));
    assert_eq!(story["unasked"], json!([]));
    // The same in pages.
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let page = read(a.client, &format!("agentId=far&limit=1{after}")).await;
        pages.extend(page["entries"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(&json!(pages), &story["entries"]);
    b.running.shutdown().await;
    let story = read(a.client, "agentId=far").await;
    assert_eq!(story["entries"].as_array().unwrap().len(), 2);
    assert_eq!(story["unanswered"][0]["nodeId"], *b_id);
    a.running.shutdown().await;
}

#[tokio::test]
async fn a_node_without_an_endpoint_is_not_asked_and_not_said_to_be_silent() {
    let (a, b) = (start().await, start().await);
    let b_id = own(b.client).await;
    let token = invite(a.client).await;
    join(&b, &a, &token, None).await.expect(200);
    let here = read(a.client, "agentId=far").await;
    assert_eq!(here["unanswered"], json!([]));
    assert_eq!(here["unasked"], json!([b_id]));
    let there = read(b.client, "agentId=far").await;
    assert_eq!(there["unanswered"], json!([]));
    assert_eq!(
        there["unasked"],
        json!([]),
        "it asks the one that it joined"
    );
    a.running.shutdown().await;
    b.running.shutdown().await;
}

#[tokio::test]
async fn what_no_scope_allows_is_told_with_what_it_was_about() {
    let hub = start().await;
    let far = Far::new("far", 1);
    let tokens = far.admitted(hub.client, &["ansible.status.read"]).await;
    let access = text(&tokens, "accessToken");
    let task = hub.client.task("not for it").await;
    let shown = hub.client.get(&format!("/api/v1/tasks/{task}")).await;
    let corr_id = text(&shown.expect(200)["task"], "corrId");
    for (operation, args, context, told) in [
        (
            "ansible_send_message",
            json!({ "corrId": "corr_1" }),
            None,
            Some("corr_1"),
        ),
        (
            "ansible_fly",
            json!({ "corrId": "corr_2" }),
            None,
            Some("corr_2"),
        ),
        (
            "ansible_read_messages",
            json!({}),
            Some("corr_3"),
            Some("corr_3"),
        ),
        (
            "ansible_claim_task",
            json!({ "taskId": task }),
            None,
            Some(&*corr_id),
        ),
        (
            "ansible_send_message",
            json!({ "corrId": "a b" }),
            None,
            None,
        ),
        ("ansible_send_message", json!([1]), None, None),
    ] {
        let body = json!({ "operation": operation, "args": args, "contextId": context, "nonce": fresh("n") });
        let refused = far.call(hub.client, INVOKE, &access, &body).await;
        refused.refused(403, "scope_denied");
        let story = read(hub.client, "agentId=far").await;
        let entry = story["entries"].as_array().unwrap().last().unwrap();
        assert_eq!(entry["code"], "scope_denied");
        assert_eq!(entry["corrId"].as_str(), told, "{operation} {args}");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn refusals_are_written_so_often_a_minute_and_then_counted() {
    let hub = start().await;
    let far = Far::new("far", 1);
    let most = limits::AUDITED_REFUSALS_PER_MINUTE as usize;
    for _ in 0..most + 5 {
        far.exchange(hub.client, "sbi_")
            .await
            .refused(401, "invalid_invite");
    }
    let told = read(hub.client, "limit=1000").await;
    assert_eq!(told["entries"].as_array().unwrap().len(), most);
    hub.running.shutdown().await;
}
