//! Statements that mean no good, sent to a hub that others are using: each is refused, and nobody else notices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use switchboard_tests::{API, Client, Hub, Project, Request, until};

use crate::libsql::exports;

/// A statement and the code it is refused with; which of two, depends on whether somebody else wants to write.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    // Others' things.
    ("SELECT * FROM sb_token", "SQLITE_AUTH"),
    ("SELECT count(*) FROM \"sb_token\"", "SQLITE_AUTH"),
    ("SELECT hash FROM main.[SB_TOKEN]", "SQLITE_AUTH"),
    ("WITH sb_tasks_update AS (SELECT * FROM sb_token) SELECT * FROM sb_tasks_update", "SQLITE_AUTH"),
    ("WITH \u{feff}sb_x AS (SELECT * FROM \u{feff}sb_token) SELECT * FROM \u{feff}sb_x", "SQLITE_AUTH"),
    ("WITH \u{feff}sb_x AS (SELECT 'a' GLOB 'a') SELECT * FROM \u{feff}sb_x", "SQLITE_AUTH"),
    ("UPDATE sb_head SET seq = 0", "SQLITE_AUTH"),
    ("DELETE FROM sb_log", "SQLITE_AUTH"),
    ("INSERT INTO sb_hand DEFAULT VALUES", "SQLITE_AUTH"),
    ("UPDATE tasks SET rev = 100", "SQLITE_AUTH"),
    ("UPDATE tasks SET number = -1", "SQLITE_AUTH"),
    ("UPDATE agents SET key_generation = 1", "SQLITE_AUTH"),
    ("UPDATE leases SET fencing = 0", "SQLITE_AUTH"),
    ("SELECT * FROM dbstat", "SQLITE_AUTH"),
    ("SELECT * FROM pragma_database_list", "SQLITE_AUTH"),
    ("SELECT * FROM sqlite_temp_master", "SQLITE_AUTH"),
    // The schema.
    ("DROP TABLE tasks", "SQLITE_AUTH"),
    ("DROP TRIGGER IF EXISTS tasks_updated_at", "SQLITE_AUTH"),
    ("DROP INDEX idx_tasks_status", "SQLITE_AUTH"),
    ("ALTER TABLE tasks DROP COLUMN title", "SQLITE_AUTH"),
    ("ALTER TABLE tasks RENAME TO jobs", "SQLITE_AUTH"),
    ("CREATE TABLE mine (x)", "SQLITE_AUTH"),
    ("CREATE TEMP TABLE mine (x)", "SQLITE_AUTH"),
    ("CREATE TABLE IF NOT EXISTS mine AS SELECT * FROM tasks", "SQLITE_AUTH"),
    ("CREATE TRIGGER mine AFTER UPDATE ON tasks BEGIN DELETE FROM tasks; END", "SQLITE_AUTH"),
    ("CREATE TEMP TRIGGER mine AFTER UPDATE ON tasks BEGIN SELECT 1; END", "SQLITE_AUTH"),
    ("CREATE VIEW mine AS SELECT * FROM tasks", "SQLITE_AUTH"),
    ("CREATE VIRTUAL TABLE mine USING fts5(x)", "SQLITE_AUTH"),
    ("CREATE UNIQUE INDEX mine ON tasks(status)", "SQLITE_AUTH"),
    ("DELETE FROM sqlite_master", "SQLITE_ERROR"),
    ("UPDATE sqlite_master SET sql = ''", "SQLITE_ERROR"),
    ("INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, '')", "SQLITE_ERROR"),
    ("REINDEX", "SQLITE_AUTH"),
    ("ANALYZE", "SQLITE_AUTH"),
    // Other files, other settings.
    ("ATTACH '/etc/passwd' AS other", "SQLITE_AUTH"),
    ("ATTACH ':memory:' AS other", "SQLITE_AUTH"),
    ("VACUUM", "SQLITE_AUTH"),
    ("VACUUM INTO '/tmp/stolen.db'", "SQLITE_AUTH"),
    ("PRAGMA writable_schema = 1", "SQLITE_AUTH"),
    ("PRAGMA wal_checkpoint(TRUNCATE)", "SQLITE_AUTH"),
    ("PRAGMA integrity_check", "SQLITE_AUTH"),
    ("PRAGMA locking_mode = EXCLUSIVE", "SQLITE_AUTH"),
    ("PRAGMA max_page_count = 1", "SQLITE_AUTH"),
    ("PRAGMA soft_heap_limit = 1", "SQLITE_AUTH"),
    ("PRAGMA hard_heap_limit = 1", "SQLITE_AUTH"),
    ("PRAGMA ignore_check_constraints = 1", "SQLITE_AUTH"),
    ("PRAGMA temp_store_directory = '/'", "SQLITE_AUTH"),
    ("SELECT load_extension('/tmp/x.so')", "SQLITE_AUTH"),
    ("SELECT readfile('/etc/passwd')", "SQLITE_ERROR"),
    ("SELECT writefile('/tmp/x', 'y')", "SQLITE_ERROR"),
    ("SELECT sqlite_log(1, 'x')", "SQLITE_AUTH"),
    ("SELECT fts3_tokenizer('simple')", "SQLITE_AUTH"),
    // All there is of memory.
    ("SELECT randomblob(1000000000)", "SQLITE_TOOBIG"),
    ("SELECT zeroblob(2147483647)", "SQLITE_TOOBIG"),
    ("SELECT printf('%.*c', 1000000000, 'x')", "SQLITE_TOOBIG"),
    ("SELECT hex(hex(zeroblob(1000000)))", "SQLITE_TOOBIG"),
    ("SELECT replace(hex(zeroblob(500000)), '0', hex(zeroblob(500)))", "SQLITE_ERROR"),
    ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT zeroblob(200000) FROM c", "RESPONSE_TOO_LARGE"),
    ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c", "RESPONSE_TOO_LARGE"),
    ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT randomblob(1000000) FROM c ORDER BY 1", "SQLITE_NOMEM"),
    // All there is of time.
    ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "SQLITE_INTERRUPT"),
    ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(length(hex(randomblob(100000)))) FROM c", "SQLITE_INTERRUPT"),
    ("SELECT printf('%.*c', 1000000, 'a') LIKE '%' || printf('%.*c', 100000, '_') || 'b'", "SQLITE_ERROR"),
    // All there is of the write lock.
    ("INSERT INTO migrations(name) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c", "SQLITE_BUSY or SQLITE_INTERRUPT"),
    ("UPDATE swarm_metadata SET value = (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c)", "SQLITE_BUSY or SQLITE_INTERRUPT"),
    ("SELECT 1; SELECT 2", "SQLITE_ERROR"),
];

