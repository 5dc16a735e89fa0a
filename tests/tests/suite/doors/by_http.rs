//! Agents over HTTP: they ask again under the same key until they are answered.

use std::thread;

use serde_json::{Value, json};
use switchboard_tests::{API, Answer, Client, Random, Request, completion, registration};

use super::{Pool, REST, Record};
use crate::crash::world::Place;

struct Caller<'a> {
    pool: &'a Pool,
    client: Client,
    place: Place,
    random: Random,
    keys: u64,
}

pub fn work(pool: &Pool, agent: &str, mut random: Random) -> Record {
    let place = pool.world.somewhere(&mut random);
    let mut caller = Caller {
        pool,
        client: Client::new(place.addr),
        place,
        random,
        keys: 0,
    };
    let mut record = Record {
        agent: agent.to_owned(),
        ..Record::default()
    };
    let registered = caller.ask(agent, "agents/register", &registration(agent));
    registered.expect(200);
    while !pool.is_done() {
        let mut claim = json!({"agentId": agent});
        if caller.random.percent(30) {
            // Woken by whatever door makes a task ready.
            claim["wait"] = json!(1);
        }
        let claimed = caller.ask(agent, "tasks/claim", &claim).expect(200);
        let Some(task) = handed(&claimed) else {
            thread::sleep(REST);
            continue;
        };
        record.handed.push(task.clone());
        let (id, epoch) = &task;
        let path = format!("tasks/{id}/complete");
        let done = caller.ask(agent, &path, &completion(agent, *epoch));
        assert_eq!(done.expect(200)["status"], "completed", "{id}");
        record.completed.push(task);
    }
    record
}

/// The task that an answer to CLAIM hands over, if any.
pub fn handed(answer: &Value) -> Option<(String, u64)> {
    let task = &answer["task"];
    let id = task["id"].as_str()?;
    let epoch = task["epoch"].as_u64().expect("a claim has an epoch");
    Some((id.to_owned(), epoch))
}

impl Caller<'_> {
    fn ask(&mut self, agent: &str, path: &str, body: &Value) -> Answer {
        self.keys += 1;
        let request = Request::post(format!("{API}/{path}"), body);
        let request = request.key(format!("{agent}-{}", self.keys));
        loop {
            match self.client.send(&request) {
                // The file's lock was held by others for too long.
                Ok(answer) if answer.status == 503 => thread::sleep(REST),
                Ok(answer) => return answer,
                Err(error) => {
                    let world = &self.pool.world;
                    self.place = world.elsewhere(self.place, &error, &mut self.random);
                    self.client = Client::new(self.place.addr);
                }
            }
        }
    }
}
