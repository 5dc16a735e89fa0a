//! Agents over HTTP and agents in Python share one pool: each task is handed out once.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::thread;

use serde_json::{Value, json};
use switchboard_tests::{API, Client, Hub, Project, completion, registration, until};

use super::day::swarm_db;
use super::programs::python;

const LEAD: &str = "lead";
const TASKS: usize = 300;
const AGENTS_PER_DOOR: usize = 3;
/// No door can empty the pool by itself, so that both must take part.
const TASKS_PER_AGENT: usize = 70;

/// A running worker of `tests/python/worker.py`.
struct Worker {
    name: String,
    child: Child,
}

impl Worker {
    fn start(
        project: &Project,
        name: &str,
        claim: &str,
        tasks_max: usize,
        what: &str,
    ) -> Option<Worker> {
        let mut worker = python("worker.py", what)?;
        worker
            .arg(super::page::path())
            .arg(swarm_db(project))
            .args([name, LEAD, claim, &tasks_max.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Some(Worker {
            name: name.to_owned(),
            child: worker.spawn().expect("it starts"),
        })
    }

    /// Waits for its end; the tasks that it claimed.
    #[track_caller]
    fn end(mut self) -> Vec<(String, u64)> {
        let status = until("the worker ends", || {
            self.child.try_wait().expect("it can be waited for")
        });
        let (mut said, mut complained) = (String::new(), String::new());
        let stdout = self.child.stdout.as_mut().expect("it is piped");
        stdout.read_to_string(&mut said).expect("it is text");
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut complained).expect("it is text");
        assert!(status.success(), "{}: {complained}", self.name);
        let report: Value = serde_json::from_str(&said).expect("it reports in JSON");
        let heard = report["heard"].as_array().expect("it tells what it heard");
        assert_eq!(heard.last(), Some(&json!("system.shutdown")));
        let claimed = report["claimed"]
            .as_array()
            .expect("it tells what it claimed");
        let claim = |pair: &Value| {
            let task = pair[0].as_str().expect("a task has an id");
            (
                task.to_owned(),
                pair[1].as_u64().expect("a claim has an epoch"),
            )
        };
        claimed.iter().map(claim).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn create(client: &mut Client, tasks: usize) {
    let task = |n| json!({"id": format!("task-{n}"), "title": "one of many", "requiredSkills": []});
    let tasks: Vec<Value> = (0..tasks).map(task).collect();
    let created = client.post(&format!("{API}/tasks"), &json!({"tasks": tasks}));
    created.expect(201);
}

/// What a worker wrote to the lead.
#[track_caller]
fn hear(client: &mut Client, from: &str, kind: &str) -> Value {
    until(&format!("{from} writes {kind}"), || {
        let path =
            format!("{API}/messages?agentId={LEAD}&since=1970-01-01T00:00:00.000Z&limit=500");
        let mut page = client.get(&path).expect(200);
        let messages = page["messages"]
            .as_array_mut()
            .expect("a page has messages");
        let found = messages
            .iter_mut()
            .find(|message| message["from"] == from && message["type"] == kind);
        found.map(Value::take)
    })
}

fn tell(client: &mut Client, to: &str, kind: &str, id: &str) {
    let message = json!({"id": id, "to": to, "type": kind, "payload": {}, "ackRequired": true});
    let sent = client.post(
        &format!("{API}/messages"),
        &json!({"agentId": LEAD, "message": message}),
    );
    sent.expect(200);
}

fn completed(client: &mut Client) -> u64 {
    client.status()["tasks"]["completed"]
        .as_u64()
        .expect("it is counted")
}

#[test]
fn a_worker_in_python_does_a_whole_day_with_the_page_alone() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.register(LEAD);
    let what = "a worker in Python";
    let Some(worker) = Worker::start(&project, "snake", "claim", usize::from(u16::MAX), what)
    else {
        return;
    };
    hear(&mut client, "snake", "custom");
    tell(&mut client, "snake", "info.discovery", "welcome");
    create(&mut client, 5);
    let first = hear(&mut client, "snake", "task.claimed");
    assert_eq!(first["payload"]["taskId"], "task-0");
    until("all is done", || {
        (completed(&mut client) == 5).then_some(())
    });
    tell(&mut client, "snake", "system.shutdown", "enough");
    let claimed = worker.end();
    let expected: Vec<(String, u64)> = (0..5).map(|n| (format!("task-{n}"), 1)).collect();
    assert_eq!(claimed, expected, "the oldest first");
    let task = client.task("task-3");
    assert_eq!(task["result"]["summary"], "task-3 by snake", "{task}");
    until("it signed off", || {
        // Its row is missing for the moment between its own DELETE and the hub's notice.
        let shown = client.get(&format!("{API}/agents/snake")).json();
        (shown["agent"]["status"] == "offline").then_some(())
    });
    let kinds: Vec<Value> = client
        .events()
        .into_iter()
        .map(|mut event| event["type"].take())
        .collect();
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!(count("write_undone"), 0);
    assert_eq!((count("task_claimed"), count("task_completed")), (5, 5));
    assert_eq!((count("lease_acquired"), count("lease_released")), (5, 5));
    assert_eq!(count("message_acknowledged"), 2);
    let figures = client.get(&format!("{API}/agents/snake")).expect(200);
    assert_eq!(figures["agent"]["tasksCompleted"], 5);
}

#[test]
fn agents_over_http_and_in_python_never_get_the_same_task() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.register(LEAD);
    let what = "a swarm of HTTP and SQL agents";
    let mut workers = Vec::new();
    for n in 0..AGENTS_PER_DOOR {
        // One of them claims as the protocol's document does.
        let claim = if n == 0 {
            "claim_of_the_document"
        } else {
            "claim"
        };
        let Some(worker) =
            Worker::start(&project, &format!("sql-{n}"), claim, TASKS_PER_AGENT, what)
        else {
            return;
        };
        workers.push(worker);
    }
    for worker in &workers {
        hear(&mut client, &worker.name, "custom");
    }
    create(&mut client, TASKS);
    let by_http: Vec<(String, u64)> = thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS_PER_DOOR)
            .map(|n| {
                let hub = &hub;
                scope.spawn(move || over_http(hub, &format!("http-{n}")))
            })
            .collect();
        let ended = agents
            .into_iter()
            .map(|agent| agent.join().expect("it works"));
        ended.flatten().collect()
    });
    until("all is done", || {
        (completed(&mut client) == TASKS as u64).then_some(())
    });
    for worker in &workers {
        tell(
            &mut client,
            &worker.name,
            "system.shutdown",
            &format!("enough-{}", worker.name),
        );
    }
    let by_sql: Vec<(String, u64)> = workers.into_iter().flat_map(Worker::end).collect();
    let capped = AGENTS_PER_DOOR * TASKS_PER_AGENT;
    assert!((1..=capped).contains(&by_sql.len()) && (1..=capped).contains(&by_http.len()));
    let told: Vec<&(String, u64)> = by_http.iter().chain(&by_sql).collect();
    let distinct: BTreeSet<&str> = told.iter().map(|(task, _)| task.as_str()).collect();
    assert_eq!(
        (told.len(), distinct.len()),
        (TASKS, TASKS),
        "each was handed out once"
    );
    assert!(
        told.iter().all(|(_, epoch)| *epoch == 1),
        "no claim was a second one"
    );
    let events = client.events();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(
        (of("task_claimed"), of("task_completed"), of("write_undone")),
        (TASKS, TASKS, 0)
    );
    hub.stop();
}

/// Claims and completes until it has had enough, or nothing is left.
fn over_http(hub: &Hub, agent: &str) -> Vec<(String, u64)> {
    let mut client = hub.client();
    patiently(&mut client, "agents/register", &registration(agent));
    let mut claimed = Vec::new();
    while claimed.len() < TASKS_PER_AGENT {
        let answer = patiently(&mut client, "tasks/claim", &json!({"agentId": agent}));
        if answer["success"] == false {
            break;
        }
        let id = answer["task"]["id"].as_str().expect("a task has an id");
        let epoch = answer["task"]["epoch"].as_u64();
        let epoch = epoch.expect("a claim has an epoch");
        let path = format!("tasks/{id}/complete");
        patiently(&mut client, &path, &completion(agent, epoch));
        claimed.push((id.to_owned(), epoch));
    }
    claimed
}

/// Asks again as long as the ledger is said to be locked by others: then nothing was written.
#[track_caller]
fn patiently(client: &mut Client, path: &str, body: &Value) -> Value {
    until(&format!("{path} is answered"), || {
        let answer = client.post(&format!("{API}/{path}"), body);
        (answer.status != 503).then(|| answer.expect(200))
    })
}
