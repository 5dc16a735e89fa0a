//! An agent over HTTP: it asks again under the same key until it is answered.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::{API, Client, Random, Request, completion, registration};

use super::{END, Pool, Record, Witness};
use crate::crash::world::Place;

/// How long it rests that found nothing. Only paces it.
const REST: Duration = Duration::from_millis(5);

struct Caller<'a> {
    pool: &'a Pool,
    client: Client,
    place: Place,
    random: Random,
    record: Record,
    keys: u64,
}

pub fn work(pool: &Pool, agent: &str, mut random: Random) -> Record {
    let _witness = Witness(pool);
    let place = pool.world.somewhere(&mut random);
    let mut caller = Caller {
        pool,
        client: Client::new(place.addr),
        place,
        random,
        record: Record::of(agent),
        keys: 0,
    };
    caller.post("agents/register", &registration(agent));
    while !caller.reads_the_last_of_its_messages() && !pool.has_failed() {
        if !caller.works() {
            thread::sleep(REST);
        }
    }
    caller.record
}

impl Caller<'_> {
    /// One task, if there is any.
    fn works(&mut self) -> bool {
        let agent = self.record.agent.clone();
        let claimed = self.post("tasks/claim", &json!({"agentId": agent}));
        let Some(task) = claimed["task"]["id"].as_str() else {
            return false;
        };
        let epoch = claimed["task"]["epoch"].as_u64().expect("a claim has one");
        let claim = (task.to_owned(), epoch);
        assert!(self.record.handed.insert(claim.clone()), "{claimed}");
        let done = self.post(
            &format!("tasks/{task}/complete"),
            &completion(&agent, epoch),
        );
        assert_eq!(done["status"], "completed", "{done}");
        self.record.completed.insert(claim);
        if self.random.percent(40) {
            let to = self.random.choose(&self.pool.agents).clone();
            let id = format!("m-{agent}-{}", self.keys);
            let message = json!({"id": id, "to": to, "type": "info.discovery", "payload": {}, "ackRequired": true});
            self.post("messages", &json!({"agentId": agent, "message": message}));
            self.record.sent.insert(id, to);
        }
        true
    }

    fn reads_the_last_of_its_messages(&mut self) -> bool {
        let agent = self.record.agent.clone();
        let read = self.ask(Request::get(format!(
            "{API}/messages?agentId={agent}&limit=20"
        )));
        let messages = read["messages"].as_array().into_iter().flatten();
        let mut is_last = false;
        for message in messages {
            let id = message["id"].as_str().unwrap_or_default();
            let is_new = self.record.received.insert(id.to_owned());
            assert!(is_new, "{agent} got a message twice: {message}");
            self.post(&format!("messages/{id}/ack"), &json!({"agentId": agent}));
            is_last |= id.starts_with(END);
        }
        is_last
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        self.ask(Request::post(format!("{API}/{path}"), body))
    }

    fn ask(&mut self, request: Request) -> Value {
        self.keys += 1;
        let request = request.key(format!("{}-{}", self.record.agent, self.keys));
        loop {
            match self.client.send(&request) {
                Ok(answer) => {
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    self.pool.world.acknowledged();
                    return answer.json();
                }
                Err(error) => {
                    self.record.cuts += 1;
                    let world = &self.pool.world;
                    self.place = world.elsewhere(self.place, &error, &mut self.random);
                    self.client = Client::new(self.place.addr);
                }
            }
        }
    }
}
