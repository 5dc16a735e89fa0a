//! The journal `.squidrun/runtime/evidence-ledger.db` and what is made of it: in step with the ledger, whatever becomes of
//! the file.

use std::fs;

use rusqlite::params;
use serde_json::{Value, json};

use crate::squidrun_kit::{Dir, Served, serve};
use crate::world::eventually;

/// A hub with one message to the builder.
async fn said(dir: &Dir, hub: &Served, id: &str) {
    dir.put(
        "builder",
        &format!("[HM-MESSAGE-ID:{id}]\n(ARCH #1): DECISION: ship {id}"),
    );
    hub.hears(id).await;
}

#[tokio::test]
async fn startup_journal_path_has_every_message_and_statuses_advance() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    hub.client.register("builder", &[]).await;
    said(&dir, &hub, "m1").await;
    let row = dir.is_journaled("m1", "brokered").await;
    assert_eq!(row["session_id"], "app-session-1");
    assert_eq!(row["sender_role"], "architect");
    assert_eq!(row["target_role"], "builder");
    assert_eq!(row["channel"], "ws");
    assert_eq!(row["direction"], "outbound");
    assert_eq!(row["raw_body"], "(ARCH #1): DECISION: ship m1");
    assert_eq!(row["body_bytes"], 28);
    assert_eq!(row["body_hash"].as_str().unwrap().len(), 64);
    assert_eq!(row["ack_status"], "fallback.triggered");
    assert_eq!(row["error_code"], Value::Null);
    assert!(
        row["brokered_at_ms"].is_i64() && row["updated_at_ms"].is_i64(),
        "{row}"
    );
    let received = hub.client.get("/api/v1/messages?agentId=builder").await;
    assert_eq!(
        received.expect(200)["messages"].as_array().unwrap().len(),
        1
    );
    dir.is_journaled("m1", "routed").await;
    let acked = hub
        .client
        .post("/api/v1/messages/m1/ack", json!({ "agentId": "builder" }))
        .await;
    acked.expect(200);
    let row = dir.is_journaled("m1", "acked").await;
    assert_eq!(row["ack_status"], "delivered.verified");
    dir.put("builder", "[HM-MESSAGE-ID:m2]\n");
    let row = dir.is_journaled("m2", "failed").await;
    assert_eq!(
        row["error_code"], "invalid_message",
        "what was refused is a row too"
    );
    for (name, id, reason) in [
        ("nobody", "m3", "invalid_target"),
        ("all", "m4", "no_targets"),
    ] {
        // The only one that is registered is its sender.
        dir.put(
            name,
            &format!("[HM-MESSAGE-ID:{id}]\n(BUILDER #1): anybody?"),
        );
        let row = dir.is_journaled(id, "failed").await;
        assert_eq!(row["error_code"], reason);
        assert_eq!(row["raw_body"], "(BUILDER #1): anybody?");
    }
    hub.stop().await;
}

/// What becomes of the file while no hub runs, or while one does.
async fn survives(spoil: impl Fn(&Dir)) {
    for while_served in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::of(home.path());
        let mut hub = serve(home.path()).await;
        said(&dir, &hub, "m1").await;
        dir.is_journaled("m1", "brokered").await;
        if while_served {
            spoil(&dir);
        } else {
            hub.stop().await;
            spoil(&dir);
            hub = serve(home.path()).await;
        }
        said(&dir, &hub, "m2").await;
        for id in ["m1", "m2"] {
            eventually(async || dir.row(id).is_some_and(|row| row["status"] == "brokered")).await;
        }
        hub.stop().await;
    }
}

#[tokio::test]
async fn a_journal_that_is_missing_is_written_anew() {
    survives(|dir| fs::remove_dir_all(dir.path.join("runtime")).unwrap()).await;
}

