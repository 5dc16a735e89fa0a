//! The table of what each credential opens: printed in the documents as it is checked, and walked call by call.

use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_core::rights::Right;
use switchboard_core::token::Scope;
use switchboard_hub::Running;
use switchboard_hub::config::AuthMode;
use switchboard_hub::rights::{HTTP, Opens, SQL, entries, markdown};

use crate::harness::{Client, TestHub, config};
use crate::signer::{bearer, steward};

const BEGIN: &str = "<!-- printed from the code: begin -->\n";
const END: &str = "<!-- printed from the code: end -->\n";

#[test]
fn the_page_shows_the_table_that_is_checked() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(&path).expect("docs/security.md is there");
    let (before, rest) = page.split_once(BEGIN).expect("where it begins is marked");
    let (shown, after) = rest.split_once(END).expect("where it ends is marked");
    let printed = markdown();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let page = format!("{before}{BEGIN}{printed}{END}{after}");
        std::fs::write(&path, page).expect("docs/security.md is writable");
        return;
    }
    assert!(
        shown == printed,
        "docs/security.md differs from the code; look at the change, then run the test with UPDATE_SNAPSHOTS=1"
    );
}

/// On SQLite, which has all doors.
async fn start_on_a_file() -> TestHub {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path());
    config.auth = AuthMode::Hmac;
    let running = Running::start(config).await.unwrap();
    let client = Client { addr: running.addr };
    TestHub {
        running,
        client,
        home,
    }
}

/// One token of each scope.
async fn tokens(hub: &TestHub) -> Vec<(Scope, String)> {
    let steward = steward(hub).await;
    let mut tokens = Vec::new();
    for scope in Scope::ALL {
        let agent = (*scope == Scope::Agent).then_some("a1");
        let body = json!({ "name": scope.as_str(), "scope": scope.as_str(), "agentId": agent });
        let made = bearer(hub.client, "POST", "/api/v1/tokens", &steward, body).await;
        let secret = made.expect(201)["token"]["secret"]
            .as_str()
            .unwrap()
            .to_owned();
        tokens.push((*scope, secret));
    }
    tokens
}

/// Whether a call was let in, whatever became of it then.
async fn is_let_in(hub: &TestHub, operation: &str, token: &str) -> bool {
    let (call, without) = operation.split_once(" without ").unwrap_or((operation, ""));
    let (method, path) = call.split_once(' ').unwrap();
    let body = match without {
        // With one it would be the agent's own affair.
        "" if path.ends_with("/release") => json!({ "agentId": "a1" }),
        _ => json!({}),
    };
    let answer = bearer(hub.client, method, &path.replace("{id}", "a1"), token, body).await;
    assert!(answer.status < 500, "{operation}: {}", answer.text);
    !matches!(answer.status, 401 | 403)
}

#[tokio::test]
async fn every_operation_over_http_is_open_to_the_scopes_that_the_table_says() {
    let hub = start_on_a_file().await;
    let tokens = tokens(&hub).await;
    let mut calls = 0;
    for entry in entries() {
        let is_call = entry.operation.contains(" /");
        if !is_call || !matches!(entry.door, HTTP | SQL) {
            continue;
        }
        for (scope, token) in &tokens {
            let may = entry.opens.is_for(*scope);
            let was = is_let_in(&hub, &entry.operation, token).await;
            assert_eq!(was, may, "{scope}: {}", entry.operation);
            calls += 1;
        }
        if entry.opens != Opens::Anyone {
            assert!(
                !is_let_in(&hub, &entry.operation, "sbt_nobodys").await,
                "nobody: {}",
                entry.operation
            );
        }
    }
    assert!(calls > 300, "only {calls} were made");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_a_steward_may_by_sql_takes_the_scope_that_the_table_says() {
    let hub = start_on_a_file().await;
    for (scope, token) in tokens(&hub).await {
        let run = async |sql: &str| {
            let stmt = json!({ "requests": [{ "type": "execute", "stmt": { "sql": sql } }] });
            bearer(hub.client, "POST", "/v2/pipeline", &token, stmt).await
        };
        let read = run("SELECT count(*) FROM tasks").await;
        assert_eq!(read.status == 200, scope.may(Right::Sql), "{scope}");
        if !scope.may(Right::Sql) {
            continue;
        }
        let answer = run("INSERT INTO quality_baseline DEFAULT VALUES")
            .await
            .expect(200);
        let said = answer["results"][0]["error"]["message"]
            .as_str()
            .unwrap_or_default();
        let is_refused = said.contains("sql:steward");
        assert_eq!(is_refused, !scope.may(Right::SqlSteward), "{scope}: {said}");
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn where_nothing_is_asked_for_everybody_is_the_steward_but_sql_takes_a_token() {
    let hub = crate::harness::start().await;
    let made: Value = json!({ "title": "T" });
    hub.client.post("/api/v1/tasks", made).await.expect(201);
    hub.client.get("/api/v1/tokens").await.expect(200);
    let answer = hub.client.post("/v2/pipeline", json!({})).await;
    assert_eq!(answer.status, 401);
    hub.running.shutdown().await;
}
