//! The table of what each credential opens: printed in the documents as it is checked, and walked call by call.

use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_core::rights::Right;
use switchboard_core::token::Scope;
use switchboard_hub::Running;
use switchboard_hub::config::AuthMode;
use switchboard_hub::rights::{BROKER, BUS, FILES, HTTP, Opens, SQL, entries, markdown};

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

async fn status(hub: &TestHub, operation: &str, token: Option<&str>, body: &str) -> u16 {
    let (method, path) = operation.split_once(' ').unwrap();
    let mut path = path.replace("{id}", "a1");
    if operation == "GET /api/v1/messages" {
        path += "?agentId=a1";
    }
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers = bearer
        .iter()
        .map(|bearer| ("authorization", bearer.as_str()));
    let headers: Vec<_> = headers.collect();
    let answer = hub
        .client
        .send(method, &path, &headers, body.to_owned())
        .await;
    assert!(answer.status < 500, "{operation}: {}", answer.text);
    answer.status
}

#[tokio::test]
async fn every_operation_over_http_is_open_to_the_scopes_that_the_table_says() {
    let hub = start_on_a_file().await;
    let tokens = tokens(&hub).await;
    let mut calls = 0;
    for entry in entries() {
        let operation = &entry.operation;
        match entry.door {
            HTTP | SQL if operation.contains(" /") => {}
            // Below.
            SQL => continue,
            // `bus::identity::each_scope_opens_its_side_of_the_bus`, `broker::identity::each_scope_may_register_or_not`,
            // and the tests of files that are signed.
            BUS | BROKER | FILES => continue,
            door => panic!("nobody walks {door}"),
        }
        // Whether it brings a body or not.
        for body in ["", "{}"] {
            for (scope, token) in &tokens {
                let may = entry.opens.is_for(*scope);
                let was = status(&hub, operation, Some(token), body).await;
                // Whatever became of it then.
                let is_let_in = !matches!(was, 401 | 403);
                assert_eq!(is_let_in, may, "{scope}: {operation} {body:?}: {was}");
                calls += 1;
            }
            if entry.opens == Opens::Anyone {
                continue;
            }
            assert_eq!(
                status(&hub, operation, Some("sbt_nobodys"), body).await,
                401
            );
            // What is signed in the body cannot be told before it is read.
            let was = status(&hub, operation, None, body).await;
            let reads_body = !operation.starts_with("GET");
            let is_refused = was == 401 || (was == 400 && reads_body);
            assert!(is_refused, "nobody: {operation} {body:?}: {was}");
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
