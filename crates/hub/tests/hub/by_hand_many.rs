//! Much at once, hubs that come and go, and a note that nobody can take in.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use switchboard_core::slice::Save;
use switchboard_core::{Ask, Slice, Timestamp};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Begun, Engine, Error, HandPage, Reader};

use crate::by_hand::{DOCUMENTS_CLAIM, File, Mixed, all, claim, written};

const MANY: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO tasks(id, title, status) SELECT printf('t%05d', i), 'one of many', 'ready' FROM n";

#[tokio::test]
async fn five_thousand_tasks_come_in_while_others_claim_and_each_goes_to_one() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1')")
        .await;
    for agent in ["h1", "h2"] {
        mixed.hub.client.register(agent, &[]).await;
    }
    mixed.hub.client.task("first").await;
    let client = mixed.hub.client;
    let claims = ["h1", "h2"].map(|agent| {
        tokio::spawn(async move {
            let mut got = Vec::new();
            while got.len() < 100 {
                let claimed = client.claim(agent).await;
                got.extend(claimed["task"]["id"].as_str().map(str::to_owned));
            }
            got
        })
    });
    let hand = mixed.file.client();
    let by_sql = tokio::task::spawn_blocking(move || {
        written(&hand, MANY);
        let take = || claim(&hand, DOCUMENTS_CLAIM, "s1", "[]", "");
        (0..100).map(|_| take().unwrap()).collect::<Vec<String>>()
    });
    let mut all_taken = by_sql.await.unwrap();
    for agent in claims {
        all_taken.extend(agent.await.unwrap());
    }
    mixed.taken_in().await;
    let different: HashSet<&String> = all_taken.iter().collect();
    assert_eq!(
        (all_taken.len(), different.len()),
        (300, 300),
        "no task was handed out twice"
    );
    assert_eq!(
        mixed.one("SELECT count(*) FROM tasks WHERE number > 0 AND rev > 0"),
        "5001"
    );
    assert_eq!(
        mixed.one("SELECT count(*) FROM tasks WHERE status = 'claimed'"),
        "300"
    );
    let status = mixed.hub.client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["tasks"]["ready"], 4701, "{status}");
    // In the order in which they were written.
    assert_eq!(mixed.one("SELECT count(*) FROM tasks a JOIN tasks b ON b.number = a.number + 1 WHERE a.id LIKE 't0%' AND b.id LIKE 't0%' AND a.id > b.id"), "0");
    mixed.stop().await;
}

#[tokio::test]
async fn two_thousand_rows_in_one_statement_are_two_thousand_changes() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1')")
        .await;
    mixed.sql(&MANY.replace("5000", "2000")).await;
    let before = mixed.latest().await;
    mixed
        .sql("UPDATE tasks SET priority = 'high', title = 'renamed'")
        .await;
    assert_eq!(mixed.latest().await - before, 2000);
    // An agent holds so many and not one more, over any door.
    let before = mixed.latest().await;
    mixed
        .sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1'")
        .await;
    assert_eq!(mixed.latest().await - before, 2000);
    assert_eq!(
        mixed.one("SELECT count(*) FROM tasks WHERE status = 'claimed'"),
        "512"
    );
    assert_eq!(
        mixed.one("SELECT count(*) FROM tasks WHERE status = 'ready' AND lane IS NOT NULL"),
        "1488"
    );
    assert_eq!(
        mixed.one("SELECT json_array_length(holds) FROM agents"),
        "512"
    );
    mixed
        .sql("UPDATE tasks SET status = 'completed' WHERE status = 'claimed'")
        .await;
    assert_eq!(mixed.agent("s1").await["tasksCompleted"], 512);
    mixed.stop().await;
}

