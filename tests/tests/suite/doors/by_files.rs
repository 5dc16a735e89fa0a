//! Agents that share nothing with the hub but a directory.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_tests::{PATIENCE, completion, registration};

use super::by_http::handed;
use super::{Pool, REST, Record, directory};

struct Letters {
    agent: String,
    requests: PathBuf,
    responses: PathBuf,
    count: u64,
}

pub fn work(pool: &Pool, agent: &str) -> Record {
    let mut letters = Letters {
        agent: agent.to_owned(),
        requests: directory(&pool.root, "requests"),
        responses: directory(&pool.root, "responses"),
        count: 0,
    };
    let mut record = Record {
        agent: agent.to_owned(),
        ..Record::default()
    };
    let registered = letters.ask("REGISTER", registration(agent));
    assert_eq!(registered["success"], true, "{registered}");
    while !pool.is_done() {
        let claimed = letters.ask("CLAIM", json!({"agentId": agent}));
        let Some(task) = handed(&claimed) else {
            assert_eq!(claimed["success"], false, "{claimed}");
            thread::sleep(REST);
            continue;
        };
        record.handed.push(task.clone());
        let (id, epoch) = &task;
        let mut report = completion(agent, *epoch);
        report["taskId"] = json!(id);
        let done = letters.ask("COMPLETE", report);
        assert_eq!(done["status"], "completed", "{done}");
        record.completed.push(task);
    }
    record
}

impl Letters {
    /// Written beside and renamed; then the answer is waited for, whoever has to be started for it.
    fn ask(&mut self, operation: &str, mut body: Value) -> Value {
        const EVERY: Duration = Duration::from_millis(2);
        const SEVERAL: u32 = 4;
        self.count += 1;
        body["protocolVersion"] = json!("1.0");
        body["operation"] = json!(operation);
        let stem = format!("{}-{}", self.agent, self.count);
        let beside = self.requests.join(format!(".{stem}.tmp"));
        fs::write(&beside, body.to_string()).expect("a request can be written");
        fs::rename(&beside, self.requests.join(format!("{stem}.json")))
            .expect("a file can be renamed");
        let answer = self.responses.join(format!("{stem}-response.json"));
        let deadline = Instant::now() + PATIENCE * SEVERAL;
        loop {
            if let Ok(read) = fs::read(&answer) {
                return serde_json::from_slice(&read).expect("an answer is JSON");
            }
            assert!(Instant::now() < deadline, "{stem} is not answered");
            thread::sleep(EVERY);
        }
    }
}