#[tokio::test]
async fn a_journal_that_is_damaged_is_set_aside_and_written_anew() {
    survives(|dir| {
        // As a program does that writes a file of its own there.
        fs::write(
            dir.path.join("new"),
            "no database, but long enough to be taken for one",
        )
        .unwrap();
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{end}", dir.journal_path().display()));
        }
        fs::rename(dir.path.join("new"), dir.journal_path()).unwrap();
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    fs::create_dir_all(dir.path.join("runtime")).unwrap();
    fs::write(dir.journal_path(), "theirs").unwrap();
    let hub = serve(home.path()).await;
    said(&dir, &hub, "m1").await;
    dir.is_journaled("m1", "brokered").await;
    let aside = dir
        .names("runtime")
        .into_iter()
        .find(|name| name.contains("set-aside"))
        .unwrap();
    assert_eq!(
        dir.text(&format!("runtime/{aside}")).as_deref(),
        Some("theirs")
    );
    hub.stop().await;
}

#[tokio::test]
async fn a_journal_that_is_further_than_its_ledger_begins_anew() {
    survives(|dir| {
        let further = "UPDATE switchboard_upto SET seq = seq + 1000";
        dir.journal().execute_batch(further).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_journal_of_another_version_is_set_aside_and_one_with_more_columns_is_used() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    fs::create_dir_all(dir.path.join("runtime")).unwrap();
    let lacking = "CREATE TABLE comms_journal (row_id INTEGER PRIMARY KEY, message_id TEXT UNIQUE)";
    dir.journal().execute_batch(lacking).unwrap();
    let hub = serve(home.path()).await;
    said(&dir, &hub, "m1").await;
    dir.is_journaled("m1", "brokered").await;
    assert!(
        dir.names("runtime")
            .iter()
            .any(|name| name.contains("set-aside"))
    );
    hub.stop().await;
    let more = "ALTER TABLE comms_journal ADD COLUMN theirs TEXT; UPDATE comms_journal SET theirs = 'kept'";
    dir.journal().execute_batch(more).unwrap();
    let hub = serve(home.path()).await;
    said(&dir, &hub, "m2").await;
    dir.is_journaled("m2", "brokered").await;
    let kept = dir.journal().query_row(
        "SELECT theirs FROM comms_journal WHERE message_id = 'm1'",
        [],
        |row| row.get::<_, String>(0),
    );
    assert_eq!(kept.unwrap(), "kept");
    hub.stop().await;
}

#[tokio::test]
async fn a_journal_that_others_lock_is_written_once_they_let_go() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    let other = dir.journal();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    said(&dir, &hub, "m1").await;
    hub.client.task("served meanwhile").await;
    other.execute_batch("ROLLBACK").unwrap();
    dir.is_journaled("m1", "brokered").await;
    hub.stop().await;
}

#[tokio::test]
async fn a_long_log_without_messages_is_read_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    for batch in 0..13 {
        let tasks: Vec<Value> = (0..100)
            .map(|number| json!({ "title": format!("{batch}/{number}") }))
            .collect();
        let made = hub.client.post("/api/v1/tasks", json!({ "tasks": tasks }));
        made.await.expect(201);
    }
    hub.stop().await;
    fs::remove_dir_all(dir.path.join("runtime")).unwrap();
    let hub = serve(home.path()).await;
    said(&dir, &hub, "m1").await;
    dir.is_journaled("m1", "brokered").await;
    hub.stop().await;
}

fn record(dir: &Dir, id: &str, target: &str, sent_at_ms: i64) {
    let query = "INSERT INTO comms_journal (message_id, sender_role, target_role, channel, direction, sent_at_ms,
        raw_body, status, metadata_json, updated_at_ms) VALUES (?1, 'architect', ?2, 'ws', 'outbound', ?3, ?4,
        'recorded', '{\"theirs\":1}', ?3)";
    let body = format!("(ARCH #7): {id}");
    dir.journal()
        .execute(query, params![id, target, sent_at_ms, body])
        .unwrap();
}

#[tokio::test]
async fn a_message_that_only_its_senders_row_tells_of_is_delivered_or_given_up() {
    const DAY: i64 = 24 * 3600 * 1000;
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    let now = hub.running.hub.wall().0;
    record(&dir, "young", "builder", now + DAY);
    record(&dir, "user", "user", now - 60_000);
    record(&dir, "lost", "builder", now - 11_000);
    record(&dir, "unknown", "nobody", now - 60_000);
    record(&dir, "old", "builder", now - DAY - 1000);
    let payload = hub.hears("lost").await;
    assert_eq!(payload["text"], "(ARCH #7): lost");
    assert_eq!(
        payload["metadata"],
        json!({ "theirs": 1, "recovered": true })
    );
    assert_eq!(hub.sender("lost").await, "architect");
    dir.is_journaled("lost", "brokered").await;
    let row = dir.is_journaled("old", "failed").await;
    assert_eq!(row["error_code"], "never_arrived");
    for waits in ["young", "user", "unknown"] {
        assert_eq!(dir.row(waits).unwrap()["status"], "recorded", "{waits}");
    }
    // Its trigger file came after all.
    dir.put("builder", "[HM-MESSAGE-ID:young]\n(ARCH #7): young");
    dir.is_journaled("young", "brokered").await;
    assert_eq!(
        hub.messages().await,
        ["(ARCH #7): lost", "(ARCH #7): young"]
    );
    hub.stop().await;
}