/// What SQL agents do while nobody serves.
const WORKDAY: &str = "
    INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2');
    INSERT INTO tasks(id, title) VALUES ('t', 't'); INSERT INTO tasks(id, title, dependencies) VALUES ('u', 'u', '[\"t\"]');
    UPDATE tasks SET status = 'ready' WHERE id = 't';
    UPDATE tasks SET status = 'claimed', assigned_agent = 's1' WHERE id = 't';
    UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 's1';
    INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES ('m', 'custom', 's1', 's2', '1');
    UPDATE messages SET delivered_at = CURRENT_TIMESTAMP WHERE id = 'm';
    INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src', 's1', 't', datetime('now', '+5 minutes'));
    UPDATE tasks SET status = 'completed' WHERE id = 't';
    DELETE FROM agents WHERE id = 's2';";
const WORKDAY_SAID: &[&str] = &[
    "agent_registered",
    "agent_registered",
    "task_created",
    "task_created",
    "task_claimed",
    "message_sent",
    "message_delivered",
    "lease_acquired",
    "lease_released",
    "task_completed",
    "task_ready",
    "agent_deregistered",
];

#[tokio::test]
async fn what_was_written_while_the_hub_was_down_is_taken_in_at_start_and_in_order() {
    let mixed = Mixed::start().await;
    mixed.hub.client.task("before").await;
    let before = mixed.latest().await;
    let Mixed { file, hub, hand } = mixed;
    hub.running.shutdown().await;
    written(&hand, WORKDAY);
    let mixed = Mixed {
        hub: file.serve().await,
        hand,
        file,
    };
    // The first answer of a new hub knows all of it.
    assert_eq!(mixed.task("u").await["status"], "ready");
    assert_eq!(mixed.said(before).await, WORKDAY_SAID);
    assert!(all(&mixed.hand, "SELECT n FROM sb_hand").is_empty());
    mixed.stop().await;
}

#[tokio::test]
async fn a_hub_that_dies_in_the_middle_leaves_every_note_for_the_next_one() {
    let file = File::new();
    let mut engine = file.engine();
    let hand = file.client();
    written(&hand, WORKDAY);
    // Half way: notes were read and rows saved, and then there is no commit.
    let mut slice = Slice::default();
    assert!(engine.begin(&mut slice).unwrap().by_hand);
    let found = engine.hand_notes(5, &mut slice).unwrap();
    assert_eq!((found.notes.len(), found.is_last), (5, false));
    for note in &found.notes {
        let changes = note.undone("never".to_owned());
        slice.apply(changes, Timestamp(0));
    }
    slice.save_rows(|save| engine.save(save)).unwrap();
    drop(engine);
    let hub = file.serve().await;
    let mixed = Mixed { file, hub, hand };
    assert_eq!(mixed.said(0).await, WORKDAY_SAID);
    let Mixed { file, hub, hand } = mixed;
    hub.running.shutdown().await;
    // Nothing is taken in twice.
    written(
        &hand,
        "INSERT INTO tasks(id, title) VALUES ('late', 'late')",
    );
    let mixed = Mixed {
        hub: file.serve().await,
        hand,
        file,
    };
    let said = mixed.said(0).await;
    assert_eq!(said[..WORKDAY_SAID.len()], *WORKDAY_SAID);
    assert_eq!(said[WORKDAY_SAID.len()..], ["task_created"]);
    mixed.stop().await;
}

/// An engine that panics when it is asked where tasks wait that require the skill `trap`.
struct Trap {
    inner: SqliteEngine,
    panics: Arc<AtomicU64>,
}

impl Engine for Trap {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        self.inner.begin(slice)
    }
    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        let trapped = |ask: &Ask| matches!(ask, Ask::LaneByKey(key) if key.skills.contains("trap"));
        if asks.iter().any(trapped) {
            self.panics.fetch_add(1, Ordering::SeqCst);
            panic!("the test asked for it");
        }
        self.inner.load(asks, slice)
    }
    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        self.inner.save(save)
    }
    fn commit(&mut self) -> Result<(), Error> {
        self.inner.commit()
    }
    fn rollback(&mut self) {
        self.inner.rollback();
    }
    fn hand_notes(&mut self, limit: usize, slice: &mut Slice) -> Result<HandPage, Error> {
        self.inner.hand_notes(limit, slice)
    }
    fn looks_every(&self) -> Option<std::time::Duration> {
        self.inner.looks_every()
    }
    fn look(&mut self) -> Result<bool, Error> {
        self.inner.look()
    }
    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        self.inner.next_due()
    }
    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        self.inner.reader()
    }
}

