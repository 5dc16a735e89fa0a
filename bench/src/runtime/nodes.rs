//! Two hubs that are joined, and what is published on the one for agents of the other.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::ground::{Ground, Place};
use crate::http::{Answer, Requests};
use crate::hub_process::Hub;
use crate::load::{Script, Verdict};

/// Agents at the far node: so many inboxes hold what is published.
const AGENTS: usize = 128;
const KNOWN_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const SPEAKER: &str = "near";

/// The second one has no endpoint: it reads the first one's outbox, and brings its own.
pub struct Pair {
    pub near: Place,
    pub far: Place,
}

impl Pair {
    /// Both know each other's agents.
    pub fn start(ground: &Ground<'_>) -> anyhow::Result<Self> {
        let (near, far) = (ground.new_hub()?, ground.new_hub()?);
        near.hub.register(SPEAKER)?;
        for number in 0..AGENTS {
            far.hub.register(&agent(number))?;
        }
        let invite = invite(&near.hub)?;
        let url = format!("http://{}", near.hub.server);
        let join = json!({ "url": url, "inviteToken": invite });
        call(&far.hub, "/runtime/v1/nodes/join", &join)?;
        let last = event(&agent(AGENTS - 1), 0);
        let began_at = Instant::now();
        while near.hub.post(EVENTS, &last)?.0 != 201 {
            ensure!(
                began_at.elapsed() < KNOWN_WITHIN,
                "the agents are not known"
            );
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(Self { near, far })
    }
}

pub const EVENTS: &str = "/runtime/v1/events";

pub fn invite(hub: &Hub) -> anyhow::Result<String> {
    let invited = call(hub, "/runtime/v1/invites", &json!({}))?;
    let token = invited["inviteToken"].as_str();
    Ok(token.context("an invitation has no token")?.to_owned())
}

/// A call that must succeed.
pub fn call(hub: &Hub, path: &str, body: &Value) -> anyhow::Result<Value> {
    let (status, answer) = hub.post(path, body)?;
    let said = String::from_utf8_lossy(&answer);
    ensure!(matches!(status, 200 | 201), "{path}: {status} {said}");
    Ok(serde_json::from_slice(&answer)?)
}

/// How many events of the other node a hub has taken in.
pub fn taken_in(hub: &Hub) -> anyhow::Result<u64> {
    let own = get(hub, "/runtime/v1/nodes")?;
    let own = &own["own"]["nodeId"];
    let cursors = get(hub, "/runtime/v1/cursors")?;
    let cursors = cursors["cursors"].as_array().context("no list")?;
    let of = cursors.iter().find(|one| one["consumerNodeId"] == *own);
    Ok(of.and_then(|one| one["lastSeq"].as_u64()).unwrap_or(0))
}

fn get(hub: &Hub, path: &str) -> anyhow::Result<Value> {
    let (status, answer) = hub.get(path)?;
    ensure!(status == 200, "{path}: {status}");
    Ok(serde_json::from_slice(&answer)?)
}

pub fn agent(number: usize) -> String {
    format!("far-{}", number % AGENTS)
}

/// A message as an agent publishes it.
pub fn event(to: &str, number: u64) -> Value {
    json!({ "kind": "message", "sourceAgentId": SPEAKER, "payload": {
        "toAgents": [to], "subject": "The parser is done",
        "body": format!("Part {number} is done: one function is changed and its tests pass."),
    } })
}

/// Publishes one event after the other, for each agent in turn.
pub struct Publish {
    requests: Requests,
    next: usize,
    body: Vec<u8>,
    /// How many all of them may still publish.
    left: Arc<AtomicU64>,
}

impl Publish {
    /// So many connections that publish so many together.
    pub fn scripts(server: SocketAddr, connections: usize, events: u64) -> Vec<Publish> {
        let left = Arc::new(AtomicU64::new(events));
        let script = |number| Publish {
            requests: Requests::new(server),
            next: number,
            body: Vec::new(),
            left: Arc::clone(&left),
        };
        (0..connections).map(script).collect()
    }
}

impl Script for Publish {
    fn request(&mut self, out: &mut Vec<u8>) {
        self.next += 1;
        self.body.clear();
        let event = event(&agent(self.next), self.next as u64);
        write!(self.body, "{event}").expect("a vector takes any number of bytes");
        self.requests
            .post(out, format_args!("{EVENTS}"), &self.body);
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        if answer.status != 201 {
            return Verdict::Failed;
        }
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 | 1 => Verdict::Exhausted,
            _ => Verdict::Good { units: 1 },
        }
    }
}
