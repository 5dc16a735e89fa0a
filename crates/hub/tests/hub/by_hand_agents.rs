//! Agents that come, go and talk by SQL: nothing of theirs is lost.

use serde_json::json;

use crate::by_hand::{DOCUMENTS_CLAIM, Mixed, all, claim};

#[tokio::test]
async fn an_agent_deleted_by_sql_keeps_its_history_and_comes_back_with_it() {
    for come in [
        "INSERT INTO agents(id, name) VALUES ('s1', 'again')",
        "INSERT OR REPLACE INTO agents(id, name) VALUES ('s1', 'again')",
        "INSERT INTO agents(id, name) VALUES ('s1', 'again') ON CONFLICT(id) DO UPDATE SET name = excluded.name",
    ] {
        let mixed = Mixed::start().await;
        mixed.sql("INSERT INTO agents(id, name, machine_id, pid) VALUES ('s1', 's1', 'box', 7), ('s2', 's2', NULL, NULL)").await;
        mixed
            .sql("INSERT INTO tasks(id, title) VALUES ('t', 't'), ('u', 'u')")
            .await;
        claim(&mixed.hand, DOCUMENTS_CLAIM, "s1", "[]", "");
        mixed
            .sql("UPDATE tasks SET status = 'completed' WHERE id = 't'")
            .await;
        claim(&mixed.hand, DOCUMENTS_CLAIM, "s1", "[]", "");
        mixed.sql("INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src', 's1', 'u', datetime('now', '+5 minutes'))").await;
        mixed.sql("INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES ('m', 'custom', 's2', 's1', '1')").await;
        let before = mixed.latest().await;
        mixed.sql("DELETE FROM agents WHERE id = 's1'").await;
        assert_eq!(
            mixed.said(before).await,
            [
                "lease_released",
                "task_requeued",
                "task_ready",
                "agent_deregistered"
            ],
            "{come}"
        );
        let gone = mixed.agent("s1").await;
        assert_eq!(
            (gone["status"].as_str(), gone["tasksCompleted"].as_u64()),
            (Some("offline"), Some(1))
        );
        let task = mixed.task("u").await;
        assert_eq!(
            (task["status"].as_str(), task["retryCount"].as_u64()),
            (Some("ready"), Some(0))
        );
        assert_eq!(
            mixed.task("t").await["assignedAgent"],
            "s1",
            "what it did stays its own"
        );
        // A message to one that is gone waits for it.
        mixed.sql("INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES ('n', 'custom', 's2', 's1', '2')").await;
        mixed.sql(come).await;
        let back = mixed.agent("s1").await;
        assert_eq!(
            (
                back["status"].as_str(),
                back["name"].as_str(),
                back["tasksCompleted"].as_u64()
            ),
            (Some("idle"), Some("again"), Some(1)),
            "{come}"
        );
        assert_eq!(
            all(
                &mixed.hand,
                "SELECT id FROM messages WHERE to_agent = 's1' AND delivered_at IS NULL ORDER BY id"
            ),
            [["m"], ["n"]],
            "{come}"
        );
        assert_eq!(
            mixed.one("SELECT inbox FROM agents WHERE id = 's1'"),
            "2",
            "{come}"
        );
        let got = mixed
            .hub
            .client
            .get("/api/v1/messages?agentId=s1")
            .await
            .expect(200);
        assert_eq!(got["messages"].as_array().unwrap().len(), 2, "{come}");
        mixed.stop().await;
    }
}

#[tokio::test]
async fn replacing_ones_own_row_keeps_tasks_and_leases_and_another_process_loses_them() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO agents(id, name, machine_id, pid) VALUES ('s1', 's1', 'box', 7)")
        .await;
    mixed
        .sql("INSERT INTO tasks(id, title) VALUES ('t', 't')")
        .await;
    mixed
        .sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1'")
        .await;
    mixed.sql("INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 's1', datetime('now', '+5 minutes'))").await;
    for same in ["NULL, NULL", "'box', 7"] {
        mixed.sql(&format!("REPLACE INTO agents(id, name, skills, machine_id, pid) VALUES ('s1', 's1', '[\"rust\"]', {same})")).await;
        assert_eq!(mixed.task("t").await["assignedAgent"], "s1", "{same}");
        assert_eq!(
            all(&mixed.hand, "SELECT agent_id FROM leases"),
            [["s1"]],
            "{same}"
        );
        assert_eq!(
            mixed.one("SELECT status FROM agents"),
            "busy",
            "a new row is idle by default, not by its word: {same}"
        );
        assert_eq!(mixed.one("SELECT holds FROM agents"), "[\"t\"]", "{same}");
    }
    mixed
        .sql("REPLACE INTO agents(id, name, machine_id, pid) VALUES ('s1', 's1', 'box', 8)")
        .await;
    assert_eq!(mixed.task("t").await["status"], "ready");
    assert!(all(&mixed.hand, "SELECT * FROM leases").is_empty());
    assert_eq!(mixed.agent("s1").await["status"], "idle");
    mixed.stop().await;
}