#[tokio::test]
async fn a_panic_while_a_write_is_taken_in_puts_its_row_back_and_the_hub_goes_on() {
    let file = File::new();
    let panics = Arc::new(AtomicU64::new(0));
    let trap = Trap {
        inner: file.engine(),
        panics: Arc::clone(&panics),
    };
    let hub = file.serve_as(Box::new(trap), |_| {}).await;
    let hand = file.client();
    let mixed = Mixed { file, hub, hand };
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't'), ('u', 'u')")
        .await;
    let before = mixed.latest().await;
    mixed.sql("BEGIN; UPDATE tasks SET title = 'one' WHERE id = 'u'; UPDATE tasks SET required_skills = '[\"trap\"]' WHERE id = 't';
        INSERT INTO tasks(id, title, required_skills) VALUES ('v', 'v', '[\"trap\"]'); INSERT INTO tasks(id, title) VALUES ('w', 'w'); COMMIT").await;
    assert_eq!(panics.load(Ordering::SeqCst), 2);
    assert_eq!(
        mixed.said(before).await,
        [
            "task_changed",
            "write_undone",
            "write_undone",
            "task_created"
        ]
    );
    assert_eq!(
        all(
            &mixed.hand,
            "SELECT id, title, required_skills FROM tasks ORDER BY id"
        ),
        [["t", "t", "[]"], ["u", "one", "[]"], ["w", "w", "[]"]]
    );
    mixed.hub.client.register("h1", &[]).await;
    assert_eq!(mixed.hub.client.claim("h1").await["task"]["id"], "t");
    let body = json!({ "tasks": [{ "id": "v", "title": "now over HTTP" }] });
    mixed
        .hub
        .client
        .post("/api/v1/tasks", body)
        .await
        .expect(201);
    mixed.stop().await;
}

#[tokio::test]
async fn words_that_are_no_text_stop_nobody() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't')")
        .await;
    mixed.sql("UPDATE tasks SET title = CAST(x'74c3' AS TEXT) WHERE id = 't';
        INSERT INTO tasks(id, title) VALUES (CAST(x'c3' AS TEXT), 'odd');
        INSERT INTO agents(id, name) VALUES (CAST(x'c3' AS TEXT), 'odd'), ('s1', CAST(x'ff' AS TEXT));
        INSERT INTO messages(id, type, from_agent, payload) VALUES ('m', 'custom', CAST(x'fe' AS TEXT), CAST(x'ff' AS TEXT));
        INSERT INTO quality_snapshots(id, task_id) VALUES (CAST(x'ff' AS TEXT), CAST(x'ff' AS TEXT));
        INSERT INTO leases(file_path, agent_id, expires_at) VALUES (CAST(x'ff' AS TEXT), 's1', datetime('now', '+5 minutes'))").await;
    for path in [
        "tasks",
        "agents",
        "messages?all=true",
        "leases",
        "quality/history",
        "status",
        "events",
    ] {
        mixed
            .hub
            .client
            .get(&format!("/api/v1/{path}"))
            .await
            .expect(200);
    }
    for (table, rows) in [
        ("tasks", "number"),
        ("agents", "1"),
        ("messages", "copy_of IS NULL AND number"),
        ("leases", "1"),
    ] {
        let odd = format!("SELECT count(*) FROM {table} WHERE rev <= 0 OR {rows} <= 0");
        assert_eq!(mixed.one(&odd), "0", "{table}");
    }
    mixed.hub.client.register("h1", &[]).await;
    assert_eq!(mixed.hub.client.claim("h1").await["task"]["id"], "t");
    mixed.stop().await;
}
