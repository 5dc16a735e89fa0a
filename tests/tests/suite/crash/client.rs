//! One agent under load: it does a bit of everything, and asks again with the same key whenever an answer is lost.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::{API, Answer, Client, Random, Request, completion};

use super::facts::{Doubt, Fact, Learnt, Record};
use super::heard::{Heard, Outcome};
use super::look;
use super::world::{EndsWith, Place, World};

/// Tasks that one client holds at most.
const HELD_MAX: usize = 6;
/// Claims in one batch.
const SEVERAL: usize = 3;
const PATHS: u64 = 12;
/// Of a hundred lost answers, so many are not asked for again.
const GIVES_UP: u64 = 15;
/// Of a hundred answers, so many are asked for again by one who has them.
const ASKS_AGAIN: u64 = 4;
/// Of a hundred moves, so many are followed by a look at what was done.
const LOOKS: u64 = 15;
/// How long a client waits that was told to come back. Only paces it.
const COMES_BACK_AFTER: Duration = Duration::from_millis(20);

pub struct Worker<'a> {
    world: &'a World,
    client: Client,
    place: Place,
    random: Random,
    others: &'a [String],
    record: Record,
    /// When the last answer was asked for, and when it came.
    moment: (Duration, Duration),
    /// For names and keys.
    count: u64,
    held: Vec<(String, u64)>,
    leases: Vec<(String, u64, Option<String>)>,
    unacknowledged: Vec<String>,
    /// The last task that it was told of.
    last: Option<String>,
}

