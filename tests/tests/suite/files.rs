//! Agents that have nothing but a directory, and the real binary that comes and goes beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use switchboard_tests::{API, Client, Project, completion, registration, until};

const AGENTS: usize = 4;
const TASKS: usize = 240;
const KILLS: usize = 15;

/// Writes a request by rename and waits for its answer, through however many hubs.
struct Agent {
    id: String,
    door: PathBuf,
    asked: usize,
}

impl Agent {
    fn new(number: usize, project: &Path) -> Agent {
        Agent {
            id: format!("agent-{number}"),
            door: project.join(".jetpack/protocol"),
            asked: 0,
        }
    }

    fn ask(&mut self, operation: &str, mut body: Value) -> Value {
        self.asked += 1;
        // Every other time under the name of the document's example, again and again.
        let stem = match self.asked % 2 {
            0 => format!("{}-{}", self.id, operation.to_lowercase()),
            _ => format!("{}-{}", self.id, self.asked),
        };
        body["operation"] = operation.into();
        body["protocolVersion"] = "1.0".into();
        let requests = self.door.join("requests");
        let half = requests.join(format!(".{stem}"));
        fs::write(&half, body.to_string()).expect("a request can be written");
        fs::rename(&half, requests.join(format!("{stem}.json"))).expect("and put in its place");
        let answer = self.door.join(format!("responses/{stem}-response.json"));
        let text = until("a request is answered", || fs::read(&answer).ok());
        fs::remove_file(&answer).expect("an answer can be taken away");
        serde_json::from_slice(&text).expect("an answer is whole")
    }

    /// Works until all is done; tells which tasks it completed.
    fn work(mut self, done: &AtomicUsize) -> Vec<String> {
        let registered = self.ask("REGISTER", registration(&self.id));
        assert_eq!(registered["success"], true, "{registered}");
        let mut completed = Vec::new();
        while done.load(Ordering::SeqCst) < TASKS {
            let claimed = self.ask("CLAIM", json!({"agentId": self.id}));
            if claimed["success"] != true {
                assert!(claimed["reason"].is_string(), "{claimed}");
                continue;
            }
            let task = claimed["task"]["id"].as_str().expect("a task has an id");
            assert_eq!(claimed["task"]["epoch"], 1, "{claimed}");
            let mut body = completion(&self.id, 1);
            body["taskId"] = task.into();
            let answer = self.ask("COMPLETE", body);
            assert_eq!(answer["status"], "completed", "{answer}");
            completed.push(task.to_owned());
            done.fetch_add(1, Ordering::SeqCst);
        }
        completed
    }
}

#[test]
fn agents_of_nothing_but_files_lose_and_double_nothing_when_the_hub_is_killed() {
    let project = Project::new();
    let mut hub = project.start();
    let tasks: Vec<Value> = (0..TASKS)
        .map(|number| json!({"id": format!("t{number}"), "title": "one of many"}))
        .collect();
    let tasks = json!({ "tasks": tasks });
    hub.client()
        .post(&format!("{API}/tasks"), &tasks)
        .expect(201);
    let done = &AtomicUsize::new(0);
    let completed: Vec<String> = thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|number| {
                let agent = Agent::new(number, project.root());
                scope.spawn(move || agent.work(done))
            })
            .collect();
        for kill in 1..=KILLS {
            let enough = kill * TASKS / (KILLS + 1);
            until("the agents get on with their work", || {
                (done.load(Ordering::SeqCst) >= enough).then_some(())
            });
            hub.kill();
            hub = project.start();
        }
        agents.into_iter().flat_map(join).collect()
    });
    assert_eq!(completed.len(), TASKS);
    let mut client = hub.client();
    for (kind, count) in [("task_claimed", TASKS), ("task_completed", TASKS)] {
        let by_task = count_by_task(&mut client, kind);
        assert_eq!(by_task.len(), count, "{kind}");
        assert!(by_task.values().all(|times| *times == 1), "{by_task:?}");
    }
    let count = |dir: &str| {
        let dir = project.root().join(".jetpack/protocol").join(dir);
        fs::read_dir(dir).expect("it is there").count()
    };
    assert_eq!((count("requests"), count("taken")), (0, 0));
    // Each was answered once: an answer that came a second time would have nobody to take it away.
    assert_eq!((count("rejected"), count("responses")), (0, 0));
    hub.stop();
}

fn count_by_task(client: &mut Client, kind: &str) -> BTreeMap<String, usize> {
    let mut by_task = BTreeMap::new();
    for event in client.events() {
        if event["type"] == kind {
            *by_task.entry(event["task"].to_string()).or_default() += 1;
        }
    }
    by_task
}

#[test]
fn the_shell_script_of_the_document_works_as_it_stands() {
    let document = include_str!("../../../docs/files.md");
    let (_, script) = document
        .split_once("```sh\n")
        .expect("the document has a script");
    let (script, _) = script.split_once("```").expect("the script ends");
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.create("hello");
    let ran = Command::new("sh")
        .args(["-eu", "-c", script])
        .current_dir(project.root())
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&ran.stdout);
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{complained}");
    assert_eq!(client.task("hello")["status"], "completed", "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains("\"nextAction\":\"proceed\""), "{said}");
    hub.stop();
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|failed| std::panic::resume_unwind(failed))
}
