//! Told to stop, the hub answers what it has accepted, closes its streams, and leaves in good order.

use std::thread;

use rusqlite::Connection;
use serde_json::json;
use switchboard_tests::{API, Answer, Client, Hub, Project, Request, Signal, until};

const WAITING: usize = 20;
const WRITING: u64 = 4;

#[test]
fn on_sigterm_everything_that_was_accepted_is_answered_and_the_hub_leaves() {
    leaves_in_good_order(Signal::TERM);
}

#[test]
fn on_sigint_everything_that_was_accepted_is_answered_and_the_hub_leaves() {
    leaves_in_good_order(Signal::INT);
}

fn leaves_in_good_order(signal: Signal) {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.register("a");
    let mut stream = open_stream(&hub);
    let before = client.figure("switchboard_verbs_total");
    let polls: Vec<Client> = (0..WAITING).map(|n| begin_poll(&hub, n)).collect();
    // Each of them has looked once and found nothing: it was accepted.
    until("all polls wait", || {
        (client.figure("switchboard_verbs_total") >= before + WAITING as u64).then_some(())
    });
    // Changes are accepted and cannot be written yet.
    let foreign = Connection::open(project.database()).expect("the file can be opened");
    foreign
        .execute_batch("BEGIN IMMEDIATE")
        .expect("nobody else writes");
    let mut writes = Vec::new();
    // The writer has the first of them in hand; those that come after it wait.
    until("changes wait", || {
        writes.push(begin_write(&hub, writes.len()));
        (client.status()["queue"]["waiting"].as_u64() >= Some(WRITING)).then_some(())
    });

    assert!(project.data_dir().join("hub.json").exists());
    hub.signal(signal);
    until("the stop has begun", || {
        (!project.data_dir().join("hub.json").exists()).then_some(())
    });
    foreign.execute_batch("ROLLBACK").expect("it was begun");
    let ended = thread::scope(|scope| {
        let ended = scope.spawn(|| hub.wait());
        for poll in polls {
            let answer = finish(poll);
            let body = answer.json();
            let is_told = answer.status == 503 && body["error"] == "db_unavailable"
                || answer.status == 200 && body["success"] == false;
            assert!(is_told, "a poll was answered {} {body}", answer.status);
        }
        let rest = stream.rest().expect("a stream is closed, not broken");
        assert!(
            rest.ends_with(b"0\r\n\r\n"),
            "{:?}",
            String::from_utf8_lossy(&rest)
        );
        ended.join().expect("it ends")
    });
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!project.data_dir().join("hub.json").exists());
    let written: Vec<bool> = writes
        .into_iter()
        .map(|write| is_written(&finish(write)))
        .collect();

    let hub = project.start();
    let mut client = hub.client();
    for (n, written) in written.into_iter().enumerate() {
        let status = client.get(&format!("{API}/tasks/{}", task(n))).status;
        assert_eq!(status, if written { 200 } else { 404 }, "{}", task(n));
    }
    hub.stop();
}

fn open_stream(hub: &Hub) -> Client {
    let mut stream = hub.client();
    let request =
        Request::get(format!("{API}/events?after=0")).header("Accept", "text/event-stream");
    stream.begin(&request).expect("the hub listens");
    let head = stream.finish_head().expect("the stream begins");
    assert_eq!(head.status, 200);
    until("an event comes", || {
        let line = stream.line().expect("the stream goes on");
        line.filter(|line| line.contains("agent_registered"))
    });
    stream
}

/// Every second one waits for a task, the others for messages.
fn begin_poll(hub: &Hub, n: usize) -> Client {
    let mut client = hub.client();
    let request = match n % 2 {
        0 => Request::post(
            format!("{API}/tasks/claim"),
            &json!({"agentId": "a", "wait": 60}),
        ),
        _ => Request::get(format!("{API}/messages?agentId=a&wait=60")),
    };
    client.begin(&request).expect("the hub listens");
    client
}

fn begin_write(hub: &Hub, n: usize) -> Client {
    let mut client = hub.client();
    // Nothing that those who wait could take.
    let body = json!({"id": task(n), "title": "accepted", "requiredSkills": ["patience"]});
    client
        .begin(&Request::post(format!("{API}/tasks"), &body))
        .expect("the hub listens");
    client
}

#[track_caller]
fn finish(mut client: Client) -> Answer {
    client.finish().expect("what was accepted is answered")
}

/// Either it was written, or the caller was told to come back.
fn is_written(answer: &Answer) -> bool {
    if answer.status != 201 {
        answer.expect_error(503, "db_unavailable");
    }
    answer.status == 201
}

fn task(n: usize) -> String {
    format!("accepted-{n}")
}