impl<'a> Worker<'a> {
    pub fn new(
        world: &'a World,
        agent: &str,
        others: &'a [String],
        mut random: Random,
    ) -> Worker<'a> {
        let place = world.somewhere(&mut random);
        Worker {
            world,
            client: connect(world, place, &mut random),
            place,
            random,
            others,
            record: Record {
                agent: agent.to_owned(),
                ..Record::default()
            },
            moment: (Duration::ZERO, Duration::ZERO),
            count: 0,
            held: Vec::new(),
            leases: Vec::new(),
            unacknowledged: Vec::new(),
            last: None,
        }
    }

    /// Works until the world ends.
    pub fn run(mut self) -> Record {
        let _end = EndsWith(self.world);
        while !self.world.is_over() {
            self.move_once();
            if self.random.percent(LOOKS) {
                self.look();
            }
        }
        self.record
    }

    fn move_once(&mut self) {
        let holds = !self.held.is_empty();
        match self.random.below(100) {
            0..20 => self.create(),
            20..36 if self.held.len() < HELD_MAX => self.claim(),
            36..40 if self.held.len() < HELD_MAX => self.claim_several(),
            40..50 if holds => self.progress(),
            50..66 if holds => self.complete(),
            66..71 if holds => self.fail(),
            71..74 if holds => self.release(),
            74..82 => self.send(),
            82..88 => self.receive(),
            88..92 if !self.unacknowledged.is_empty() => self.acknowledge(),
            92..96 => self.acquire(),
            96..98 if !self.leases.is_empty() => self.unlease(),
            _ => self.beat(),
        }
    }

    fn create(&mut self) {
        let one = |id: &str, priority: &str| json!({"id": id, "title": id, "priority": priority});
        let priority = *self.random.choose(&["low", "medium", "high", "critical"]);
        let first = self.name("t");
        let (tasks, body) = if self.random.percent(70) {
            let body = one(&first, priority);
            (vec![first], body)
        } else {
            let (second, last) = (format!("{first}-b"), format!("{first}-c"));
            let mut dependant = one(&last, priority);
            dependant["dependencies"] = json!([first, second]);
            let body = json!({"tasks": [one(&first, priority), one(&second, "low"), dependant]});
            (vec![first, second, last], body)
        };
        let doubt = Doubt::Created {
            tasks: tasks.clone(),
        };
        let request = Request::post(format!("{API}/tasks"), &body);
        if let Some(answer) = self.ask(request, Some(doubt)) {
            self.expect(answer.status == 201, "create", &answer);
            self.learn(Fact::Created { tasks });
        }
    }

    fn claim(&mut self) {
        let mut body = json!({"agentId": self.record.agent});
        if self.random.percent(20) {
            body["wait"] = json!(1);
        }
        let request = Request::post(format!("{API}/tasks/claim"), &body);
        if let Some(answer) = self.ask(request, Some(Doubt::Claimed { at_most: 1 })) {
            self.claimed(&answer, &answer.json());
        }
    }

    /// Several in one call, each by itself: a kill in between leaves some of them done.
    fn claim_several(&mut self) {
        let claim = json!({"operation": "CLAIM", "agentId": self.record.agent});
        let body = json!({"operations": vec![claim; SEVERAL]});
        let doubt = Doubt::Claimed { at_most: SEVERAL };
        let request = Request::post(format!("{API}/batch"), &body);
        if let Some(answer) = self.ask(request, Some(doubt)) {
            let told = answer.json();
            let results = told["results"].as_array().into_iter().flatten();
            let count = results
                .map(|result| self.claimed(&answer, &result["body"]))
                .count();
            self.expect(count == SEVERAL, "batch", &answer);
        }
    }

    fn claimed(&mut self, answer: &Answer, body: &Value) {
        if body["success"] == false {
            self.expect(body["reason"].is_string(), "claim", answer);
            return self.learn(Fact::Nothing);
        }
        let task = &body["task"];
        let is_mine = task["assignedAgent"] == self.record.agent.as_str();
        self.expect(is_mine && task["status"] == "claimed", "claim", answer);
        let (task, epoch) = (text(&task["id"]), number(&task["epoch"]));
        self.held.push((task.clone(), epoch));
        self.learn(Fact::Claimed { task, epoch });
    }

    fn progress(&mut self) {
        let (task, epoch) = self.random.choose(&self.held).clone();
        let phase = *self
            .random
            .choose(&["analyzing", "planning", "implementing", "testing"]);
        let percent = self.random.below(101);
        let progress = json!({"phase": phase, "percentComplete": percent, "description": "at it"});
        let answer = self.report(
            &task,
            "progress",
            json!({"epoch": epoch, "progress": progress}),
        );
        self.expect(answer.json()["continue"] == true, "progress", &answer);
        self.learn(Fact::Progressed {
            task,
            epoch,
            percent,
        });
    }

    fn complete(&mut self) {
        let (task, epoch) = self.let_go();
        let answer = self.report(&task, "complete", completion(&self.record.agent, epoch));
        self.expect(answer.json()["status"] == "completed", "complete", &answer);
        self.learn(Fact::Completed { task, epoch });
    }

    fn fail(&mut self) {
        let (task, epoch) = self.let_go();
        let recoverable = self.random.percent(60);
        let failure =
            json!({"type": "task_error", "message": "it broke", "recoverable": recoverable});
        let answer = self.report(&task, "fail", json!({"epoch": epoch, "failure": failure}));
        let body = answer.json();
        self.expect(body["success"] == true, "fail", &answer);
        self.learn(Fact::Failed {
            task,
            epoch,
            retries: body["willRetry"] == true,
        });
    }

    fn release(&mut self) {
        let (task, epoch) = self.let_go();
        let answer = self.report(&task, "release", json!({"epoch": epoch, "reason": "later"}));
        self.expect(answer.json()["success"] == true, "release", &answer);
        self.learn(Fact::Requeued { task, epoch });
    }

    fn send(&mut self) {
        let message = self.name("m");
        let to = self
            .random
            .percent(70)
            .then(|| self.random.choose(self.others).clone());
        let body = json!({"agentId": self.record.agent, "message": {
            "id": message, "to": to, "type": "info.discovery", "payload": {"n": self.count}, "ackRequired": true,
        }});
        let doubt = Doubt::Sent {
            message: message.clone(),
            to: to.clone(),
        };
        let request = Request::post(format!("{API}/messages"), &body);
        if let Some(answer) = self.ask(request, Some(doubt)) {
            let told = answer.json();
            self.expect(told["messageId"] == message.as_str(), "send", &answer);
            self.learn(Fact::Sent {
                message,
                to,
                recipients: number(&told["recipients"]),
            });
        }
    }

    fn receive(&mut self) {
        let request = Request::get(format!(
            "{API}/messages?agentId={}&limit=20",
            self.record.agent
        ));
        let answer = self.ask_surely(request);
        let body = answer.json();
        let messages = body["messages"].as_array().into_iter().flatten();
        let messages: Vec<String> = messages.map(|message| text(&message["id"])).collect();
        self.expect(body["success"] == true, "receive", &answer);
        self.unacknowledged.extend(messages.iter().cloned());
        self.learn(Fact::Received { messages });
    }

    fn acknowledge(&mut self) {
        let at = self.random.index(self.unacknowledged.len());
        let message = self.unacknowledged.swap_remove(at);
        let body = json!({"agentId": self.record.agent});
        let answer = self.ask_surely(Request::post(
            format!("{API}/messages/{message}/ack"),
            &body,
        ));
        self.expect(answer.json()["success"] == true, "ack", &answer);
        self.learn(Fact::Acknowledged { message });
    }

    fn acquire(&mut self) {
        let path = format!("src/file-{}.rs", self.random.below(PATHS));
        let mine = self
            .leases
            .iter()
            .find(|(held, _, _)| *held == path)
            .cloned();
        let task = match &mine {
            Some(_) => None,
            None => self
                .held
                .first()
                .filter(|_| self.random.percent(50))
                .map(|(task, _)| task.clone()),
        };
        let body = json!({"agentId": self.record.agent, "taskId": task, "filePath": path, "durationMs": 3_600_000});
        let answer = self.ask_surely(Request::post(format!("{API}/leases/acquire"), &body));
        let told = answer.json();
        let fencing = told["lease"]["fencingToken"].as_u64();
        match (mine, fencing) {
            (Some((_, before, _)), now) => {
                self.expect(now == Some(before), "extension", &answer);
                self.learn(Fact::Extended {
                    path,
                    fencing: before,
                });
            }
            (None, Some(fencing)) => {
                self.leases.push((path.clone(), fencing, task));
                self.learn(Fact::Leased { path, fencing });
            }
            (None, None) => {
                let held_by = text(&told["heldBy"]);
                self.expect(
                    held_by != self.record.agent && !held_by.is_empty(),
                    "acquire",
                    &answer,
                );
                self.learn(Fact::Nothing);
            }
        }
    }

    fn unlease(&mut self) {
        let at = self.random.index(self.leases.len());
        let (path, fencing, _) = self.leases.swap_remove(at);
        let body = json!({"agentId": self.record.agent, "filePath": path, "fencingToken": fencing});
        let answer = self.ask_surely(Request::post(format!("{API}/leases/release"), &body));
        self.expect(
            answer.json()["released"] == true,
            "release of a lease",
            &answer,
        );
        self.learn(Fact::Unleased { path });
    }

    fn beat(&mut self) {
        let mut body = json!({"agentId": self.record.agent, "status": "idle"});
        if let Some((task, _)) = self.held.first() {
            body["status"] = json!("busy");
            body["currentTask"] = json!({"id": task});
        }
        let path = format!("{API}/agents/{}/heartbeat", self.record.agent);
        let answer = self.ask_surely(Request::post(path, &body));
        let told = answer.json();
        // An order to release would mean that the hub no longer takes this agent for the holder.
        let is_calm = told["commands"].as_array().is_none_or(Vec::is_empty);
        self.expect(told["success"] == true && is_calm, "heartbeat", &answer);
        self.learn(Fact::Beat);
    }

    /// At what was just done, wherever the ledger can be seen.
    fn look(&mut self) {
        let called = self.world.now();
        let seen = match &self.last {
            Some(task) if self.random.percent(95) => look::at(self.world, task, &mut self.random),
            Some(_) | None => look::at_all(self.world, &mut self.random),
        };
        if let Some(seen) = seen {
            self.moment = (called, self.world.now());
            self.learn(seen);
        }
    }

    /// A task is handed back or finished: its leases end with it.
    fn let_go(&mut self) -> (String, u64) {
        let at = self.random.index(self.held.len());
        let (task, epoch) = self.held.swap_remove(at);
        self.leases
            .retain(|(_, _, of)| of.as_deref() != Some(task.as_str()));
        (task, epoch)
    }

    fn report(&mut self, task: &str, what: &str, mut body: Value) -> Answer {
        body["agentId"] = json!(self.record.agent);
        self.ask_surely(Request::post(format!("{API}/tasks/{task}/{what}"), &body))
    }

    fn ask_surely(&mut self, request: Request) -> Answer {
        self.ask(request, None)
            .expect("without a doubt it is asked until it is answered")
    }

    /// Asks until there is an answer; one that may stay in doubt is sometimes given up.
    fn ask(&mut self, request: Request, doubt: Option<Doubt>) -> Option<Answer> {
        let request = request.key(self.name("k"));
        let mut may_have_happened = false;
        let called = self.world.now();
        loop {
            match self.client.send(&request) {
                Ok(answer) => match Heard::by(&answer) {
                    Heard::ComeBack(outcome) if self.world.outages => {
                        may_have_happened |= outcome == Outcome::Unknown;
                        self.told_to_come_back(outcome, &answer);
                    }
                    Heard::ComeBack(_) | Heard::Answer => {
                        self.moment = (called, self.world.now());
                        self.record.replayed += u64::from(answer.is_replay());
                        if self.random.percent(ASKS_AGAIN) {
                            self.ask_again(&request, &answer);
                        }
                        return Some(answer);
                    }
                },
                Err(error) => {
                    may_have_happened = true;
                    self.record.lost += 1;
                    self.place = self.world.elsewhere(self.place, &error, &mut self.random);
                    self.client = connect(self.world, self.place, &mut self.random);
                }
            }
            if doubt.is_some() && self.random.percent(GIVES_UP) {
                // What was surely not done must not be found done.
                self.record
                    .doubts
                    .extend(doubt.filter(|_| may_have_happened));
                return None;
            }
        }
    }

    /// What was answered once is answered the same by whoever is asked again.
    fn ask_again(&mut self, request: &Request, first: &Answer) {
        let told = first.json();
        // The parts of a batch are remembered each by itself, and who got nothing may get something.
        if first.status >= 300 || told["success"] != true || told["results"].is_array() {
            return;
        }
        let place = self.world.somewhere(&mut self.random);
        let mut client = connect(self.world, place, &mut self.random);
        match client.send(request) {
            Ok(again) => match Heard::by(&again) {
                Heard::ComeBack(_) if self.world.outages => {}
                Heard::ComeBack(_) | Heard::Answer => {
                    let same = again.is_replay() && again.body == first.body;
                    self.expect(same, &format!("{} again", first.text()), &again);
                    self.record.repeated += 1;
                }
            },
            // It was killed, or sleeps.
            Err(_) => self.record.lost += 1,
        }
    }

    fn told_to_come_back(&mut self, outcome: Outcome, answer: &Answer) {
        match outcome {
            Outcome::Unknown => self.record.unknown += 1,
            Outcome::NotDone => self.record.not_done += 1,
        }
        if answer.status == 503 && answer.header("Retry-After").is_none() {
            let surprise = format!("come back when? {}", answer.text());
            self.record.surprises.push(surprise);
        }
        thread::sleep(COMES_BACK_AFTER);
    }

    fn learn(&mut self, fact: Fact) {
        self.last = fact.task().map(str::to_owned).or(self.last.take());
        let (called, answered) = self.moment;
        self.record.facts.push(Learnt {
            fact,
            called,
            answered,
            disk: self.world.disk(),
        });
        self.world.acknowledged();
    }

    fn expect(&mut self, holds: bool, what: &str, answer: &Answer) {
        if !holds || answer.status >= 300 {
            self.record
                .surprises
                .push(format!("{what}: {} {}", answer.status, answer.text()));
        }
    }

    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}-{}-{}", self.record.agent, self.count)
    }
}

/// Some clients have more patience than others.
fn connect(world: &World, place: Place, random: &mut Random) -> Client {
    let times = random.between(1, 4) as u32;
    Client::with_patience(place.addr, world.patience * times)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}
