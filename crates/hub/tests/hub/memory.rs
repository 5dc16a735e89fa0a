//! The memory over HTTP: what agents learned and what engrams tell, found together.

use serde_json::json;
use switchboard_core::engram::{Budget, Budgets, Scope};
use switchboard_core::verb::KeepEngram;
use switchboard_core::{Engram, EngramEntry, Timestamp};

use crate::harness::{result, start};

fn engram(words: &str) -> KeepEngram {
    let body = "{}\n";
    let budget = Budget {
        bytes_max: 1000,
        files_max: 10,
    };
    KeepEngram {
        engram: Engram {
            entry: EngramEntry {
                id: "e_1".into(),
                scope: Scope::LongTerm,
                version: "20260212-000000Z".to_owned(),
                created_at: Timestamp(1_770_854_400_000),
                hash: "sha256:0".to_owned(),
                bytes: body.len() as u64,
                topics: vec!["parser".to_owned()],
                from_seq: 1,
                to_seq: 2,
            },
            body: body.into(),
            words: words.into(),
        },
        after: 0,
        instead_of: Vec::new(),
        fence: None,
        budgets: Budgets {
            short_term: budget,
            long_term: budget,
        },
    }
}

#[tokio::test]
async fn learnings_and_engrams_are_found_together_each_marked_as_what_it_is() {
    let hub = start().await;
    let client = hub.client;
    client.register("a1", &[]).await;
    let id = client.task("T").await;
    client.claim("a1").await;
    let mut outcome = result("x");
    outcome["learnings"] = json!(["the parser needs a larger buffer"]);
    let body = json!({ "agentId": "a1", "result": outcome });
    client
        .post(&format!("/api/v1/tasks/{id}/complete"), body)
        .await
        .expect(200);
    let told = "done: #7 Parser: a larger Buffer\nfailed: #8 Login: no cookie\nparser";
    hub.running.hub.run(engram(told)).await.unwrap();
    let found = client
        .get("/api/v1/memory/search?q=larger%20buffer")
        .await
        .expect(200);
    assert_eq!(found["learnings"][0]["kind"], "learning");
    assert_eq!(found["learnings"][0]["taskId"], id);
    assert_eq!(
        found["engrams"],
        json!([{
            "kind": "engram",
            "id": "e_1",
            "scope": "lt",
            "version": "20260212-000000Z",
            "path": "memory/lt/20260212-000000Z/engram_e_1.json",
            "topics": ["parser"],
            "lines": ["done: #7 Parser: a larger Buffer"],
            "createdAt": "2026-02-12T00:00:00.000Z",
        }])
    );
    let other = client
        .get("/api/v1/memory/search?q=cookie")
        .await
        .expect(200);
    assert_eq!(other["learnings"], json!([]));
    assert_eq!(
        other["engrams"][0]["lines"],
        json!(["failed: #8 Login: no cookie"])
    );
    hub.running.shutdown().await;
}