#[tokio::test]
async fn what_an_agent_says_it_does_holds_and_a_beat_says_nothing_of_it() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1'); INSERT INTO tasks(id, title) VALUES ('t', 't')")
        .await;
    // All before the hub looks: the row still says idle when it beats.
    mixed
        .sql(
            "BEGIN; UPDATE tasks SET status = 'claimed', assigned_agent = 's1';
             UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 's1'; COMMIT",
        )
        .await;
    assert_eq!(mixed.agent("s1").await["status"], "busy");
    mixed
        .sql("UPDATE agents SET current_task_progress = 60, current_task_phase = 'testing' WHERE id = 's1'")
        .await;
    let shown = all(
        &mixed.hand,
        "SELECT current_task_id, current_task_progress, current_task_phase FROM agents",
    );
    assert_eq!(shown, [["t", "60", "testing"]]);
    for status in ["idle", "error", "shutting_down", "busy"] {
        let say = format!("UPDATE agents SET status = '{status}' WHERE id = 's1'");
        mixed.sql(&say).await;
        assert_eq!(mixed.agent("s1").await["status"], status);
    }
    mixed.stop().await;
}

#[tokio::test]
async fn signing_off_by_status_is_final_until_it_registers_again() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2')")
        .await;
    mixed
        .sql("UPDATE agents SET status = 'offline' WHERE id = 's1'")
        .await;
    let before = mixed.latest().await;
    // A sweep of a client's own that marks everyone wakes nobody.
    mixed.sql("UPDATE agents SET status = 'offline'; UPDATE agents SET total_runtime_minutes = 3 WHERE id = 's1'").await;
    assert_eq!(mixed.said(before).await, ["agent_deregistered"]);
    assert!(all(&mixed.hand, "SELECT id FROM agents").is_empty());
    let heartbeat = "UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 's1'";
    assert_eq!(mixed.hand.execute(heartbeat, []), Ok(0), "register again");
    mixed
        .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1')")
        .await;
    assert_eq!(
        mixed.one("SELECT group_concat(presence) FROM agents"),
        "live"
    );
    mixed.stop().await;
}

#[tokio::test]
async fn counters_and_orders_belong_to_the_hub_whatever_a_client_writes() {
    let mixed = Mixed::start().await;
    mixed
        .sql("INSERT INTO agents(id, name, tasks_completed) VALUES ('s1', 's1', 99)")
        .await;
    assert_eq!(mixed.agent("s1").await["tasksCompleted"], 0);
    mixed.sql("UPDATE agents SET tasks_completed = tasks_completed + 5, skills = '[\"SQL\"]' WHERE id = 's1'").await;
    assert_eq!(
        all(&mixed.hand, "SELECT tasks_completed, skills FROM agents"),
        [["0", "[\"sql\"]"]]
    );
    mixed
        .hub
        .client
        .post(
            "/api/v1/agents/s1/commands",
            json!({ "command": { "type": "PING" } }),
        )
        .await;
    mixed
        .sql("UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 's1'")
        .await;
    mixed.stop().await;
}

#[tokio::test]
async fn a_broadcast_is_read_by_each_sql_agent_in_its_own_copy() {
    let mixed = Mixed::start().await;
    mixed.hub.client.register("h1", &[]).await;
    mixed
        .sql("INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2')")
        .await;
    let sent = json!({ "agentId": "h1", "message": { "id": "hello", "type": "custom", "payload": { "n": 1 }, "ackRequired": true } });
    mixed
        .hub
        .client
        .post("/api/v1/messages", sent)
        .await
        .expect(200);
    mixed.sql("INSERT INTO messages(id, type, from_agent, payload) VALUES ('reply', 'custom', 's1', '2')").await;
    let unread = |agent: &str| {
        let sql = format!(
            "SELECT type, payload, from_agent FROM messages WHERE (to_agent = '{agent}' OR to_agent IS NULL) AND delivered_at IS NULL ORDER BY created_at"
        );
        all(&mixed.hand, &sql)
    };
    assert_eq!(unread("s1"), [["custom", "{\"n\":1}", "h1"]]);
    assert_eq!(
        unread("s2"),
        [["custom", "{\"n\":1}", "h1"], ["custom", "2", "s1"]]
    );
    mixed.sql("UPDATE messages SET delivered_at = CURRENT_TIMESTAMP WHERE (to_agent = 's1' OR to_agent IS NULL) AND delivered_at IS NULL").await;
    assert!(unread("s1").is_empty());
    assert_eq!(
        unread("s2").len(),
        2,
        "what one has read is unread for the other"
    );
    mixed.sql("UPDATE messages SET acknowledged_at = CURRENT_TIMESTAMP WHERE to_agent = 's2' AND acknowledged_at IS NULL AND from_agent = 'h1'").await;
    let shown = mixed
        .hub
        .client
        .get("/api/v1/messages/hello")
        .await
        .expect(200);
    let state = |agent: &str| {
        let deliveries = shown["deliveries"].as_array().unwrap();
        let row = deliveries.iter().find(|row| row["agentId"] == agent);
        row.unwrap()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (state("s1"), state("s2")),
        ("delivered".to_owned(), "acknowledged".to_owned())
    );
    assert_eq!(unread("s2"), [["custom", "2", "s1"]]);
    // Deleting one's copy is reading it; the message itself stays.
    mixed
        .sql("DELETE FROM messages WHERE to_agent = 's2'")
        .await;
    assert!(unread("s2").is_empty());
    let got = mixed
        .hub
        .client
        .get("/api/v1/messages?agentId=h1")
        .await
        .expect(200);
    assert_eq!(got["messages"][0]["payload"], 2);
    let listed = mixed
        .hub
        .client
        .get("/api/v1/messages?all=true")
        .await
        .expect(200);
    assert_eq!(
        listed["messages"].as_array().unwrap().len(),
        2,
        "copies are no messages of their own"
    );
    mixed.stop().await;
}

