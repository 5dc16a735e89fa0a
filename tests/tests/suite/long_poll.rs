//! Agents that wait: one task wakes one of them, and a wake-up is never lost with whoever was woken.

use std::sync::mpsc::{self, Receiver};
use std::thread;

use rusqlite::Connection;
use serde_json::{Value, json};
use switchboard_tests::{API, Answer, Client, Hub, PATIENCE, Project, Random, Request, until};

const WAITERS: usize = 200;
const TASKS: usize = 20;
/// A waiter asks who it is, and looks.
const VERBS_TO_WAIT: u64 = 2;

#[test]
fn one_new_task_wakes_one_of_two_hundred_waiting_agents_and_the_others_stay() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    (0..WAITERS).for_each(|n| client.register(&waiter(n)));
    let before = client.figure("switchboard_verbs_total");
    let answers = wait_all(&hub);
    until("all of them wait", || {
        let verbs = client.figure("switchboard_verbs_total") - before;
        (verbs >= VERBS_TO_WAIT * WAITERS as u64).then_some(())
    });

    let before = client.figure("switchboard_verbs_total");
    let mut woken = Vec::new();
    for n in 0..TASKS {
        let task = format!("t-{n}");
        client.create(&task);
        let (agent, answer) = answers.recv_timeout(PATIENCE).expect("somebody is woken");
        let got = answer.expect(200);
        assert_eq!(got["task"]["id"], task.as_str(), "{got}");
        assert_eq!(got["task"]["assignedAgent"], agent.as_str(), "{got}");
        assert!(
            answers.try_recv().is_err(),
            "another one was answered as well"
        );
        woken.push(agent);
    }
    // Creating, asking, looking; and a few that the hub does by itself. Waking all would be hundreds for each task.
    let verbs = client.figure("switchboard_verbs_total") - before;
    assert!(
        verbs <= 8 * TASKS as u64,
        "{verbs} verbs for {TASKS} tasks: more than one is woken for each"
    );
    woken.sort();
    woken.dedup();
    assert_eq!(woken.len(), TASKS, "everyone is woken once");
    hub.stop();
}

/// All of them wait for a task, each on a connection of its own.
fn wait_all(hub: &Hub) -> Receiver<(String, Answer)> {
    let (sender, answers) = mpsc::channel();
    for n in 0..WAITERS {
        let (sender, mut poll) = (sender.clone(), begin_claim(hub, &waiter(n)));
        thread::spawn(move || {
            // Those that are still waiting at the end are cut off by the hub's.
            if let Ok(answer) = poll.finish() {
                let _ = sender.send((waiter(n), answer));
            }
        });
    }
    answers
}

fn begin_claim(hub: &Hub, agent: &str) -> Client {
    let mut client = hub.client();
    let body = json!({"agentId": agent, "wait": 60});
    client
        .begin(&Request::post(format!("{API}/tasks/claim"), &body))
        .expect("the hub listens");
    client
}

fn waiter(n: usize) -> String {
    format!("waiter-{n:03}")
}

#[test]
fn a_task_that_wakes_an_agent_that_hangs_up_goes_to_the_next_one() {
    const ROUNDS: usize = 60;
    let seed = Random::seed_from("SWITCHBOARD_TEST_SEED");
    println!("SWITCHBOARD_TEST_SEED={seed}");
    let mut random = Random::seeded(seed);
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    ["leaver", "stayer"]
        .iter()
        .for_each(|agent| client.register(agent));
    let mut passed_on = 0;
    for round in 0..ROUNDS {
        let task = format!("t-{round}");
        let before = client.figure("switchboard_verbs_total");
        // The first in the queue is the first to be woken.
        let mut leaver = begin_claim(&hub, "leaver");
        let waits = |client: &mut Client, so_many: u64| {
            until("it waits", || {
                let verbs = client.figure("switchboard_verbs_total") - before;
                (verbs >= so_many).then_some(())
            });
        };
        waits(&mut client, VERBS_TO_WAIT);
        let mut stayer = begin_claim(&hub, "stayer");
        waits(&mut client, 2 * VERBS_TO_WAIT);
        let create = Request::post(format!("{API}/tasks"), &json!({"id": task, "title": task}));
        client.begin(&create).expect("the hub listens");
        (0..random.below(200)).for_each(|_| thread::yield_now());
        leaver.hang_up();
        client.finish().expect("it is created").expect(201);
        let holder = until("somebody gets the task", || {
            client.task(&task)["assignedAgent"]
                .as_str()
                .map(str::to_owned)
        });
        if holder == "stayer" {
            passed_on += 1;
            let got = stayer.finish().expect("it is told").expect(200);
            assert_eq!(got["task"]["id"], task.as_str());
        }
        // The leaver may have had it before it left; then it is given back by hand.
        stayer.hang_up();
        client
            .post(&format!("{API}/tasks/{task}/cancel"), &json!({}))
            .expect(200);
    }
    println!("{passed_on} of {ROUNDS} tasks were passed on");
    assert!(passed_on > 0, "nobody ever hung up in time");
    hub.stop();
}

#[test]
fn more_changes_than_the_queue_holds_are_refused_at_once_and_all_are_answered() {
    const OPERATIONS: usize = 512;
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.register("a");
    let beat = json!({"operation": "HEARTBEAT", "protocolVersion": "1.0", "agentId": "a", "status": "busy"});
    let wave = json!({"operations": vec![beat; OPERATIONS]});
    let foreign = Connection::open(project.database()).expect("the file can be opened");
    foreign
        .execute_batch("BEGIN IMMEDIATE")
        .expect("nobody else writes");
    let mut waves = Vec::new();
    // Nothing can be written, so the queue fills up; a batch that waits too long for the file makes room again.
    let refused = until("the queue is full", || {
        let queue = client.status()["queue"].take();
        if queue["waiting"].as_u64() >= queue["capacity"].as_u64() {
            let answer = client.post(&format!("{API}/tasks"), &json!({"title": "one too many"}));
            return (answer.json()["error"] == "overloaded").then_some(answer);
        }
        let mut connection = hub.client();
        let request = Request::post(format!("{API}/batch"), &wave);
        connection.begin(&request).expect("the hub listens");
        waves.push(connection);
        None
    });
    refused.expect_error(503, "overloaded");
    assert!(refused.header("Retry-After").is_some(), "{refused:?}");
    foreign.execute_batch("ROLLBACK").expect("it was begun");

    for mut wave in waves {
        let answer = wave.finish().expect("every wave is answered").expect(200);
        let results = answer["results"].as_array().expect("a list of results");
        assert_eq!(results.len(), OPERATIONS);
        for result in results {
            match (&result["status"], result["body"]["error"].as_str()) {
                (Value::Number(status), None) if status.as_u64() == Some(200) => {}
                (_, Some("overloaded" | "db_unavailable")) => {}
                _ => panic!("{result}"),
            }
        }
    }
    client.create("there-is-room-again");
    hub.stop();
}
