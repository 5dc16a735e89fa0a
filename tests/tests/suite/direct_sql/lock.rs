//! What the page says of a file that another program keeps locked, of one that no hub serves, and of much at once.

use rusqlite::Connection;
use serde_json::json;
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Hub, Project, until};

use super::day::swarm_db;
use super::programs::{Python, Runner as _, Values};

#[test]
fn while_another_program_holds_the_lock_writes_are_refused_and_lists_go_on() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.create("before");
    let file = Connection::open(swarm_db(&project)).expect("it opens");
    file.execute_batch("BEGIN IMMEDIATE")
        .expect("the hub lets go between batches");
    let path = format!("{API}/tasks");
    let refused = client.post(&path, &json!({"id": "during", "title": "during"}));
    refused.expect_error(503, "db_unavailable");
    assert!(
        refused
            .text()
            .contains("another program holds the file's write lock"),
        "{}",
        refused.text()
    );
    let listed = client.get(&path).expect(200);
    assert_eq!(listed["tasks"][0]["id"], "before");
    file.execute_batch("ROLLBACK").expect("it was open");
    client.create("during");
}

#[test]
fn what_was_written_while_no_hub_ran_is_taken_in_when_one_starts() {
    let project = Project::new();
    let mut hub = project.start();
    hub.client().create("early");
    hub.kill();
    let what = "direct SQL without a hub";
    let Some(mut python) = Python::open(&swarm_db(&project), what) else {
        return;
    };
    let mut run = |block: &str, values: serde_json::Value| {
        let values: Values = values.as_object().expect("they have names").clone();
        python
            .run(block, &values)
            .unwrap_or_else(|error| panic!("{block}: {error}"))
    };
    run(
        "register",
        json!({"agent": "ann", "name": "Ann", "type": "custom", "skills": "[]", "minutes": 60, "tests": 1, "build": 1,
            "browser": 0, "machine": null, "hostname": null, "pid": null}),
    );
    run(
        "create_task",
        json!({"task": "late", "title": "late", "description": "text", "priority": "high", "type": "code", "skills": "[]",
            "dependencies": r#"["early"]"#, "files": "[]", "minutes": null}),
    );
    let claimed = run("claim", json!({"agent": "ann", "exclude": "[]"}));
    assert_eq!((claimed.len(), &claimed[0]["id"]), (1, &json!("early")));
    let mine =
        json!({"task": "early", "agent": "ann", "epoch": claimed[0]["epoch"], "result": "{}"});
    assert_eq!(run("complete", mine).len(), 1);
    let claimed = run("claim", json!({"agent": "ann", "exclude": "[]"}));
    assert_eq!(
        (claimed.len(), &claimed[0]["id"]),
        (1, &json!("late")),
        "its dependency is completed"
    );
    let hub = project.start();
    let mut client = hub.client();
    until("all of it is known", || {
        let shown = client.get(&format!("{API}/tasks/late"));
        (shown.status == 200 && shown.json()["task"]["status"] == "claimed").then_some(())
    });
    let task = client.task("late");
    assert_eq!(
        (&task["assignedAgent"], &task["description"]),
        (&json!("ann"), &json!("text"))
    );
    assert_eq!(client.task("early")["status"], "completed");
    let happened: Vec<serde_json::Value> = client
        .events()
        .into_iter()
        .map(|mut event| event["type"].take())
        .collect();
    let mut of_interest = happened.iter().filter(|kind| *kind != "outage_ended");
    let expected = [
        "task_created",
        "agent_registered",
        "task_created",
        "task_claimed",
        "task_completed",
        "task_ready",
        "task_claimed",
    ];
    assert!(of_interest.by_ref().eq(expected.iter()), "{happened:?}");
}

/// The most urgent task of thousands, and it is taken; more than the hub reads at a time.
const MUCH: &str = "
    INSERT INTO tasks (id, title, status, priority) VALUES ('anns', 'the best', 'ready', 'critical');
    INSERT INTO tasks (id, title, status, priority)
      WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 3000)
      SELECT 'task-' || n, 'one of many', 'ready', 'low' FROM count;
    INSERT INTO agents (id, name) VALUES ('ann', 'Ann');
    UPDATE tasks SET status = 'claimed', assigned_agent = 'ann' WHERE id = 'anns' AND status = 'ready';";

#[track_caller]
fn taken_in_whole(hub: &Hub, write: impl FnOnce()) {
    let mut client = hub.client();
    client.register("bob");
    write();
    // On PostgreSQL word of it may come a moment later.
    let claimed = until("there is something to claim", || client.claim("bob"));
    assert_eq!(claimed["priority"], "low", "{claimed}");
    assert_eq!(client.task("anns")["assignedAgent"], "ann");
    assert_eq!(client.status()["tasks"]["total"], 3001);
}

#[test]
fn a_task_that_was_claimed_in_sql_is_nobody_elses_while_much_more_is_taken_in() {
    let project = Project::new();
    let hub = project.start();
    let file = Connection::open(swarm_db(&project)).expect("it opens");
    taken_in_whole(&hub, || {
        file.execute_batch(&format!("BEGIN IMMEDIATE; {MUCH} COMMIT;"))
            .expect("all of it is allowed");
    });
}

#[test]
fn a_task_that_was_claimed_with_psql_is_nobody_elses_while_much_more_is_taken_in() {
    let Some(server) = Cluster::shared("much at once with psql") else {
        return;
    };
    let database = server.create_database();
    let project = Project::on(&database.url);
    let hub = project.start();
    taken_in_whole(&hub, || {
        database.sql(MUCH);
    });
}