#[tokio::test]
async fn rows_are_kept_for_so_many_days() {
    const DAY: i64 = 24 * 3600 * 1000;
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    let now = hub.running.hub.wall().0;
    hub.stop().await;
    for (id, age) in [("kept", 29), ("gone", 31)] {
        record(&dir, id, "user", now - age * DAY);
    }
    let acked = "UPDATE comms_journal SET status = 'acked'";
    dir.journal().execute_batch(acked).unwrap();
    let hub = serve(home.path()).await;
    eventually(async || dir.row("gone").is_none()).await;
    assert!(dir.row("kept").is_some());
    hub.stop().await;
}

#[tokio::test]
async fn rows_that_make_no_sense_hold_up_nobody() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    let huge = "x".repeat(8 * 1024 * 1024);
    let journal = dir.journal();
    for (id, target, body) in [
        (json!("blob"), "builder", json!(null)),
        (json!("x".repeat(500)), "builder", json!("text")),
        (json!("huge"), "builder", json!(huge)),
        (json!("empty"), "builder", json!("")),
    ] {
        let query = "INSERT INTO comms_journal (message_id, target_role, channel, direction, sent_at_ms, raw_body,
            status, metadata_json, updated_at_ms) VALUES (?1, ?2, 'ws', 'outbound', ?3, ?4, 'recorded', 'no JSON', 0)";
        let at = hub.running.hub.wall().0 - 20_000;
        journal
            .execute(query, params![id.as_str(), target, at, body.as_str()])
            .unwrap();
    }
    drop(journal);
    for id in ["blob", "huge", "empty"] {
        let row = dir.is_journaled(id, "failed").await;
        assert_eq!(row["error_code"], "invalid_message", "{id}");
    }
    said(&dir, &hub, "m1").await;
    dir.is_journaled("m1", "brokered").await;
    assert_eq!(hub.messages().await.len(), 1);
    hub.stop().await;
}

#[tokio::test]
async fn startup_handoff_index_is_generated_and_the_same_for_the_same_journal() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    let sections = [
        "## Coverage",
        "## Unresolved Claims",
        "## Decision Digest",
        "## Cross-Session Decisions",
        "## Tagged Signals",
        "## Failed Deliveries",
        "## Pending Deliveries",
        "## Recent Messages (250)",
    ];
    let index = dir.text("handoffs/session.md").unwrap();
    for section in sections {
        assert!(index.contains(section), "{index}");
    }
    said(&dir, &hub, "m1").await;
    dir.put(
        "oracle",
        "[HM-MESSAGE-ID:m2]\n(ARCH #2): [ACK REQUIRED] look\nBLOCKER: `disk`\u{7}",
    );
    hub.hears("m2").await;
    let shows = |word: &str| {
        dir.text("handoffs/session.md")
            .is_some_and(|index| index.contains(word))
    };
    eventually(async || {
        shows("`ship m1`") && shows("BLOCKER: `'disk'`") && shows("not acknowledged")
    })
    .await;
    let index = dir.text("handoffs/session.md").unwrap();
    assert!(index.contains("- session_id: app-session-1"), "{index}");
    assert!(index.contains("- rows_scanned: 2"), "{index}");
    fs::remove_file(dir.path.join("handoffs/session.md")).unwrap();
    hub.stop().await;
    let rows = switchboard_store::journal::Journal::read(&dir.journal_path(), 100, 100).unwrap();
    assert_eq!(switchboard_hub::squidrun::handoff::index(&rows), index);
}

#[tokio::test]
async fn startup_architect_briefing_comes_without_asking_and_tells_what_is_open() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    assert!(
        hub.message("briefing-1").await.is_none(),
        "nobody is there, and nothing was said"
    );
    hub.client.register("architect", &[]).await;
    hub.hears("briefing-1").await;
    said(&dir, &hub, "m1").await;
    dir.put("builder", "[HM-MESSAGE-ID:m2]\n(ARCH #2): TASK: mend it");
    hub.hears("m2").await;
    dir.put("builder", "[HM-MESSAGE-ID:m3]\n");
    dir.is_journaled("m3", "failed").await;
    hub.stop().await;
    let hub = serve(home.path()).await;
    let payload = hub.hears("briefing-2").await;
    let text = payload["text"].as_str().unwrap();
    assert!(text.starts_with("(HUB #1): Startup briefing"), "{text}");
    for part in [
        "`ship m1`",
        "TASK: `mend it`",
        "invalid_message",
        "session.md",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        hub.recipients("briefing-2").await,
        ["architect"],
        "other roles get none"
    );
    assert_eq!(hub.sender("briefing-2").await, "hub");
    hub.stop().await;
}
