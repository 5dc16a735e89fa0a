//! Programs that were there before the hub, and begin by making their tables.

use rusqlite::Connection;
use serde_json::{Value, json};
use switchboard_tests::{API, Client, Project, until};

use super::day::swarm_db;
use super::programs::python;

#[test]
fn a_program_that_begins_by_making_its_own_tables_works_unchanged() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    let Some(()) = run(&project, "of-old") else {
        return;
    };
    let task = finished(&mut client, "of-old");
    assert_eq!(task["assignedAgent"], "old-timer", "{task}");
    assert_eq!(
        (&task["epoch"], &task["result"]["summary"]),
        (&json!(1), &json!("done"))
    );
    let happened: Vec<Value> = client
        .events()
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(
        happened,
        [
            "agent_registered",
            "task_created",
            "task_claimed",
            "task_progressed",
            "lease_acquired",
            "message_sent",
            "lease_released",
            "task_completed",
            "agent_deregistered"
        ]
    );
    // On another day its names are known, and so is its agent; in between the hub works as ever.
    client.register("ann");
    client.create("new");
    let claimed = client.claim("ann").expect("there is one");
    assert_eq!(claimed["id"], "new");
    client.complete("ann", "new", 1);
    run(&project, "of-now").expect("it ran before");
    finished(&mut client, "of-now");
    let shown = client.get(&format!("{API}/agents/old-timer")).expect(200);
    assert_eq!(
        shown["agent"]["tasksCompleted"], 2,
        "each is counted once: {shown}"
    );
    let undone = client
        .events()
        .into_iter()
        .find(|event| event["type"] == "write_undone");
    assert_eq!(undone, None);
}

#[test]
fn triggers_that_others_would_make_are_there_and_do_nothing() {
    let project = Project::new();
    let _hub = project.start();
    let Some(()) = run(&project, "of-old") else {
        return;
    };
    let file = Connection::open(swarm_db(&project)).expect("it opens");
    for name in [
        "tasks_updated_at",
        "baseline_updated_at",
        "metadata_updated_at",
    ] {
        let sql: String = file
            .query_row(
                "SELECT sql FROM sqlite_master WHERE name = ?",
                [name],
                |row| row.get(0),
            )
            .expect("it is there");
        assert!(sql.contains("WHEN 0"), "{sql}");
    }
    let theirs: u32 = file
        .query_row(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('memories', 'idx_agents_status')",
            [],
            |row| row.get(0),
        )
        .expect("it can be counted");
    assert_eq!(theirs, 2, "what only they have is made");
}

/// A day of such a program; `None` if it cannot be run here.
#[track_caller]
fn run(project: &Project, task: &str) -> Option<()> {
    let mut program = python("beginning.py", "a program that knows no hub")?;
    let ended = program
        .arg(swarm_db(project))
        .arg(task)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    Some(())
}

/// The task, once its agent has signed off.
#[track_caller]
fn finished(client: &mut Client, task: &str) -> Value {
    until(&format!("{task} is done and its agent gone"), || {
        let shown = client.get(&format!("{API}/tasks/{task}"));
        let agent = client.get(&format!("{API}/agents/old-timer"));
        let over = shown.status == 200
            && shown.json()["task"]["status"] == "completed"
            && agent.json()["agent"]["status"] == "offline";
        over.then(|| shown.json()["task"].take())
    })
}
