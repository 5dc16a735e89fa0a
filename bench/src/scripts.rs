//! What one agent on one connection does, operation by operation.

use std::io::Write as _;
use std::net::SocketAddr;

use crate::answers::{self, Held};
use crate::http::{Answer, Requests};
use crate::load::{Script, Verdict};

/// The name of the bench's agent with this number.
pub fn agent_name(number: usize) -> String {
    format!("bench-{number}")
}

/// Whether calls carry an idempotency key, as the client library's always do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    None,
    EveryCall,
}

/// Writes one new task that needs `skill`.
pub fn write_task(out: &mut Vec<u8>, number: u64, skill: std::fmt::Arguments<'_>) {
    write!(
        out,
        r#"{{"title":"Task {number} of the bench","description":"Change one function and run its tests.","priority":"medium","type":"code","requiredSkills":["{skill}"],"files":["src/lib.rs"],"estimatedMinutes":10}}"#
    )
    .expect("a vector takes any number of bytes");
}

/// Creates one task after another.
pub struct Create {
    requests: Requests,
    body: Vec<u8>,
    number: u64,
}

impl Create {
    pub fn new(server: SocketAddr) -> Self {
        Self {
            requests: Requests::new(server),
            body: Vec::new(),
            number: 0,
        }
    }
}

impl Script for Create {
    fn request(&mut self, out: &mut Vec<u8>) {
        self.body.clear();
        self.number += 1;
        write_task(&mut self.body, self.number, format_args!("rust"));
        self.requests
            .post(out, format_args!("/api/v1/tasks"), &self.body);
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        good_if(answer.status == 201)
    }
}

/// Claims a task, completes it, and claims the next.
pub struct ClaimComplete {
    requests: Requests,
    agent: String,
    claim_body: Vec<u8>,
    body: Vec<u8>,
    held: Held,
    holds: bool,
    keys: Keys,
    calls: u64,
}

impl ClaimComplete {
    pub fn new(server: SocketAddr, agent: String, keys: Keys) -> Self {
        let claim_body = format!(r#"{{"protocolVersion":"1.0","agentId":"{agent}"}}"#);
        Self {
            requests: Requests::new(server),
            agent,
            claim_body: claim_body.into_bytes(),
            body: Vec::new(),
            held: Held::default(),
            holds: false,
            keys,
            calls: 0,
        }
    }

    fn claim(&self, out: &mut Vec<u8>) {
        let path = format_args!("/api/v1/tasks/claim");
        self.post(out, path, &self.claim_body);
    }

    fn complete(&mut self, out: &mut Vec<u8>) {
        self.body.clear();
        self.body.push(b'{');
        write_completion(&mut self.body, &self.agent, &self.held);
        self.body.push(b'}');
        let path = format_args!("/api/v1/tasks/{}/complete", self.held.id);
        self.post(out, path, &self.body);
    }

    fn post(&self, out: &mut Vec<u8>, path: std::fmt::Arguments<'_>, body: &[u8]) {
        match self.keys {
            Keys::None => self.requests.post(out, path, body),
            Keys::EveryCall => {
                let key = format_args!("{}-{}", self.agent, self.calls);
                self.requests.post_once(out, path, key, body);
            }
        }
    }
}

impl Script for ClaimComplete {
    fn request(&mut self, out: &mut Vec<u8>) {
        self.calls += 1;
        if self.holds {
            self.complete(out);
        } else {
            self.claim(out);
        }
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        let completed = std::mem::take(&mut self.holds);
        if answer.status != 200 {
            return Verdict::Failed;
        }
        if completed {
            return Verdict::Good { units: 1 };
        }
        match answers::claimed_task(&answer.body, &mut self.held) {
            Some(()) => {
                self.holds = true;
                Verdict::Good { units: 0 }
            }
            None => Verdict::Exhausted,
        }
    }
}

/// Writes the fields of a completion, without the braces around them.
pub fn write_completion(out: &mut Vec<u8>, agent: &str, held: &Held) {
    let id = &held.id;
    write!(out, r#""protocolVersion":"1.0","agentId":"{agent}","taskId":"{id}","#)
        .and_then(|()| match held.epoch {
            Some(epoch) => write!(out, r#""epoch":{epoch},"#),
            None => Ok(()),
        })
        .and_then(|()| {
            out.write_all(br#""result":{"filesCreated":[],"filesModified":["src/lib.rs"],"filesDeleted":[],"summary":"The function is changed and its tests pass."}"#)
        })
        .expect("a vector takes any number of bytes");
}

/// Sends prepared requests in turn, again and again.
pub struct Prepared {
    requests: Vec<Vec<u8>>,
    next: usize,
}

impl Prepared {
    pub fn new(requests: Vec<Vec<u8>>) -> Self {
        Self { requests, next: 0 }
    }

    /// Says that an agent is alive.
    pub fn heartbeat(server: SocketAddr, agent: &str) -> Self {
        let body = format!(
            r#"{{"protocolVersion":"1.0","agentId":"{agent}","status":"idle","metrics":{{"memoryUsedMB":200,"tasksCompletedSession":3}}}}"#
        );
        let path = format!("/api/v1/agents/{agent}/heartbeat");
        Self::new(vec![post(server, &path, &body)])
    }

    /// Sends a message to a neighbour, then fetches its own.
    pub fn send_receive(server: SocketAddr, agent: &str, neighbour: &str) -> Self {
        let send = format!(
            r#"{{"protocolVersion":"1.0","agentId":"{agent}","message":{{"to":"{neighbour}","type":"info.discovery","payload":{{"file":"src/lib.rs","note":"the parser is generated"}}}}}}"#
        );
        let mut receive = Vec::new();
        let path = format_args!("/api/v1/messages?agentId={agent}&limit=100");
        Requests::new(server).get(&mut receive, path);
        Self::new(vec![post(server, "/api/v1/messages", &send), receive])
    }

    /// Leases a file of its own, then lets it go.
    pub fn acquire_release(server: SocketAddr, agent: &str) -> Self {
        let file = format!("src/{agent}/lib.rs");
        let acquire = format!(
            r#"{{"protocolVersion":"1.0","agentId":"{agent}","taskId":null,"filePath":"{file}","durationMs":60000}}"#
        );
        let release =
            format!(r#"{{"protocolVersion":"1.0","agentId":"{agent}","filePath":"{file}"}}"#);
        Self::new(vec![
            post(server, "/api/v1/leases/acquire", &acquire),
            post(server, "/api/v1/leases/release", &release),
        ])
    }
}

impl Script for Prepared {
    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[self.next]);
        self.next = (self.next + 1) % self.requests.len();
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        let refused = answers::count_of(&answer.body, r#""success":false"#) > 0;
        good_if((answer.status == 200 || answer.status == 201) && !refused)
    }
}

pub fn post(server: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    let mut request = Vec::new();
    Requests::new(server).post(&mut request, format_args!("{path}"), body.as_bytes());
    request
}

fn good_if(hoped_for: bool) -> Verdict {
    if hoped_for {
        Verdict::Good { units: 1 }
    } else {
        Verdict::Failed
    }
}
