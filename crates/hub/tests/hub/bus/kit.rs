//! One end of a connection to the bus, as small as it gets: lines out, lines in, each with a deadline.
//!
//! Whatever a test is about, every frame that the director sends is held to the envelope's rules here.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_hub::config::Config;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::{Client, SOON, TestHub, start_as};
use crate::world::eventually;

/// Nobody's clock: what a sender says about the time orders nothing.
pub const SENT_AT: &str = "2026-02-12T00:00:00Z";
pub const ASSIGN: &[&str] = &["assign.v1"];
pub const MAIL: &[&str] = &["message.v1"];

/// A hub with a bus, without a memory of its own.
pub async fn bus() -> TestHub {
    bus_as(|_| {}).await
}

pub async fn bus_as(change: impl FnOnce(&mut Config)) -> TestHub {
    start_as(|config| {
        config.bus.enabled = true;
        config.bus.memory.enabled = false;
        change(config);
    })
    .await
}

pub struct Peer {
    reader: BufReader<Box<dyn AsyncRead + Unpin + Send>>,
    writer: Box<dyn AsyncWrite + Unpin + Send>,
    pub role: &'static str,
    pub id: String,
    pub seq: u64,
    /// The number of the last frame that came.
    heard: u64,
    /// The bytes of the last line that came.
    pub line_bytes: usize,
    /// Frames that came and that nobody has asked for yet.
    pub passed: VecDeque<Value>,
}

impl Peer {
    /// A connection on which nothing was said yet.
    pub async fn open(hub: &TestHub) -> Peer {
        let addr = hub.running.bus_addr().unwrap();
        Peer::on(TcpStream::connect(addr).await.unwrap())
    }

    pub fn on<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> Peer {
        let (reader, writer) = tokio::io::split(stream);
        Peer {
            reader: BufReader::new(Box::new(reader)),
            writer: Box::new(writer),
            role: "worker",
            id: "nobody".to_owned(),
            seq: 0,
            heard: 0,
            line_bytes: 0,
            passed: VecDeque::new(),
        }
    }

    /// A worker that was welcomed.
    pub async fn worker(hub: &TestHub, id: &str, capabilities: &[&str]) -> Peer {
        let mut peer = Peer::open(hub).await;
        peer.greet("worker", id, hello(id, capabilities)).await;
        peer.expect("protocol_welcome.v1").await;
        peer
    }

    /// An operator that was welcomed.
    pub async fn operator(hub: &TestHub, id: &str) -> Peer {
        let mut peer = Peer::open(hub).await;
        let hello = json!({ "protocol_version": "0.1", "capabilities": [] });
        peer.greet("operator", id, hello).await;
        peer.expect("protocol_welcome.v1").await;
        peer
    }

    pub async fn greet(&mut self, role: &'static str, id: &str, hello: Value) {
        (self.role, self.id) = (role, id.to_owned());
        self.send("protocol_hello.v1", hello).await;
    }

    /// The next frame of this sender, which nobody has sent yet.
    pub fn frame(&mut self, message_type: &str, payload: &Value) -> Value {
        self.seq += 1;
        json!({
            "schema_version": "agentbus-envelope/v1", "message_type": message_type, "sent_at": SENT_AT,
            "sender": { "role": self.role, "id": self.id }, "seq": self.seq, "payload": payload,
        })
    }

    /// Sends a message and tells its number.
    pub async fn send(&mut self, message_type: &str, payload: Value) -> u64 {
        let frame = self.frame(message_type, &payload);
        self.line(&frame.to_string()).await;
        self.seq
    }

    pub async fn line(&mut self, line: &str) {
        self.raw(format!("{line}\n").as_bytes()).await;
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        assert!(self.try_raw(bytes).await, "the connection is open");
    }

    /// False if the other end is gone.
    pub async fn try_raw(&mut self, bytes: &[u8]) -> bool {
        let wrote = timeout(SOON, self.writer.write_all(bytes)).await;
        wrote.expect("it can be written").is_ok()
    }

