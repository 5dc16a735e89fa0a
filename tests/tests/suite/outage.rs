//! The hub was away for ten minutes; nobody is blamed for it.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::json;
use switchboard_tests::{API, Project, until};

const TEN_MINUTES_MS: i64 = 10 * 60 * 1000;

#[test]
fn after_ten_minutes_without_a_hub_nobody_is_dead_and_no_retry_is_spent() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    ["holder", "idler"]
        .iter()
        .for_each(|agent| client.register(agent));
    client.create("held");
    let claimed = client.claim("holder").expect("there is a task");
    let lease = json!({"agentId": "holder", "taskId": "held", "filePath": "src/a.rs", "durationMs": 3_600_000});
    let lease = client
        .post(&format!("{API}/leases/acquire"), &lease)
        .expect(200);
    hub.stop();

    // As if the hub had stopped ten minutes ago, and nobody had been heard of since.
    let db = Connection::open(project.database()).expect("the file can be opened");
    // As the hub itself writes, not by hand.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .expect("triggers can be switched off");
    let back = |sql: &str| {
        let changed = db
            .execute(sql, [TEN_MINUTES_MS])
            .expect("the clock can be set back");
        assert!(changed > 0, "{sql}");
    };
    back(
        "UPDATE sb_head SET served_at = served_at - ?1, last_at = last_at - ?1, floor = floor - ?1,
           clock_at = clock_at - ?1, clock_wall = clock_wall - ?1, clock_boot = ''",
    );
    back("UPDATE agents SET seen_at = seen_at - ?1");
    drop(db);

    let hub = project.start();
    let mut client = hub.client();
    // The first thing a caretaker does is to look for whoever is silent.
    const SERVE_AND_ALL_CARETAKERS: u64 = 5;
    until("the caretaker has looked at everything once", || {
        (client.figure("switchboard_verbs_total") >= SERVE_AND_ALL_CARETAKERS).then_some(())
    });
    let status = client.status();
    assert_eq!(status["agents"]["offline"], 0, "{status}");
    let task = client.task("held");
    let holds = [
        &task["status"],
        &task["assignedAgent"],
        &task["epoch"],
        &task["retryCount"],
    ];
    assert_eq!(
        holds,
        [
            &json!("claimed"),
            &json!("holder"),
            &claimed["epoch"],
            &json!(0)
        ]
    );
    let leases = client.get(&format!("{API}/leases")).expect(200);
    assert_eq!(
        leases["leases"][0]["fencingToken"], lease["lease"]["fencingToken"],
        "{leases}"
    );
    for (agent, status) in [("holder", "busy"), ("idler", "idle")] {
        let path = format!("{API}/agents/{agent}/heartbeat");
        let answer = client
            .post(&path, &json!({"agentId": agent, "status": status}))
            .expect(200);
        assert!(
            answer["commands"].as_array().is_none_or(Vec::is_empty),
            "{answer}"
        );
    }
    client.complete(
        "holder",
        "held",
        claimed["epoch"].as_u64().expect("a claim has an epoch"),
    );
    let events = client.events();
    let happened = |kind: &str| events.iter().any(|event| event["type"] == kind);
    assert!(
        happened("outage_ended"),
        "the hub did not notice that it was away"
    );
    for never in [
        "agent_silent",
        "task_requeued",
        "lease_expired",
        "agent_returned",
    ] {
        assert!(!happened(never), "{never}");
    }
    hub.stop();
}
