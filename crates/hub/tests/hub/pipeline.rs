//! SQL over HTTP as libSQL's clients send it: tokens, streams, batons, and what is refused.

use std::time::Instant;

use serde_json::{Value, json};
use switchboard_hub::Running;
use tempfile::TempDir;

use crate::harness::{Answer, Client, SOON, config, start};

struct SqlHub {
    running: Running,
    client: Client,
    token: String,
    _home: TempDir,
}

async fn start_sql() -> SqlHub {
    let home = tempfile::tempdir().unwrap();
    let running = Running::start(config(home.path())).await.unwrap();
    let client = Client { addr: running.addr };
    let token = token(client, "sql").await;
    SqlHub {
        running,
        client,
        token,
        _home: home,
    }
}

async fn token(client: Client, scope: &str) -> String {
    let made = client.post("/api/v1/tokens", json!({ "name": "t", "scope": scope }));
    let made = made.await.expect(201);
    made["token"]["secret"].as_str().unwrap().to_owned()
}

async fn send(client: Client, path: &str, token: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    client.send("POST", path, &headers, body.to_string()).await
}

impl SqlHub {
    async fn pipeline(&self, baton: &Value, requests: Value) -> Answer {
        let body = json!({ "baton": baton, "requests": requests });
        send(self.client, "/v2/pipeline", &self.token, &body).await
    }

    /// One statement on a stream of its own.
    async fn execute(&self, sql: &str) -> Value {
        let requests = json!([{ "type": "execute", "stmt": { "sql": sql } }, { "type": "close" }]);
        let mut answer = self.pipeline(&Value::Null, requests).await.expect(200);
        assert_eq!(answer["baton"], Value::Null, "{answer}");
        answer["results"][0].take()
    }

    async fn number(&self, sql: &str) -> i64 {
        let result = self.execute(sql).await;
        let value = &result["response"]["result"]["rows"][0][0]["value"];
        value
            .as_str()
            .unwrap_or_else(|| panic!("{sql}: {result}"))
            .parse()
            .unwrap()
    }

    /// Begins a transaction that writes one row, and goes no further.
    async fn begin(&self, name: &str) -> Value {
        let insert = format!("INSERT INTO migrations(name) VALUES ('{name}')");
        let requests = json!([
            { "type": "execute", "stmt": { "sql": "BEGIN IMMEDIATE" } },
            { "type": "execute", "stmt": { "sql": insert } },
        ]);
        let mut answer = self.pipeline(&Value::Null, requests).await.expect(200);
        assert_eq!(answer["results"][1]["type"], "ok", "{answer}");
        answer["baton"].take()
    }

    /// Comes back until it is let in.
    async fn insert(&self, name: &str) {
        let began = Instant::now();
        loop {
            let done = self
                .execute(&format!("INSERT INTO migrations(name) VALUES ('{name}')"))
                .await;
            if done["type"] == "ok" {
                return;
            }
            assert_eq!(done["error"]["code"], "SQLITE_BUSY", "{done}");
            assert!(began.elapsed() < SOON, "{done}");
        }
    }
}