#[tokio::test]
async fn an_offer_made_and_taken_in_sql_moves_the_claim_and_its_leases() {
    let mixed = Mixed::start().await;
    mixed.sql("INSERT INTO agents(id, name) VALUES ('s1', 's1'), ('s2', 's2'); INSERT INTO tasks(id, title) VALUES ('t', 't')").await;
    mixed
        .sql("UPDATE tasks SET status = 'claimed', assigned_agent = 's1'")
        .await;
    mixed.sql("INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src', 's1', 't', datetime('now', '+5 minutes'))").await;
    mixed.sql("INSERT INTO messages(id, type, from_agent, to_agent, payload) VALUES ('m', 'task.handoff', 's1', 's2', '{\"taskId\":\"t\"}')").await;
    mixed.sql("UPDATE messages SET acknowledged_at = CURRENT_TIMESTAMP, acknowledged_by = 's2' WHERE id = 'm'").await;
    assert_eq!(
        all(
            &mixed.hand,
            "SELECT assigned_agent, epoch, status FROM tasks"
        ),
        [["s2", "2", "claimed"]]
    );
    assert_eq!(
        all(&mixed.hand, "SELECT agent_id, task_id FROM leases"),
        [["s2", "t"]]
    );
    mixed.sql("UPDATE tasks SET status = 'completed' WHERE id = 't' AND assigned_agent = 's2' AND epoch = 2").await;
    assert_eq!(mixed.agent("s2").await["tasksCompleted"], 1);
    mixed.stop().await;
}

#[tokio::test]
async fn insert_claim_and_complete_in_one_transaction_are_all_taken_in_order() {
    let mixed = Mixed::start().await;
    let before = mixed.latest().await;
    mixed.sql("BEGIN IMMEDIATE;
        INSERT INTO agents(id, name) VALUES ('s1', 's1');
        UPDATE agents SET last_heartbeat = CURRENT_TIMESTAMP WHERE id = 's1';
        INSERT INTO tasks(id, title, status) VALUES ('t', 't', 'ready');
        UPDATE tasks SET status = 'claimed', assigned_agent = 's1', claimed_at = CURRENT_TIMESTAMP WHERE id = 't';
        INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('src', 's1', 't', datetime('now', '+5 minutes'));
        UPDATE leases SET expires_at = datetime('now', '+10 minutes') WHERE file_path = 'src';
        UPDATE tasks SET description = 'found out while at it' WHERE id = 't';
        UPDATE tasks SET status = 'completed', result = '{}' WHERE id = 't';
        DELETE FROM leases WHERE file_path = 'src';
        INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'custom', 's1', 's1');
        UPDATE messages SET delivered_at = CURRENT_TIMESTAMP WHERE id = 'm';
        DELETE FROM agents WHERE id = 's1';
        COMMIT").await;
    let said = mixed.said(before).await;
    assert_eq!(
        said,
        [
            "agent_registered",
            "task_created",
            "task_claimed",
            "lease_acquired",
            "lease_extended",
            "task_changed",
            "lease_released",
            "task_completed",
            "message_sent",
            "message_delivered",
            "agent_deregistered",
        ]
    );
    assert_eq!(
        all(
            &mixed.hand,
            "SELECT number, status, description, assigned_agent FROM tasks"
        ),
        [["1", "completed", "found out while at it", "s1"]]
    );
    assert_eq!(
        all(
            &mixed.hand,
            "SELECT presence, tasks_completed, inbox FROM sb_gone_agent"
        ),
        [["gone", "1", "0"]]
    );
    mixed.stop().await;
}
