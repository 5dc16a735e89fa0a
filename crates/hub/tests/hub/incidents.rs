//! Incidents over HTTP: opened by the hub, listed page by page, resolved by a person, the same on every coordinator.

use serde_json::json;
use switchboard_core::verb::BeginEpoch;

use crate::harness::TestHub;
use crate::world::{Ledger, World};

/// The ledger is said to have lost something, so many times.
async fn rewind(hub: &TestHub, world: &World, times: u64) {
    for told in 0..times {
        *world.0.rewound.lock().unwrap() = Some(BeginEpoch { told, common: 0 });
        hub.client.task("afterwards").await;
    }
}

async fn ids(hub: &TestHub, query: &str) -> (Vec<String>, serde_json::Value) {
    let path = format!("/api/v1/incidents{query}");
    let page = hub.client.get(&path).await.expect(200);
    let incidents = page["incidents"].as_array().expect("a list").iter();
    let ids = incidents.map(|row| row["id"].as_str().expect("an id").to_owned());
    (ids.collect(), page["next"].clone())
}

#[tokio::test]
async fn an_incident_is_open_until_a_person_resolves_it() {
    let ledger = Ledger::new();
    let (here, world) = ledger.coordinator().await;
    let (there, _) = ledger.coordinator().await;
    rewind(&here, &world, 1).await;
    let status = there.client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["incidents"], 1);
    assert_eq!(ids(&there, "").await.0, ["ledger_rewound:epoch 2"]);

    let path = "/api/v1/incidents/ledger_rewound:epoch%202/resolve";
    let answer = there.client.post(path, json!({ "reason": "seen" })).await;
    let resolved = answer.expect(200)["incident"].clone();
    assert_eq!(resolved["count"], 1);
    assert_eq!(resolved["resolved"]["by"], "steward");
    assert_eq!(resolved["resolved"]["why"], "seen");
    assert!(ids(&here, "").await.0.is_empty());
    let history = ids(&here, "?state=resolved").await.0;
    assert_eq!(history, [resolved["id"].as_str().expect("an id")]);
    let again = here.client.post(path, json!({})).await;
    again.refused(404, "not_found");
    let events = "/api/v1/events?types=incident_opened,incident_resolved&after=0";
    let events = here.client.get(events).await.expect(200);
    assert_eq!(events["events"][0]["kind"], "ledger_rewound");
    assert_eq!(events["events"][1]["by"], "steward");
    here.running.shutdown().await;
    there.running.shutdown().await;
}

#[tokio::test]
async fn incidents_are_listed_page_by_page() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    rewind(&hub, &world, 5).await;
    let (all, next) = ids(&hub, "").await;
    assert_eq!((all.len(), next), (5, json!(null)));
    let mut found = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let (page, next) = ids(&hub, &query).await;
        assert!(page.len() <= 2);
        found.extend(page);
        let Some(next) = next.as_str() else { break };
        query = format!("?limit=2&after={}", next.replace(' ', "%20"));
    }
    assert_eq!(found, all);
    let wrong = hub.client.get("/api/v1/incidents?after=x").await;
    assert_eq!(wrong.refused(400, "invalid_operation")["field"], "after");
    hub.running.shutdown().await;
}