/// Statements that are refused for their size.
fn oversized() -> Vec<(String, &'static str)> {
    vec![
        (
            format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
            "SQLITE_ERROR",
        ),
        (format!("SELECT {}1", "+ ".repeat(5000)), "SQLITE_ERROR"),
        (
            format!(
                "SELECT * FROM {}tasks{}",
                "(SELECT * FROM ".repeat(3000),
                ")".repeat(3000)
            ),
            "SQLITE_ERROR",
        ),
        (
            format!("SELECT 1{}", " UNION SELECT 1".repeat(5000)),
            "SQLITE_ERROR",
        ),
        (format!("SELECT {}1", "1,".repeat(5000)), "SQLITE_ERROR"),
        (format!("SELECT max({}1)", "1,".repeat(200)), "SQLITE_ERROR"),
        (
            format!("SELECT 1 IN ({}1)", "abs(1),".repeat(2000)),
            "SQLITE_AUTH",
        ),
        (format!("SELECT '{}'", "x".repeat(400_000)), "SQLITE_TOOBIG"),
        ("SELECT 1;".repeat(25_000), "SQLITE_ERROR"),
        ("SELECT ?30000".to_owned(), "SQLITE_ERROR"),
    ]
}

/// Ends what goes on beside a test, however that ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Stranger {
    client: Client,
    token: String,
}

