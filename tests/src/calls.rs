//! The few calls that nearly every test begins with.

use serde_json::{Value, json};

use crate::http::Client;

pub const API: &str = "/api/v1";

/// The body of REGISTER for an agent without skills.
pub fn registration(agent: &str) -> Value {
    json!({"agent": {
        "id": agent,
        "name": agent,
        "type": "custom",
        "capabilities": {
            "skills": [],
            "maxTaskMinutes": 60,
            "canRunTests": true,
            "canRunBuild": true,
            "canAccessBrowser": false,
        },
    }})
}

/// The body of COMPLETE.
pub fn completion(agent: &str, epoch: u64) -> Value {
    let result =
        json!({"filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": "done"});
    json!({"agentId": agent, "epoch": epoch, "result": result})
}

impl Client {
    #[track_caller]
    pub fn register(&mut self, agent: &str) {
        self.post(&format!("{API}/agents/register"), &registration(agent))
            .expect(200);
    }

    /// A task with this id.
    #[track_caller]
    pub fn create(&mut self, id: &str) -> Value {
        let created = self.post(&format!("{API}/tasks"), &json!({"id": id, "title": id}));
        created.expect(201)["task"].take()
    }

    /// CLAIM; `None` if there was nothing.
    #[track_caller]
    pub fn claim(&mut self, agent: &str) -> Option<Value> {
        let answer = self.post(&format!("{API}/tasks/claim"), &json!({"agentId": agent}));
        let mut body = answer.expect(200);
        (body["success"] == true).then(|| body["task"].take())
    }

    #[track_caller]
    pub fn complete(&mut self, agent: &str, task: &str, epoch: u64) {
        let body = completion(agent, epoch);
        let answer = self.post(&format!("{API}/tasks/{task}/complete"), &body);
        assert_eq!(answer.expect(200)["status"], "completed");
    }

    #[track_caller]
    pub fn task(&mut self, id: &str) -> Value {
        self.get(&format!("{API}/tasks/{id}")).expect(200)["task"].take()
    }

    /// The statuses and counts of the whole hub.
    #[track_caller]
    pub fn status(&mut self) -> Value {
        self.get(&format!("{API}/status")).expect(200)
    }

    /// Every event since the beginning, in order.
    #[track_caller]
    pub fn events(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        self.more_events(&mut events);
        events
    }

    /// The events after those that were read.
    #[track_caller]
    pub fn more_events(&mut self, events: &mut Vec<Value>) {
        let mut after = events.last().map_or(json!(0), |last| last["seq"].clone());
        loop {
            let path = format!("{API}/events?after={after}&limit=1000");
            let mut page = self.get(&path).expect(200);
            let found = page["events"].as_array_mut().map(std::mem::take);
            events.extend(found.expect("a page has events"));
            after = page["next"].take();
            if after.is_null() {
                return;
            }
        }
    }

    /// One of the figures of `/metrics`.
    #[track_caller]
    pub fn figure(&mut self, name: &str) -> u64 {
        let figures = self.get("/metrics");
        assert_eq!(figures.status, 200, "{}", figures.text());
        let text = figures.text();
        let value = text.lines().find_map(|line| {
            let (figure, value) = line.split_once(' ')?;
            (figure == name).then(|| value.parse().ok()).flatten()
        });
        value.unwrap_or_else(|| panic!("no figure {name} in:\n{text}"))
    }
}