/// A refusal in the shape that these clients show to their users.
#[track_caller]
fn denied(answer: &Answer, status: u16, code: &str) -> String {
    let body = answer.expect(status);
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body["success"], false, "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    body["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn it_takes_a_token_of_its_own_scope_always() {
    let hub = start_sql().await;
    let body = json!({ "requests": [] });
    for path in ["/v2/pipeline", "/v3/pipeline", "/v3/cursor"] {
        let without = hub.client.send("POST", path, &[], body.to_string()).await;
        let said = denied(&without, 401, "UNAUTHENTICATED");
        assert!(said.contains("--scope sql"), "{said}");
        denied(
            &send(hub.client, path, "wrong", &body).await,
            401,
            "UNAUTHENTICATED",
        );
        for scope in ["steward", "viewer", "node"] {
            let other = token(hub.client, scope).await;
            denied(
                &send(hub.client, path, &other, &body).await,
                403,
                "FORBIDDEN",
            );
        }
    }
    assert_eq!(hub.client.get("/v2").await.status, 200);
    assert_eq!(hub.client.get("/v3").await.status, 200);
    assert_eq!(hub.client.get("/v3-protobuf").await.status, 404);
    let bearer = format!("Bearer {}", hub.token);
    let elsewhere = [
        ("authorization", bearer.as_str()),
        ("origin", "https://evil.example"),
    ];
    let answer = hub
        .client
        .send("POST", "/v2/pipeline", &elsewhere, body.to_string())
        .await;
    assert_eq!(answer.status, 421);
    hub.running.shutdown().await;
}

/// What a worker's token may not, and a steward's may. It is taken in, in this order.
const STEWARDS: [&str; 5] = [
    "UPDATE tasks SET status = 'completed' WHERE id = 't'",
    "UPDATE tasks SET title = 'mine' WHERE id = 'u'",
    "INSERT OR REPLACE INTO quality_baseline(id, tests_passing) VALUES (1, 7)",
    "INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'custom', 'steward', 'ann')",
    "DELETE FROM tasks WHERE id = 'u'",
];

#[tokio::test]
async fn what_only_a_steward_may_takes_a_token_of_scope_sql_steward() {
    let mut hub = start_sql().await;
    for sql in [
        "INSERT INTO agents(id, name) VALUES ('ann', 'ann')",
        "INSERT INTO tasks(id, title, status) VALUES ('t', 't', 'ready'), ('u', 'u', 'ready')",
        "UPDATE tasks SET status = 'claimed', assigned_agent = 'ann' WHERE id = 't'",
        "UPDATE tasks SET status = 'needs_review' WHERE id = 't'",
        "INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('a', 'custom', 'ann', 'ann')",
    ] {
        let done = hub.execute(sql).await;
        assert_eq!(done["type"], "ok", "{sql}: {done}");
    }
    shows(&hub, "/api/v1/messages?all=true", "\"from\":\"ann\"").await;
    for sql in STEWARDS {
        let done = hub.execute(sql).await;
        assert_eq!(done["error"]["code"], "SQLITE_CONSTRAINT", "{sql}: {done}");
        let said = done["error"]["message"].as_str().unwrap();
        assert!(said.contains("scope sql:steward"), "{sql}: {said}");
    }
    let sender =
        hub.execute("INSERT INTO messages(id, type, from_agent) VALUES ('b', 'custom', 'bob')");
    let sender = sender.await;
    assert_eq!(sender["type"], "error", "{sender}");
    hub.token = token(hub.client, "sql:steward").await;
    for sql in STEWARDS {
        let done = hub.execute(sql).await;
        assert_eq!(done["type"], "ok", "{sql}: {done}");
    }
    shows(&hub, "/api/v1/messages?all=true", "\"from\":\"steward\"").await;
    shows(&hub, "/api/v1/tasks/t", "\"status\":\"completed\"").await;
    shows(&hub, "/api/v1/tasks/u", "\"status\":\"canceled\"").await;
    shows(&hub, "/api/v1/quality/baseline", "\"testsPassing\":7").await;
    // The connection that a steward used before is now a worker's.
    hub.token = token(hub.client, "sql").await;
    let done = hub.execute("DELETE FROM quality_baseline").await;
    assert_eq!(done["type"], "error", "{done}");
    hub.running.shutdown().await;
}

/// Waits until the hub has taken in what was written.
async fn shows(hub: &SqlHub, path: &str, what: &str) {
    let began = Instant::now();
    loop {
        let found = hub.client.get(path).await;
        if found.text.contains(what) {
            return;
        }
        assert!(began.elapsed() < SOON, "{path}: {}", found.text);
    }
}

#[tokio::test]
async fn a_revoked_token_ends_its_streams() {
    let hub = start_sql().await;
    let baton = hub.begin("lost").await;
    let tokens = hub.client.get("/api/v1/tokens").await.expect(200);
    let id = tokens["tokens"][0]["id"].as_str().unwrap();
    hub.client
        .delete(&format!("/api/v1/tokens/{id}"))
        .await
        .expect(200);
    let answer = hub
        .pipeline(
            &baton,
            json!([{ "type": "execute", "stmt": { "sql": "COMMIT" } }]),
        )
        .await;
    denied(&answer, 401, "UNAUTHENTICATED");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_engine_without_it_says_so() {
    let hub = start().await;
    let sql = token(hub.client, "sql").await;
    let answer = send(hub.client, "/v2/pipeline", &sql, &json!({ "requests": [] })).await;
    let said = denied(&answer, 501, "NOT_AVAILABLE");
    assert!(said.contains("psql"), "{said}");
    assert_eq!(hub.client.get("/v2").await.status, 501);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn every_request_of_a_pipeline_is_answered_in_its_place() {
    let hub = start_sql().await;
    let requests = json!([
        { "type": "store_sql", "sql_id": 7, "sql": "SELECT :a AS a, ?2 AS b, 2.5, x'ff', NULL" },
        { "type": "execute", "stmt": { "sql_id": 7, "args": [{ "type": "integer", "value": "9007199254740993" }, { "type": "text", "value": "x" }] } },
        { "type": "execute", "stmt": { "sql": "SELECT nothing" } },
        { "type": "describe", "sql_id": 7 },
        { "type": "close_sql", "sql_id": 7 },
        { "type": "execute", "stmt": { "sql_id": 7 } },
        { "type": "sequence", "sql": "INSERT INTO migrations(name) VALUES ('a'); SELECT 1" },
        { "type": "get_autocommit" },
        { "type": "execute", "stmt": { "sql": "SELECT 1 FROM migrations", "want_rows": false } },
        { "type": "close" },
        { "type": "get_autocommit" },
    ]);
    let body = json!({ "requests": requests });
    for path in ["/v2/pipeline", "/v3/pipeline"] {
        let answer = send(hub.client, path, &hub.token, &body).await.expect(200);
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), 11);
        assert_eq!(answer["baton"], Value::Null);
        let result = &results[1]["response"]["result"];
        assert_eq!(result["cols"][0], json!({ "name": "a", "decltype": null }));
        assert_eq!(
            result["rows"],
            json!([[
                { "type": "integer", "value": "9007199254740993" }, { "type": "text", "value": "x" },
                { "type": "float", "value": 2.5 }, { "type": "blob", "base64": "/w" }, { "type": "null" },
            ]])
        );
        assert_eq!(results[2]["error"]["code"], "SQLITE_ERROR");
        assert_eq!(results[3]["response"]["result"]["params"][0]["name"], ":a");
        assert_eq!(results[5]["error"]["code"], "SQL_NOT_FOUND");
        assert_eq!(
            results[7]["response"],
            json!({ "type": "get_autocommit", "is_autocommit": true })
        );
        assert_eq!(results[8]["response"]["result"]["rows"], json!([]));
        assert_eq!(results[9]["response"]["type"], "close");
        assert_eq!(results[10]["error"]["code"], "STREAM_CLOSED");
        hub.execute("DELETE FROM migrations").await;
    }
    denied(
        &hub.pipeline(&Value::Null, json!([{ "type": "dance" }]))
            .await,
        400,
        "INVALID_OPERATION",
    );
    hub.running.shutdown().await;
}

fn batch() -> Value {
    let step =
        |condition: Value, sql: &str| json!({ "condition": condition, "stmt": { "sql": sql } });
    json!({ "steps": [
        step(Value::Null, "BEGIN IMMEDIATE"),
        step(json!({ "type": "ok", "step": 0 }), "INSERT INTO migrations(name) VALUES ('a') RETURNING name"),
        step(json!({ "type": "ok", "step": 1 }), "SELECT nothing"),
        step(json!({ "type": "ok", "step": 2 }), "SELECT 'not taken'"),
        step(json!({ "type": "error", "step": 2 }), "SELECT 'taken'"),
        step(json!({ "type": "and", "conds": [{ "type": "ok", "step": 4 }, { "type": "not", "cond": { "type": "is_autocommit" } }] }), "COMMIT"),
        step(json!({ "type": "not", "cond": { "type": "or", "conds": [{ "type": "ok", "step": 5 }, { "type": "ok", "step": 3 }] } }), "ROLLBACK"),
    ]})
}

#[tokio::test]
async fn the_steps_of_a_batch_are_taken_on_their_conditions() {
    let hub = start_sql().await;
    let requests = json!([{ "type": "batch", "batch": batch() }, { "type": "close" }]);
    let answer = hub.pipeline(&Value::Null, requests).await.expect(200);
    let result = &answer["results"][0]["response"]["result"];
    let taken: Vec<bool> = result["step_results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| !step.is_null())
        .collect();
    assert_eq!(
        taken,
        [true, true, false, false, true, true, false],
        "{result}"
    );
    let failed: Vec<bool> = result["step_errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| !step.is_null())
        .collect();
    assert_eq!(
        failed,
        [false, false, true, false, false, false, false],
        "{result}"
    );
    assert_eq!(hub.number("SELECT count(*) FROM migrations").await, 1);
    let ahead = json!([{ "type": "batch", "batch": { "steps": [
        { "condition": { "type": "ok", "step": 0 }, "stmt": { "sql": "SELECT 1" } },
    ] } }, { "type": "close" }]);
    let answer = hub.pipeline(&Value::Null, ahead).await.expect(200);
    assert_eq!(answer["results"][0]["error"]["code"], "BATCH_COND_BAD_STEP");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_cursor_gives_the_same_line_by_line() {
    let hub = start_sql().await;
    let body = json!({ "batch": batch() });
    let answer = send(hub.client, "/v3/cursor", &hub.token, &body).await;
    assert_eq!(answer.status, 200);
    let lines: Vec<Value> = answer
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines[1..]
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..2], ["step_begin", "step_end"]);
    assert_eq!(kinds[2..5], ["step_begin", "row", "step_end"]);
    assert_eq!(kinds[5], "step_error");
    let closed = hub
        .pipeline(&lines[0]["baton"], json!([{ "type": "close" }]))
        .await
        .expect(200);
    assert_eq!(closed["baton"], Value::Null);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_transaction_goes_on_with_its_baton_which_counts_once_and_for_one_token() {
    let hub = start_sql().await;
    let other = token(hub.client, "sql").await;
    let began = Instant::now();
    while !goes_on(&hub, &other).await {
        assert!(began.elapsed() < SOON, "it is rolled back every time");
    }
    assert_eq!(hub.number("SELECT count(*) FROM migrations").await, 1);
    hub.running.shutdown().await;
}

/// One transaction over several calls; false if the machine was too slow for it, and it was rolled back.
async fn goes_on(hub: &SqlHub, other: &str) -> bool {
    let is_gone = |answer: &Answer| answer.status == 400 && answer.text.contains("rolled back");
    let baton = hub.begin("a").await;
    let close = json!([{ "type": "execute", "stmt": { "sql": "COMMIT" } }, { "type": "close" }]);
    let body = json!({ "baton": baton, "requests": close });
    let stolen = send(hub.client, "/v2/pipeline", other, &body).await;
    denied(&stolen, 400, "STREAM_EXPIRED");
    for wrong in ["", "x", &baton.as_str().unwrap()[1..]] {
        let answer = hub.pipeline(&wrong.into(), close.clone()).await;
        denied(&answer, 400, "STREAM_EXPIRED");
    }
    let read = json!([
        { "type": "execute", "stmt": { "sql": "SELECT count(*) FROM migrations" } },
        { "type": "get_autocommit" },
    ]);
    let answer = hub.pipeline(&baton, read).await;
    if is_gone(&answer) {
        return false;
    }
    let answer = answer.expect(200);
    let count = &answer["results"][0]["response"]["result"]["rows"][0][0]["value"];
    assert_eq!(*count, "1", "{answer}");
    assert_eq!(answer["results"][1]["response"]["is_autocommit"], false);
    assert_ne!(answer["baton"], baton);
    let outside = hub.number("SELECT count(*) FROM migrations").await;
    assert_eq!(outside, 0, "not committed yet");
    let old = hub.pipeline(&baton, close.clone()).await;
    let old = denied(&old, 400, "STREAM_EXPIRED");
    assert!(old.contains("already used"), "{old}");
    let answer = hub.pipeline(&answer["baton"], close).await;
    if is_gone(&answer) {
        return false;
    }
    let answer = answer.expect(200);
    assert_eq!(answer["results"][0]["type"], "ok", "{answer}");
    true
}

#[tokio::test]
async fn a_transaction_that_idles_is_rolled_back_and_its_stream_gone() {
    let hub = start_sql().await;
    let baton = hub.begin("lost").await;
    hub.insert("other").await;
    let commit = json!([{ "type": "execute", "stmt": { "sql": "COMMIT" } }]);
    let said = denied(&hub.pipeline(&baton, commit).await, 400, "STREAM_EXPIRED");
    assert!(said.contains("rolled back"), "{said}");
    assert_eq!(hub.number("SELECT count(*) FROM migrations").await, 1);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn the_hub_goes_on_writing_whatever_transaction_is_open() {
    let hub = start_sql().await;
    for name in ["a", "b", "c"] {
        let baton = hub.begin("lost").await;
        hub.client
            .post("/api/v1/tasks", json!({ "title": name }))
            .await
            .expect(201);
        let commit = json!([{ "type": "execute", "stmt": { "sql": "COMMIT" } }]);
        denied(&hub.pipeline(&baton, commit).await, 400, "STREAM_EXPIRED");
    }
    assert_eq!(hub.number("SELECT count(*) FROM tasks").await, 3);
    assert_eq!(hub.number("SELECT count(*) FROM migrations").await, 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn streams_are_bounded() {
    let hub = start_sql().await;
    let stay = || hub.pipeline(&Value::Null, json!([{ "type": "get_autocommit" }]));
    let mut batons = Vec::new();
    for _ in 0..32 {
        batons.push(stay().await.expect(200)["baton"].take());
    }
    denied(&stay().await, 503, "STREAM_LIMIT");
    assert_eq!(
        hub.number("SELECT 1").await,
        1,
        "a call that closes its stream needs no place"
    );
    let closed = hub.pipeline(&batons[0], json!([{ "type": "close" }])).await;
    closed.expect(200);
    stay().await.expect(200);
    denied(&stay().await, 503, "STREAM_LIMIT");
    let other = token(hub.client, "sql").await;
    let body = json!({ "requests": [{ "type": "get_autocommit" }] });
    send(hub.client, "/v2/pipeline", &other, &body)
        .await
        .expect(200);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn open_transactions_are_bounded() {
    let hub = start_sql().await;
    let read = || {
        hub.pipeline(
            &Value::Null,
            json!([{ "type": "sequence", "sql": "BEGIN; SELECT count(*) FROM tasks" }]),
        )
    };
    let mut busy = None;
    for _ in 0..5 {
        let answer = read().await;
        if answer.status != 200 {
            busy = Some(answer);
        }
    }
    let said = denied(
        &busy.expect("the fifth is one too many"),
        503,
        "SQLITE_BUSY",
    );
    assert!(said.contains("4 open transactions"), "{said}");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_call_and_its_stored_texts_are_bounded() {
    let hub = start_sql().await;
    for (count, status) in [(999, 200), (1000, 200), (1001, 400)] {
        let mut requests = vec![json!({ "type": "get_autocommit" }); count - 1];
        requests.push(json!({ "type": "close" }));
        assert_eq!(
            hub.pipeline(&Value::Null, requests.into()).await.status,
            status,
            "{count}"
        );
    }
    let store = |ids: std::ops::Range<i32>, bytes: usize| -> Value {
        let text = "x".repeat(bytes);
        let mut requests: Vec<Value> = ids
            .map(|id| json!({ "type": "store_sql", "sql_id": id, "sql": text }))
            .collect();
        requests.push(json!({ "type": "close" }));
        requests.into()
    };
    let refused = |answer: Value| {
        let results = answer["results"].as_array().unwrap().clone();
        results
            .iter()
            .filter(|result| result["type"] == "error")
            .count()
    };
    for (count, extra) in [(63, 0), (64, 0), (65, 1)] {
        let answer = hub
            .pipeline(&Value::Null, store(0..count, 1))
            .await
            .expect(200);
        assert_eq!(refused(answer), extra, "{count}");
    }
    for (bytes, extra) in [(256 * 1024 - 1, 0), (256 * 1024, 0), (256 * 1024 + 1, 1)] {
        let answer = hub
            .pipeline(&Value::Null, store(0..2, bytes))
            .await
            .expect(200);
        assert_eq!(refused(answer), extra, "{bytes}");
    }
    let twice = json!([{ "type": "store_sql", "sql_id": 1, "sql": "a" }, { "type": "store_sql", "sql_id": 1, "sql": "b" }, { "type": "close" }]);
    let answer = hub.pipeline(&Value::Null, twice).await.expect(200);
    assert_eq!(answer["results"][1]["error"]["code"], "SQL_EXISTS");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_answer_is_bounded_whatever_its_parts() {
    let hub = start_sql().await;
    let rows = |count: i64| {
        format!(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {count}) SELECT x FROM c"
        )
    };
    for (count, kind) in [(9_999, "ok"), (10_000, "ok"), (10_001, "error")] {
        assert_eq!(hub.execute(&rows(count)).await["type"], kind, "{count}");
    }
    let large = json!({ "type": "execute", "stmt": { "sql": "SELECT hex(zeroblob(700000)), hex(zeroblob(700000))" } });
    let mut requests = vec![large; 4];
    requests.push(json!({ "type": "close" }));
    let answer = hub
        .pipeline(&Value::Null, requests.into())
        .await
        .expect(200);
    let kinds: Vec<&str> = (0..5)
        .map(|at| answer["results"][at]["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ok", "ok", "error", "error", "ok"]);
    assert_eq!(answer["results"][3]["error"]["code"], "RESPONSE_TOO_LARGE");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_hub_that_stops_waits_for_no_transaction() {
    let hub = start_sql().await;
    let _baton = hub.begin("lost").await;
    tokio::time::timeout(SOON, hub.running.shutdown())
        .await
        .expect("it stops");
}
