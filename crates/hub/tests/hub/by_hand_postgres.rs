//! psql beside hubs on one database: what it writes becomes what it would have been over HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_hub::Running;
use switchboard_store::postgres::{Address, PostgresEngine};
use switchboard_test_cluster::{Cluster, Database};
use tokio_postgres::{Client as Sql, NoTls};

use crate::harness::{Client, TestHub, config, registration, result};
use crate::world::eventually;

/// A hub, and a database that others write, too.
pub struct Swarm {
    pub hubs: Vec<TestHub>,
    pub database: Database,
}

impl Swarm {
    pub async fn new(what: &str, hubs: usize) -> Option<Swarm> {
        let server = Cluster::shared(what)?;
        let database = server.create_database();
        let mut swarm = Swarm {
            hubs: Vec::new(),
            database,
        };
        for _ in 0..hubs {
            swarm.hubs.push(coordinator(&swarm.database.url).await);
        }
        Some(swarm)
    }

    fn http(&self) -> Client {
        self.hubs[0].client
    }

    /// In a process of its own, as a person would.
    async fn psql(&self, sql: &str) -> String {
        let (url, sql) = (self.database.url.clone(), sql.to_owned());
        let answer = tokio::task::spawn_blocking(move || {
            let mut psql = std::process::Command::new("psql");
            psql.args(["-qAt", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", &sql]);
            psql.output().unwrap()
        });
        let answer = answer.await.unwrap();
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(answer.status.success(), "{said}");
        String::from_utf8(answer.stdout).unwrap().trim().to_owned()
    }

    async fn task(&self, id: &str) -> Value {
        let found = self.http().get(&format!("/api/v1/tasks/{id}")).await;
        match found.status {
            200 => found.json()["task"].clone(),
            _ => Value::Null,
        }
    }

    /// Once the hub has taken in what was written.
    async fn becomes(&self, id: &str, status: &str) -> Value {
        let adopted = async || self.psql("SELECT count(*) FROM sb_hand").await == "0";
        eventually(async || adopted().await && self.task(id).await["status"] == status).await;
        self.task(id).await
    }

    async fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.hubs[0]
            .running
            .hub
            .read(|reader| reader.events(0, 10_000));
        let events = events.await.unwrap().into_iter();
        let events = events.map(|logged| serde_json::to_value(&logged).unwrap());
        events.filter(|event| event["type"] == kind).collect()
    }

    pub async fn stop(self) {
        for hub in self.hubs {
            hub.running.shutdown().await;
        }
    }
}

async fn coordinator(url: &str) -> TestHub {
    let home = tempfile::tempdir().unwrap();
    let address = Address::parse(url).unwrap();
    let engine = tokio::task::spawn_blocking(move || PostgresEngine::open(address).unwrap());
    let engine = Box::new(engine.await.unwrap());
    let running = Running::start_with(config(home.path()), engine, "postgres");
    let running = running.await.unwrap();
    let client = Client { addr: running.addr };
    TestHub {
        running,
        client,
        home,
    }
}

/// A program with a connection.
pub async fn connect(url: &str) -> Sql {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// Who has leases.
async fn holders(client: Client) -> Vec<String> {
    let found = client.get("/api/v1/leases").await.expect(200);
    let leases = found["leases"].as_array().unwrap().iter();
    let holders = leases.map(|lease| lease["agentId"].as_str().unwrap().to_owned());
    holders.collect()
}

#[tokio::test]
async fn a_day_in_psql_is_an_ordinary_day_for_the_hub() {
    let Some(swarm) = Swarm::new("a day in psql", 1).await else {
        return;
    };
    let http = swarm.http();
    http.register("web", &[]).await;
    swarm
        .psql("INSERT INTO agents(id, name, skills) VALUES ('sql', 'By hand', '[\"rust\"]')")
        .await;
    swarm
        .psql(
            "INSERT INTO tasks(id, title, required_skills, status) VALUES ('t1', 'First', '[\"rust\"]', 'ready');
             INSERT INTO tasks(id, title, dependencies) VALUES ('t2', 'Second', '[\"t1\"]')",
        )
        .await;
    let waits = swarm.becomes("t2", "blocked").await;
    assert_eq!(waits["dependencies"], json!(["t1"]));
    let claimed = swarm
        .psql(
            "UPDATE tasks SET status = 'claimed', assigned_agent = 'sql', epoch = epoch + 1, claimed_at = now()
             WHERE id = (SELECT id FROM tasks WHERE status = 'ready' ORDER BY priority_order, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING id, epoch",
        )
        .await;
    assert_eq!(claimed, "t1|1");
    assert_eq!(swarm.becomes("t1", "claimed").await["assignedAgent"], "sql");
    swarm
        .psql("UPDATE tasks SET status = 'in_progress', started_at = now() WHERE id = 't1'")
        .await;
    swarm.becomes("t1", "in_progress").await;
    swarm
        .psql(
            "INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src/a.rs', 'sql', 't1', now() + interval '10 minutes')",
        )
        .await;
    eventually(async || holders(http).await == ["sql"]).await;
    swarm
        .psql("UPDATE tasks SET status = 'completed', completed_at = now(), result = '{\"summary\":\"done\"}' WHERE id = 't1' AND assigned_agent = 'sql' AND epoch = 1")
        .await;
    swarm.becomes("t1", "completed").await;
    // What waited for it is for anyone, and its leases have ended.
    assert_eq!(http.claim("web").await["task"]["id"], "t2");
    assert!(holders(http).await.is_empty());

    let completed = swarm.events("task_completed").await;
    assert_eq!(completed.len(), 1);
    assert_eq!(completed[0]["agent"], "sql");
    assert_eq!(swarm.events("agent_registered").await.len(), 2);
    assert_eq!(swarm.events("lease_acquired").await.len(), 1);
    assert!(swarm.events("write_undone").await.is_empty());
    swarm.stop().await;
}

#[tokio::test]
async fn failures_retries_and_deletions_in_psql_keep_history() {
    let Some(swarm) = Swarm::new("failures in psql", 1).await else {
        return;
    };
    swarm
        .psql(
            "INSERT INTO agents(id, name) VALUES ('sql', 'By hand');
             INSERT INTO tasks(id, title, status) VALUES ('t1', 'a', 'ready'), ('t2', 'b', 'ready'), ('t3', 'c', 'ready');
             UPDATE tasks SET status = 'claimed', assigned_agent = 'sql'",
        )
        .await;
    swarm.becomes("t3", "claimed").await;
    swarm
        .psql(
            "UPDATE tasks SET status = 'pending_retry', failure_type = 'task_error', last_error = 'no luck' WHERE id = 't1';
             UPDATE tasks SET status = 'failed', failure_type = 'task_error', last_error = 'never' WHERE id = 't2';
             DELETE FROM tasks WHERE id = 't3'",
        )
        .await;
    let retry = swarm.becomes("t1", "pending_retry").await;
    assert_eq!(
        (&retry["retryCount"], &retry["lastError"]),
        (&json!(1), &json!("no luck"))
    );
    assert!(retry["nextRetryAt"].is_string(), "{retry}");
    swarm.becomes("t2", "failed").await;
    swarm.becomes("t3", "canceled").await;
    // Not waited for, and tried again although it had failed.
    swarm
        .psql("UPDATE tasks SET status = 'ready' WHERE id IN ('t1', 't2')")
        .await;
    swarm.becomes("t1", "ready").await;
    swarm.becomes("t2", "ready").await;
    swarm
        .psql("UPDATE tasks SET status = 'claimed', assigned_agent = 'sql' WHERE id = 't2'")
        .await;
    swarm.psql("DELETE FROM agents WHERE id = 'sql'").await;
    swarm.becomes("t2", "ready").await;
    let agent = swarm.http().get("/api/v1/agents/sql").await.expect(200);
    assert_eq!(agent["agent"]["status"], "offline", "{agent}");
    assert_eq!(agent["agent"]["tasksFailed"], 2);
    assert_eq!(
        swarm
            .psql("SELECT count(*) FROM agents WHERE id = 'sql'")
            .await,
        "0"
    );
    // Its id is free again, and its history goes on.
    swarm
        .psql("INSERT INTO agents(id, name) VALUES ('sql', 'Again')")
        .await;
    eventually(async || swarm.events("agent_registered").await.len() == 2).await;
    assert_eq!(
        swarm
            .psql("SELECT tasks_failed FROM agents WHERE id = 'sql'")
            .await,
        "2"
    );
    swarm.stop().await;
}

#[tokio::test]
async fn messages_go_both_ways_between_psql_and_http() {
    let Some(swarm) = Swarm::new("messages in psql", 1).await else {
        return;
    };
    let http = swarm.http();
    http.register("web", &[]).await;
    swarm
        .psql("INSERT INTO agents(id, name) VALUES ('sql', 'By hand')")
        .await;
    eventually(async || swarm.events("agent_registered").await.len() == 2).await;
    // A call that waits is woken by what psql writes.
    let waits = tokio::spawn(async move { http.get("/api/v1/messages?agentId=web&wait=60").await });
    swarm
        .psql("INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES ('m1', 'info.x', 'sql', 'web', '{\"n\":1}')")
        .await;
    let heard = waits.await.unwrap().expect(200);
    assert_eq!(
        heard["messages"][0]["payload"],
        json!({ "n": 1 }),
        "{heard}"
    );

    for to in [json!("sql"), Value::Null] {
        let message =
            json!({ "to": to, "type": "custom", "payload": { "to": to }, "requiresAck": true });
        let sent = http.post(
            "/api/v1/messages",
            json!({ "agentId": "web", "message": message }),
        );
        sent.await.expect(200);
    }
    let unread = "SELECT count(*) FROM messages WHERE to_agent = 'sql' AND delivered_at IS NULL";
    assert_eq!(
        swarm.psql(unread).await,
        "2",
        "a broadcast has a copy for who reads by SQL"
    );
    swarm
        .psql("UPDATE messages SET delivered_at = now(), acknowledged_at = now() WHERE to_agent = 'sql'")
        .await;
    eventually(async || swarm.events("message_acknowledged").await.len() == 2).await;
    assert_eq!(swarm.events("message_delivered").await.len(), 3);
    let inbox = "SELECT inbox FROM agents WHERE id = 'sql'";
    assert_eq!(swarm.psql(inbox).await, "0");
    swarm.stop().await;
}

#[tokio::test]
async fn whoever_waits_for_a_task_gets_the_one_that_psql_makes() {
    let Some(swarm) = Swarm::new("a task from psql", 2).await else {
        return;
    };
    // At either coordinator, and one of them takes it in.
    for (hub, task) in swarm.hubs.iter().zip(["t1", "t2"]) {
        let (client, agent) = (hub.client, format!("of-{task}"));
        client.register(&agent, &[]).await;
        let body = json!({ "agentId": agent, "wait": 60 });
        let waits = tokio::spawn(async move { client.post("/api/v1/tasks/claim", body).await });
        let insert = format!("INSERT INTO tasks(id, title) VALUES ('{task}', 'from psql')");
        swarm.psql(&insert).await;
        let taken = waits.await.unwrap().expect(200);
        assert_eq!(taken["task"]["id"], task, "{taken}");
    }
    assert_eq!(swarm.events("task_created").await.len(), 2, "each once");
    assert_eq!(swarm.events("task_claimed").await.len(), 2);
    swarm.stop().await;
}

#[tokio::test]
async fn what_was_written_while_no_hub_ran_is_taken_in_at_the_start() {
    let Some(mut swarm) = Swarm::new("writes without a hub", 1).await else {
        return;
    };
    for hub in swarm.hubs.drain(..) {
        hub.running.shutdown().await;
    }
    let insert = "INSERT INTO agents(id, name) VALUES ('sql', 'By hand');
         INSERT INTO tasks(id, title, status) SELECT 't' || i, 'many', 'ready' FROM generate_series(1, 1500) i;
         UPDATE tasks SET status = 'claimed', assigned_agent = 'sql' WHERE id = 't1';
         UPDATE tasks SET status = 'completed' WHERE id = 't1'";
    swarm.psql(insert).await;
    swarm.hubs.push(coordinator(&swarm.database.url).await);
    swarm.becomes("t1500", "ready").await;
    assert_eq!(swarm.task("t1").await["status"], "completed");
    assert_eq!(swarm.events("task_created").await.len(), 1500);
    assert_eq!(swarm.psql("SELECT count(*) FROM sb_hand").await, "0");
    assert_eq!(
        swarm
            .psql("SELECT count(*) FROM tasks WHERE number < 0")
            .await,
        "0"
    );
    swarm.stop().await;
}

const TASKS: usize = 500;
const CLAIM: &str = "UPDATE tasks SET status = 'claimed', assigned_agent = $1, claimed_at = CURRENT_TIMESTAMP
    WHERE id = (SELECT id FROM tasks WHERE status = 'ready' ORDER BY
      CASE priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 WHEN 'low' THEN 3 END, created_at ASC LIMIT 1)
    RETURNING id";
const CLAIM_AGAIN: &str = "UPDATE tasks SET status = 'claimed', assigned_agent = $1, claimed_at = now()
    WHERE id = (SELECT id FROM tasks WHERE status = 'ready' ORDER BY priority_order, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id";
const COMPLETE: &str =
    "UPDATE tasks SET status = 'completed', result = '{}' WHERE id = $1 AND assigned_agent = $2
    AND status IN ('claimed', 'in_progress')";

/// Claims and completes until nothing is left, and tells what it had.
async fn work_by_sql(url: Arc<str>, agent: String, claim: &'static str) -> Vec<String> {
    let sql = connect(&url).await;
    let mut had = Vec::new();
    loop {
        let row = match sql.query_opt(claim, &[&agent]).await {
            Ok(row) => row,
            // Somebody was quicker.
            Err(error) if error.code().is_some_and(|code| code.code() == "40001") => continue,
            Err(error) => panic!("{error:?}"),
        };
        match row {
            Some(row) => {
                let task: String = row.get(0);
                let done = sql.execute(COMPLETE, &[&task, &agent]).await.unwrap();
                assert_eq!(done, 1, "{task} is {agent}'s");
                had.push(task);
            }
            None => {
                let open = "SELECT count(*) FROM tasks WHERE status <> 'completed'";
                let open: i64 = sql.query_one(open, &[]).await.unwrap().get(0);
                if open == 0 {
                    return had;
                }
            }
        }
    }
}

async fn work_by_http(client: Client, agent: String) -> Vec<String> {
    let body = registration(&agent, &[]);
    client
        .post("/api/v1/agents/register", body)
        .await
        .expect(200);
    let mut had = Vec::new();
    loop {
        let answer = client.claim(&agent).await;
        let Some(task) = answer["task"]["id"].as_str() else {
            let open = client
                .get("/api/v1/tasks?status=ready,claimed,in_progress")
                .await;
            if open.expect(200)["tasks"].as_array().unwrap().is_empty() {
                return had;
            }
            continue;
        };
        let complete = json!({ "agentId": agent, "taskId": task, "result": result("done") });
        let path = format!("/api/v1/tasks/{task}/complete");
        client.post(&path, complete).await.expect(200);
        had.push(task.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_and_http_agents_at_two_coordinators_take_each_task_once() {
    let Some(swarm) = Swarm::new("a mixed swarm", 2).await else {
        return;
    };
    let agents: Vec<String> = (1..=4).map(|i| format!("sql-{i}")).collect();
    for agent in &agents {
        let insert = format!("INSERT INTO agents(id, name) VALUES ('{agent}', 'By hand')");
        swarm.psql(&insert).await;
    }
    let insert = format!(
        "INSERT INTO tasks(id, title, status) SELECT 't' || i, 'one of many', 'ready' FROM generate_series(1, {TASKS}) i"
    );
    swarm.psql(&insert).await;
    let url: Arc<str> = swarm.database.url.as_str().into();
    let mut workers = Vec::new();
    for (agent, claim) in agents
        .into_iter()
        .zip([CLAIM, CLAIM_AGAIN].into_iter().cycle())
    {
        workers.push(tokio::spawn(work_by_sql(Arc::clone(&url), agent, claim)));
    }
    for (hub, name) in swarm.hubs.iter().zip(["http-1", "http-2"]) {
        workers.push(tokio::spawn(work_by_http(hub.client, name.to_owned())));
    }
    let mut had: HashMap<String, usize> = HashMap::new();
    for worker in workers {
        for task in worker.await.unwrap() {
            *had.entry(task).or_default() += 1;
        }
    }
    assert_eq!(had.len(), TASKS);
    assert!(had.values().all(|times| *times == 1), "{had:?}");
    let adopted = "SELECT count(*) FROM sb_hand";
    eventually(async || swarm.psql(adopted).await == "0").await;
    assert_eq!(swarm.events("task_claimed").await.len(), TASKS);
    assert_eq!(swarm.events("task_completed").await.len(), TASKS);
    assert!(swarm.events("write_undone").await.is_empty());
    swarm.stop().await;
}

#[tokio::test]
async fn a_claim_while_work_is_paused_changes_no_row_and_is_no_error() {
    let Some(swarm) = Swarm::new("claims during a pause", 1).await else {
        return;
    };
    let http = swarm.http();
    http.register("a", &[]).await;
    let id = http.task("T").await;
    let claim = "UPDATE tasks SET status = 'claimed', assigned_agent = 'a' WHERE status = 'ready' RETURNING id";
    http.post("/api/v1/pause", json!({})).await.expect(200);
    assert_eq!(swarm.psql(claim).await, "");
    http.post("/api/v1/resume", json!({})).await.expect(200);
    assert_eq!(swarm.psql(claim).await, id);
    assert_eq!(swarm.becomes(&id, "claimed").await["assignedAgent"], "a");
    swarm.stop().await;
}