    /// The next frame of any type; nothing at the end.
    pub async fn next(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        let read = timeout(SOON, self.reader.read_until(b'\n', &mut line)).await;
        match read.expect("the director says something in time") {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        // agentbus.framing.newline_terminated, agentbus.envelope.required, agentbus.envelope.seq_monotonic
        assert_eq!(line.pop(), Some(b'\n'), "a line ends with a newline");
        self.line_bytes = line.len();
        let frame: Value = serde_json::from_slice(&line).expect("a line is JSON");
        assert_eq!(frame["schema_version"], "agentbus-envelope/v1");
        assert!(frame["message_type"].is_string() && frame["sent_at"].is_string());
        assert!(frame["sender"]["id"].is_string() && frame["payload"].is_object());
        let seq = frame["seq"].as_u64().expect("seq is a number");
        assert_eq!(seq, self.heard + 1, "nothing is left out or repeated");
        self.heard = seq;
        Some(frame)
    }

    /// The next frame of this type, whole.
    pub async fn expect_frame(&mut self, message_type: &str) -> Value {
        let is_it = |frame: &Value| frame["message_type"] == message_type;
        if let Some(at) = self.passed.iter().position(is_it) {
            return self.passed.remove(at).expect("it was found there");
        }
        loop {
            let Some(frame) = self.next().await else {
                panic!("no {message_type} before the end: {:?}", self.passed);
            };
            if is_it(&frame) {
                return frame;
            }
            self.passed.push_back(frame);
        }
    }

    /// The payload of the next frame of this type.
    pub async fn expect(&mut self, message_type: &str) -> Value {
        self.expect_frame(message_type).await["payload"].take()
    }

    /// The next refusal, which has this code.
    pub async fn refused(&mut self, code: &str) -> Value {
        let error = self.expect("protocol_error.v1").await;
        assert_eq!(error["code"], code, "{error}");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        error
    }

    /// Reads until the director ends it.
    pub async fn ended(&mut self) {
        while let Some(frame) = self.next().await {
            self.passed.push_back(frame);
        }
    }

    /// Everything that was sent before has been dealt with, and its answers are here.
    pub async fn fence(&mut self) {
        self.send("catalog_refresh_request.v1", json!({})).await;
        self.expect("engram_catalog_snapshot.v1").await;
    }

    /// Frames of this type that came and were not asked for.
    pub fn came(&self, message_type: &str) -> usize {
        let is_it = |frame: &&Value| frame["message_type"] == message_type;
        self.passed.iter().filter(is_it).count()
    }

    pub async fn beat(&mut self, stage: &str, number: u64) -> u64 {
        let state = json!({ "stage": stage, "issue_number": number, "attempt": 1, "last_update_at": SENT_AT });
        self.send("heartbeat.v1", json!({ "state": state })).await
    }

    pub async fn beat_at(&mut self, stage: &str, number: u64, (step, percent): (&str, f64)) {
        let state = json!({
            "stage": stage, "issue_number": number, "attempt": 1, "last_update_at": SENT_AT,
            "progress": { "step": step, "percent": percent },
        });
        self.send("heartbeat.v1", json!({ "state": state })).await;
    }

    /// Waits for a task of this number and takes it.
    pub async fn take_on(&mut self, number: u64) -> Value {
        let assigned = self.expect("task_assigned.v1").await;
        assert_eq!(assigned["issue_number"], number, "{assigned}");
        self.accept(&assigned).await;
        assigned
    }

    pub async fn accept(&mut self, assigned: &Value) {
        let accepted =
            json!({ "issue_number": assigned["issue_number"], "epoch": assigned["epoch"] });
        self.send("task_accepted.v1", accepted).await;
        self.fence().await;
    }

    pub async fn decline(&mut self, assigned: &Value) {
        let declined = json!({
            "issue_number": assigned["issue_number"], "epoch": assigned["epoch"], "reason": "not now",
        });
        self.send("task_declined.v1", declined).await;
        self.fence().await;
    }

    /// The next snapshot that shows this.
    pub async fn snapshot(&mut self, shows: impl Fn(&Value) -> bool) -> Value {
        let search = async {
            loop {
                let snapshot = self.expect("project_state_snapshot.v1").await;
                if shows(&snapshot) {
                    return snapshot;
                }
            }
        };
        timeout(SOON, search)
            .await
            .expect("it is shown before long")
    }
}

pub fn hello(id: &str, capabilities: &[&str]) -> Value {
    json!({
        "protocol_version": "0.1", "capabilities": capabilities,
        "worker": { "worker_id": id }, "repo": {},
    })
}

/// A worker's line in a snapshot.
pub fn entry<'a>(snapshot: &'a Value, id: &str) -> &'a Value {
    let workers = snapshot["workers"].as_array().unwrap();
    let found = workers.iter().find(|worker| worker["worker_id"] == id);
    found.unwrap_or(&Value::Null)
}

pub fn error(id: &str, number: u64, (transient, retry, escalate): (bool, bool, bool)) -> Value {
    json!({ "error": {
        "error_id": id, "worker_id": "w1", "issue_number": number, "stage": "VALIDATE", "attempt": 1,
        "error_type": "github_rate_limited", "is_transient": transient, "should_retry": retry,
        "escalate_to_human": escalate, "message": "no more requests",
    }})
}

/// Makes a task over HTTP and tells its id and its number.
pub async fn make(client: Client, task: Value) -> (String, u64) {
    let made = client.post("/api/v1/tasks", task).await.expect(201);
    let task = &made["task"];
    let id = task["id"].as_str().unwrap().to_owned();
    (id, task["number"].as_u64().unwrap())
}

pub async fn shown(client: Client, task: &str) -> Value {
    let answer = client.get(&format!("/api/v1/tasks/{task}")).await;
    answer.expect(200)["task"].take()
}

/// The task, once it has this status.
pub async fn until(client: Client, task: &str, status: &str) -> Value {
    let mut last = Value::Null;
    let reached = timeout(SOON, async {
        loop {
            last = shown(client, task).await;
            if last["status"] == status {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let reached = reached.await.is_ok();
    assert!(reached, "{task} never was {status}: {last}");
    last
}

/// Until the agent has this status.
pub async fn until_agent(client: Client, agent: &str, status: &str) {
    let path = format!("/api/v1/agents/{agent}");
    eventually(async || client.get(&path).await.json()["agent"]["status"] == status).await;
}

/// How often something was wrong with a line, by the hub's own count.
pub async fn flagged(client: Client, flag: &str) -> u64 {
    figure(client, &format!("flag=\"{flag}\"")).await
}

/// A figure of the hub's own, by a part of its name.
pub async fn figure(client: Client, name: &str) -> u64 {
    let text = client.get("/metrics").await.text;
    let is_it = |line: &&str| line.contains(name) && !line.starts_with('#');
    let line = text.lines().find(is_it);
    line.and_then(|line| line.rsplit(' ').next())
        .map_or(0, |count| count.parse().unwrap())
}
