//! Jobs over HTTP: made, listed, decided on by a person, and shown with all that happened.

use serde_json::{Value, json};
use switchboard_hub::config::Agent;

use crate::harness::{Client, TestHub, start, start_as};
use crate::world::eventually;

const JOBS: &str = "/api/v1/jobs";

async fn create(client: Client, spec: Value) -> Value {
    let made = client.post(JOBS, json!({ "job_spec": spec })).await;
    made.expect(201)["job"].clone()
}

async fn step(client: Client, id: &str, step: &str, body: Value) -> Value {
    let answer = client.post(&format!("{JOBS}/{id}/{step}"), body).await;
    answer.expect(200)["job"].clone()
}

async fn patch(hub: &TestHub, id: &str, body: Value) -> crate::harness::Answer {
    let path = format!("{JOBS}/{id}");
    hub.client.send("PATCH", &path, &[], body.to_string()).await
}

async fn ids(client: Client, query: &str) -> (Vec<String>, Value) {
    let page = client.get(&format!("{JOBS}{query}")).await.expect(200);
    let jobs = page["jobs"].as_array().expect("a list").iter();
    let ids = jobs.map(|job| job["job_id"].as_str().expect("an id").to_owned());
    (ids.collect(), page["next"].clone())
}

#[tokio::test]
async fn a_job_is_made_changed_and_moved_by_a_person() {
    let hub = start().await;
    let spec = json!({ "job_id": "j", "objective": "o", "phases": [{ "name": "a" }, { "name": "b" }], "mine": 1 });
    let job = create(hub.client, spec).await;
    assert_eq!(
        (&job["status"], &job["phase"]),
        (&json!("DRAFT"), &json!(0))
    );
    assert!(job["directory"].as_str().expect("a path").ends_with("/j"));
    // logist.manifest.required: the manifest has what the spec says, also what nobody knows.
    let whole = hub.client.get(&format!("{JOBS}/j")).await.expect(200)["job"].clone();
    assert_eq!(
        (&whole["objective"], &whole["mine"], &whole["current_phase"]),
        (&json!("o"), &json!(1), &json!("a"))
    );
    assert_eq!(
        (&whole["cost_threshold"], &whole["time_threshold_minutes"]),
        (&json!(1000), &json!(60))
    );
    assert_eq!(whole["metrics"]["cumulative_cost"], 0);

    assert_eq!(
        step(hub.client, "j", "activate", json!({ "rank": 0 })).await["status"],
        "PENDING"
    );
    let twice = hub
        .client
        .post(&format!("{JOBS}/j/activate"), json!({}))
        .await;
    assert_eq!(
        twice.refused(400, "invalid_operation")["reason"],
        "job_state"
    );
    let changed = patch(
        &hub,
        "j",
        json!({ "job_spec": { "cost_threshold": 50 }, "current_phase": "b" }),
    )
    .await;
    assert_eq!(changed.expect(200)["job"]["phase"], 1);
    let again = create(hub.client, json!({ "job_id": "j", "description": "d" })).await;
    assert_eq!(
        again["status"], "PENDING",
        "the one that is there is changed"
    );
    assert_eq!(
        step(hub.client, "j", "suspend", json!({ "reason": "lunch" })).await["status"],
        "SUSPENDED"
    );
    let strict = hub
        .client
        .get(&format!("{JOBS}/j?schema_version=1.0"))
        .await
        .expect(200)["job"]
        .clone();
    assert_eq!(
        (&strict["status"], &strict["status_detail"]),
        (&json!("PENDING"), &json!("SUSPENDED"))
    );
    assert_eq!(
        (&strict["cost_threshold"], &strict["description"]),
        (&json!(50), &json!("d"))
    );
    assert_eq!(
        step(hub.client, "j", "resume", json!({})).await["status"],
        "PENDING"
    );
    assert_eq!(
        step(hub.client, "j", "cancel", json!({ "reason": "enough" })).await["status"],
        "CANCELED"
    );

    // logist.manifest.audit_trail: each decision is there, with who and why.
    let whole = hub.client.get(&format!("{JOBS}/j")).await.expect(200)["job"].clone();
    let told = whole["history"].as_array().expect("a list").iter();
    let told: Vec<_> = told
        .map(|event| {
            (
                event["role"].clone(),
                event["by"].clone(),
                event["why"].clone(),
            )
        })
        .collect();
    assert_eq!(told.len(), 6, "{whole:#}");
    assert_eq!(
        told[5],
        (json!("Steward"), json!("steward"), json!("enough"))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_the_member_to_blame() {
    let hub = start().await;
    create(hub.client, json!({ "job_id": "j" })).await;
    for (body, field) in [
        (json!({}), "job_spec"),
        (
            json!({ "job_spec": { "job_id": "a b" } }),
            "job_spec.job_id",
        ),
        (
            json!({ "job_spec": { "job_id": "k", "phases": [{ "name": "a" }, { "name": "a" }] } }),
            "phases[1].name",
        ),
        (
            json!({ "job_spec": { "job_id": "k", "run": "queue", "sensitive": true } }),
            "run",
        ),
    ] {
        let refused = hub
            .client
            .post(JOBS, body)
            .await
            .refused(400, "invalid_operation");
        assert_eq!(refused["field"], field, "{refused}");
    }
    for (place, body, field) in [
        ("correct", json!({ "action": "DONE" }), "action"),
        (
            "resubmit",
            json!({ "cost_threshold": -1 }),
            "cost_threshold",
        ),
        (
            "reject",
            json!({ "guidance": "x".repeat(16 * 1024 + 1) }),
            "guidance",
        ),
    ] {
        let refused = hub.client.post(&format!("{JOBS}/j/{place}"), body).await;
        assert_eq!(
            refused.refused(400, "invalid_operation")["field"],
            field,
            "{place}"
        );
    }
    let refused = patch(&hub, "j", json!({ "status": "LOST" }))
        .await
        .refused(400, "invalid_operation");
    assert_eq!(refused["field"], "status");
    let refused = patch(&hub, "j", json!({ "current_phase": "nowhere" }))
        .await
        .refused(400, "invalid_operation");
    assert_eq!(refused["field"], "current_phase");
    for path in ["", "/history"] {
        hub.client
            .get(&format!("{JOBS}/nobody{path}"))
            .await
            .refused(404, "not_found");
    }
    hub.client
        .post(&format!("{JOBS}/nobody/approve"), json!({}))
        .await
        .refused(404, "not_found");
    hub.client
        .get(&format!("{JOBS}?after=x"))
        .await
        .refused(400, "invalid_operation");
    hub.client
        .get(&format!("{JOBS}/j?schema_version=3"))
        .await
        .refused(400, "invalid_operation");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn jobs_are_listed_by_whose_turn_it_is_page_by_page() {
    let hub = start().await;
    for n in 0..7 {
        create(hub.client, json!({ "job_id": format!("j{n}") })).await;
    }
    for n in [3, 1, 5] {
        step(
            hub.client,
            &format!("j{n}"),
            "activate",
            json!({ "rank": -1 }),
        )
        .await;
    }
    for n in [5, 6] {
        step(hub.client, &format!("j{n}"), "cancel", json!({})).await;
    }
    let order = ["j3", "j1", "j0", "j2", "j4", "j6", "j5"];
    let (all, next) = ids(hub.client, "").await;
    assert_eq!(
        (all, next),
        (order.map(str::to_owned).to_vec(), Value::Null)
    );
    for size in [1, 2, 7] {
        let (mut found, mut query) = (Vec::new(), format!("?limit={size}"));
        loop {
            let (page, next) = ids(hub.client, &query).await;
            assert!(page.len() <= size);
            found.extend(page);
            let Some(next) = next.as_str() else { break };
            query = format!("?limit={size}&after={next}");
        }
        assert_eq!(found, order, "{size}");
    }
    assert_eq!(
        ids(hub.client, "?status=PENDING,CANCELED").await.0,
        ["j3", "j1", "j6", "j5"]
    );
    let selected = hub.client.get(JOBS).await.expect(200)["current_job_id"].clone();
    assert_eq!(selected, "j6", "the newest");
    hub.client
        .post(&format!("{JOBS}/j0/select"), json!({}))
        .await
        .expect(200);
    assert_eq!(
        hub.client.get(JOBS).await.expect(200)["current_job_id"],
        "j0"
    );
    let metrics = hub.client.get("/metrics").await.text;
    for line in [
        "switchboard_jobs{status=\"ready\"} 2",
        "switchboard_jobs{status=\"draft\"} 3",
        "switchboard_jobs{status=\"ended\"} 2",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    hub.running.shutdown().await;
}

/// An agent that prints this.
fn printing(text: &str) -> Agent {
    Agent {
        command: Some(format!(
            "sh -c 'cat > /dev/null; printf %s \"$0\"' '{text}'"
        )),
        ..Agent::default()
    }
}

#[tokio::test]
async fn every_exchange_is_shown_with_its_texts() {
    let response = r#"{"action":"COMPLETED","evidence_files":[],"summary_for_supervisor":"Done.","metrics":{"cost_usd":0.25}}"#;
    let hub = start_as(|config| {
        config.logist.agents = [("worker".to_owned(), printing(response))].into();
    })
    .await;
    create(
        hub.client,
        json!({ "job_id": "j", "roles": ["worker"], "phases": [{ "name": "a" }, { "name": "b" }] }),
    )
    .await;
    step(hub.client, "j", "activate", json!({})).await;
    eventually(async || ids(hub.client, "?status=APPROVAL_REQUIRED").await.0 == ["j"]).await;

    let waiting = hub.client.get("/api/v1/steward").await.expect(200)["items"].clone();
    assert_eq!(
        (&waiting[0]["kind"], &waiting[0]["id"], &waiting[0]["what"]),
        (&json!("job"), &json!("j"), &json!("APPROVAL_REQUIRED"))
    );
    assert_eq!(waiting.as_array().map(Vec::len), Some(1));
    let history = format!("{JOBS}/j/history");
    let page = hub
        .client
        .get(&format!("{history}?limit=1"))
        .await
        .expect(200);
    assert_eq!(page["next"], 1);
    let first = &page["interactions"][0];
    assert_eq!(
        (&first["state_before"], &first["response"]["new_status"]),
        (&json!("PENDING"), &json!("PENDING"))
    );
    assert_eq!(first["response"]["raw_response"], response);
    assert_eq!(first["response"]["cost_usd"], 0.25);
    let prompt: Value =
        serde_json::from_str(first["request"]["prompt"].as_str().expect("text")).expect("JSON");
    assert_eq!(
        (&prompt["job_id"], &prompt["phase"]),
        (&json!("j"), &json!("a"))
    );
    let rest = hub
        .client
        .get(&format!("{history}?after=1"))
        .await
        .expect(200);
    assert_eq!(
        (&rest["interactions"][0]["sequence"], &rest["next"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(
        rest["interactions"][0]["response"]["new_status"],
        "APPROVAL_REQUIRED"
    );
    assert!(
        !rest["recovery_points"]
            .as_array()
            .expect("a list")
            .is_empty()
    );

    let done = step(hub.client, "j", "approve", json!({ "reason": "good" })).await;
    assert_eq!(
        (&done["status"], &done["metrics"]["cumulative_cost"]),
        (&json!("SUCCESS"), &json!(50))
    );
    hub.running.shutdown().await;
}
