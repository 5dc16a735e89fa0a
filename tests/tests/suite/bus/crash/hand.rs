//! A worker by hand: it says again after every cut what it does not know to be heard.
//!
//! The director deals with frames in order, so after each it says something that is surely answered: the answer means that
//! the frame before it is on disk.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::Random;

use super::super::peer::{Assigned, Peer, result, state};
use super::{END, Pool, Record, Witness};

/// How long it rests that could not connect. Only paces it.
const REST: Duration = Duration::from_millis(5);

struct Hand<'a> {
    pool: &'a Pool,
    random: Random,
    record: Record,
    /// What was said and not confirmed, in order.
    said: VecDeque<Said>,
    count: u64,
    /// It was told to go.
    is_over: bool,
}

struct Said {
    number: u64,
    kind: &'static str,
    payload: Value,
    means: Means,
}

/// What is known once it is confirmed.
enum Means {
    Nothing,
    Completed(Assigned),
    Sent { message: String, to: String },
}

pub fn work(pool: &Pool, agent: &str, random: Random) -> Record {
    let _witness = Witness(pool);
    let mut hand = Hand {
        pool,
        random,
        record: Record::of(agent),
        said: VecDeque::new(),
        count: 0,
        is_over: false,
    };
    while let Err(error) = hand.connected() {
        if pool.has_failed() {
            break;
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => thread::sleep(REST),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                panic!(
                    "{agent} hears nothing more, and {} things are unanswered",
                    hand.said.len()
                )
            }
            _ => hand.record.cuts += 1,
        }
    }
    hand.record
}

impl Hand<'_> {
    /// One connection, until it breaks or everything is over and confirmed.
    fn connected(&mut self) -> io::Result<()> {
        let mut peer = Peer::dial(self.pool.bus, "worker", &self.record.agent)?;
        peer.hello(&["assign.v1", "message.v1"])?;
        let welcome = peer.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let kind = &welcome["message_type"];
        assert_eq!(kind, "protocol_welcome.v1", "{welcome}");
        for said in &self.said {
            peer.say(said.kind, said.payload.clone())?;
            peer.say("agent_message_ack.v1", self.asks(said.number))?;
        }
        while !self.is_over || !self.said.is_empty() {
            let frame = peer.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let payload = &frame["payload"];
            match frame["message_type"].as_str().unwrap_or_default() {
                "task_assigned.v1" => self.assigned(&mut peer, payload),
                "agent_message.v1" => self.letter(&mut peer, payload),
                "agent_message_ack.v1" => self.confirmed(payload),
                "protocol_error.v1" | "task_revoked.v1" => {
                    panic!("{} did nothing wrong: {frame}", self.record.agent)
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn assigned(&mut self, peer: &mut Peer, payload: &Value) {
        let task = Assigned::of(payload);
        let claim = (task.task.clone(), task.epoch);
        if !self.record.handed.insert(claim) {
            // Offered again after a cut: what it says of it is on the way again, too.
            let number = json!(task.number);
            let mut on_the_way = self.said.iter().map(|said| &said.payload);
            let is_known = on_the_way.any(|said| {
                said["issue_number"] == number || said["state"]["issue_number"] == number
            });
            assert!(is_known, "{payload} was answered, and the answer taken");
            return;
        }
        let answer = json!({"issue_number": task.number, "epoch": task.epoch});
        let choice = self.random.below(100);
        if choice < 10 {
            let mut declined = answer;
            declined["reason"] = json!("not now");
            return self.tell(peer, "task_declined.v1", declined, Means::Nothing);
        }
        if choice >= 40 {
            self.tell(peer, "task_accepted.v1", answer, Means::Nothing);
        }
        if choice >= 70 {
            // Nobody misses one.
            let _ = peer.say("heartbeat.v1", state("CODE", task.number));
        }
        if choice >= 85 {
            let done = state("DONE", task.number);
            self.tell(peer, "heartbeat.v1", done, Means::Completed(task));
        } else {
            let done = result(&task);
            self.tell(peer, "task_result.v1", done, Means::Completed(task));
        }
        if self.random.percent(40) {
            self.write(peer);
        }
    }

    /// To one of the others.
    fn write(&mut self, peer: &mut Peer) {
        let to = self.random.choose(&self.pool.agents).clone();
        let message = format!("m-{}-{}", self.record.agent, self.count);
        let mail = json!({"message_id": message, "from": self.record.agent, "to": to, "type": "info.discovery",
            "body": {"n": self.count}, "ack_required": true});
        let means = Means::Sent { message, to };
        self.tell(peer, "agent_message.v1", mail, means);
    }

    fn letter(&mut self, peer: &mut Peer, payload: &Value) {
        let message = payload["message_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.is_over |= message.starts_with(END);
        let got = json!({"message_id": message});
        if !self.record.received.insert(message) {
            self.record.again += 1;
        }
        self.tell(peer, "agent_message_ack.v1", got, Means::Nothing);
    }

    /// Says something that must be heard: if the connection is broken, on the next one.
    fn tell(&mut self, peer: &mut Peer, kind: &'static str, payload: Value, means: Means) {
        self.count += 1;
        let number = self.count;
        self.said.push_back(Said {
            number,
            kind,
            payload: payload.clone(),
            means,
        });
        // That it is broken shows when the next frame is read.
        let _ = peer.say(kind, payload);
        let _ = peer.say("agent_message_ack.v1", self.asks(number));
    }

    /// A receipt for a message that never was: it is refused, once everything before it is done.
    fn asks(&self, number: u64) -> Value {
        json!({"message_id": format!("asks-{}-{number}", self.record.agent)})
    }

    fn confirmed(&mut self, payload: &Value) {
        let id = payload["message_id"].as_str().unwrap_or_default();
        let asked = format!("asks-{}-", self.record.agent);
        let Some(number) = id.strip_prefix(&asked) else {
            assert_ne!(payload["state"], "failed", "{payload}");
            return;
        };
        let number: u64 = number.parse().expect("it was a number");
        while self.said.front().is_some_and(|said| said.number <= number) {
            match self.said.pop_front().map(|said| said.means) {
                Some(Means::Completed(task)) => {
                    self.record.completed.insert((task.task, task.epoch));
                }
                Some(Means::Sent { message, to }) => {
                    self.record.sent.insert(message, to);
                }
                Some(Means::Nothing) | None => {}
            }
            self.pool.world.acknowledged();
        }
    }
}