impl Stranger {
    fn send(&mut self, body: &Value) -> Value {
        let request = Request::post("/v2/pipeline", body)
            .header("Authorization", format!("Bearer {}", self.token));
        let answer = self.client.send(&request).expect("the hub answers");
        answer.json()
    }

    fn execute(&mut self, sql: &str) -> Value {
        let requests = json!([{ "type": "execute", "stmt": { "sql": sql } }, { "type": "close" }]);
        let mut answer = self.send(&json!({ "requests": requests }));
        answer["results"][0].take()
    }
}

fn stranger(project: &Project, hub: &Hub) -> Stranger {
    Stranger {
        client: hub.client(),
        token: exports(project)[1].1.clone(),
    }
}

#[test]
fn hostile_statements_are_refused_while_others_are_served() {
    let project = Project::new();
    let hub = project.start();
    let mut stranger = stranger(&project, &hub);
    let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|threads| {
        let citizen = threads.spawn(|| {
            let mut client = hub.client();
            client.register("citizen");
            while !over.load(Ordering::Relaxed) {
                let made = client.post(&format!("{API}/tasks"), &json!({ "title": "t" }));
                made.expect(201);
                let claimed = client.post(
                    &format!("{API}/tasks/claim"),
                    &json!({ "agentId": "citizen" }),
                );
                let task = claimed.expect(200)["task"]["id"].take();
                let task = task.as_str().expect("there is one").to_owned();
                let released = client.post(
                    &format!("{API}/tasks/{task}/release"),
                    &json!({ "agentId": "citizen" }),
                );
                released.expect(200);
                client.get(&format!("{API}/status")).expect(200);
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        let ends = Over(&over);
        let cases = REFUSED.iter().map(|(sql, code)| ((*sql).to_owned(), *code));
        for (sql, code) in cases.chain(oversized()) {
            let start: String = sql.chars().take(120).collect();
            let result = stranger.execute(&sql);
            assert_eq!(result["type"], "error", "{start}: {result}");
            let told = result["error"]["code"].as_str().unwrap_or_default();
            let is_one = code.split(" or ").any(|code| code == told);
            assert!(is_one, "{start}: {result} instead of {code}");
            let message = result["error"]["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty(), "{start}");
            let before = served.load(Ordering::Relaxed);
            until("somebody else is served", || {
                (served.load(Ordering::Relaxed) > before || citizen.is_finished()).then_some(())
            });
        }
        drop(ends);
        citizen.join().expect("everyone else was served");
    });
    let fine = stranger.execute("SELECT count(*) FROM migrations");
    assert_eq!(
        fine["response"]["result"]["rows"][0][0]["value"], "0",
        "{fine}"
    );
    hub.stop();
}

#[test]
fn a_transaction_that_is_kept_open_does_not_keep_others_from_writing() {
    let project = Project::new();
    let hub = project.start();
    let mut stranger = stranger(&project, &hub);
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        let hog = threads.spawn(|| {
            let mut lost = 0;
            while !over.load(Ordering::Relaxed) {
                let begin = json!([{ "type": "execute", "stmt": { "sql": "BEGIN IMMEDIATE" } }]);
                let answer = stranger.send(&json!({ "requests": begin }));
                let mut baton = answer["baton"].clone();
                // Busy with itself for as long as it is let.
                while baton.is_string() {
                    let read = json!([{ "type": "execute", "stmt": { "sql": "SELECT count(*) FROM tasks" } }]);
                    let answer = stranger.send(&json!({ "baton": baton, "requests": read }));
                    if answer["results"][0]["type"] != "ok" {
                        lost += 1;
                        break;
                    }
                    baton = answer["baton"].clone();
                }
            }
            lost
        });
        let ends = Over(&over);
        let mut client = hub.client();
        for name in 0..20 {
            let made = client.post(
                &format!("{API}/tasks"),
                &json!({ "title": format!("{name}") }),
            );
            made.expect(201);
        }
        drop(ends);
        assert!(hog.join().expect("it ends") > 0, "it had to give way");
    });
    hub.stop();
}
