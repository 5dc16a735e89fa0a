//! One end of the bus: a plain client of lines that hides nothing and never comes back by itself.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use switchboard_tests::PATIENCE;

/// By a clock that nobody should go by.
const SENT_AT: &str = "2026-02-12T00:00:00Z";

/// One connection.
#[derive(Debug)]
pub struct Peer {
    stream: BufReader<TcpStream>,
    role: &'static str,
    id: String,
    seq: u64,
    /// Frames that were passed over on the way to others.
    aside: VecDeque<Value>,
}

/// A task in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    pub task: String,
    pub number: u64,
    pub epoch: u64,
    pub attempt: u64,
}

impl Peer {
    /// Connected, and silent so far.
    pub fn dial(addr: SocketAddr, role: &'static str, id: &str) -> io::Result<Peer> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Peer {
            stream: BufReader::new(stream),
            role,
            id: id.to_owned(),
            seq: 0,
            aside: VecDeque::new(),
        })
    }

    /// A worker with these capabilities, welcomed.
    #[track_caller]
    pub fn worker(addr: SocketAddr, id: &str, capabilities: &[&str]) -> Peer {
        let mut peer = Peer::dial(addr, "worker", id).expect("the bus listens");
        peer.hello(capabilities).expect("a worker can say hello");
        peer.hear("protocol_welcome.v1");
        peer
    }

    /// A worker that takes tasks and messages.
    #[track_caller]
    pub fn hand(addr: SocketAddr, id: &str) -> Peer {
        Peer::worker(addr, id, &["assign.v1", "message.v1"])
    }

    /// An operator, welcomed.
    #[track_caller]
    pub fn operator(addr: SocketAddr, id: &str) -> Peer {
        let mut peer = Peer::dial(addr, "operator", id).expect("the bus listens");
        peer.hello(&[]).expect("an operator can say hello");
        peer.hear("protocol_welcome.v1");
        peer
    }

    pub fn hello(&mut self, capabilities: &[&str]) -> io::Result<()> {
        let mut hello = json!({"protocol_version": "0.1", "capabilities": capabilities});
        if self.role == "worker" {
            hello["worker"] = json!({"worker_id": self.id});
            hello["repo"] = json!({});
        }
        self.say("protocol_hello.v1", hello)
    }

    pub fn say(&mut self, kind: &str, payload: Value) -> io::Result<()> {
        self.seq += 1;
        let frame = json!({
            "schema_version": "agentbus-envelope/v1",
            "message_type": kind,
            "sent_at": SENT_AT,
            "sender": {"role": self.role, "id": self.id},
            "seq": self.seq,
            "payload": payload,
        });
        let line = format!("{frame}\n");
        self.stream.get_mut().write_all(line.as_bytes())
    }

    /// The next frame; `None` after the last.
    pub fn next(&mut self) -> io::Result<Option<Value>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(serde_json::from_str(&line).expect("a line is JSON")))
    }

    /// The payload of the next frame of a kind; others stay for whoever asks for them.
    #[track_caller]
    pub fn hear(&mut self, kind: &str) -> Value {
        self.hear_such(kind, |_| true)
    }

    /// The same, of those that are such.
    #[track_caller]
    pub fn hear_such(&mut self, kind: &str, is_such: impl Fn(&Value) -> bool) -> Value {
        let fits = |frame: &Value| frame["message_type"] == kind && is_such(&frame["payload"]);
        if let Some(at) = self.aside.iter().position(fits) {
            let frame = self.aside.remove(at);
            return frame.expect("it was just there")["payload"].take();
        }
        loop {
            let frame = match self.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => panic!("{} was cut off before {kind}: {:?}", self.id, self.aside),
                Err(error) => panic!("{} waits for {kind}: {error}; {:?}", self.id, self.aside),
            };
            if fits(&frame) {
                return { frame }["payload"].take();
            }
            self.aside.push_back(frame);
        }
    }

    /// Everything that was sent before this is dealt with: the director answers in order.
    ///
    /// Tells the frames that came meanwhile.
    #[track_caller]
    pub fn settle(&mut self) -> Vec<Value> {
        let nobody = format!("nobody-{}", self.seq);
        let ack = json!({"message_id": nobody});
        self.say("agent_message_ack.v1", ack)
            .expect("it can be said");
        self.hear_such("agent_message_ack.v1", |ack| ack["message_id"] == *nobody);
        self.aside.iter().cloned().collect()
    }

    /// The next task that it is given.
    #[track_caller]
    pub fn assigned(&mut self) -> Assigned {
        Assigned::of(&self.hear("task_assigned.v1"))
    }

    #[track_caller]
    pub fn accept(&mut self, task: &Assigned) {
        let accepted = json!({"issue_number": task.number, "epoch": task.epoch});
        self.say("task_accepted.v1", accepted)
            .expect("it can be said");
    }

    #[track_caller]
    pub fn finish(&mut self, task: &Assigned) {
        self.say("task_result.v1", result(task))
            .expect("it can be said");
    }

    #[track_caller]
    pub fn beat(&mut self, stage: &str, number: u64) {
        self.say("heartbeat.v1", state(stage, number))
            .expect("it can be said");
    }
}

impl Assigned {
    pub fn of(payload: &Value) -> Assigned {
        let number = |field: &str| {
            payload[field]
                .as_u64()
                .unwrap_or_else(|| panic!("no {field} in {payload}"))
        };
        Assigned {
            task: payload["task_id"].as_str().unwrap_or_default().to_owned(),
            number: number("issue_number"),
            epoch: number("epoch"),
            attempt: number("attempt"),
        }
    }
}

/// The payload of a heartbeat.
pub fn state(stage: &str, number: u64) -> Value {
    json!({"state": {
        "stage": stage, "issue_number": number, "attempt": 1, "last_update_at": SENT_AT,
    }})
}

/// The payload of a result.
pub fn result(task: &Assigned) -> Value {
    json!({
        "issue_number": task.number,
        "epoch": task.epoch,
        "result": {
            "summary": "done on the bus",
            "files_created": [], "files_modified": ["src/bus.rs"], "files_deleted": [],
        },
    })
}
