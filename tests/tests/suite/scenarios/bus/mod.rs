//! Agents that are workers of the bus, beside others that speak HTTP.
//!
//! Each step of such an agent for which the bus has words is said there, on a connection like any other, and the answer is put
//! together from what the director says and from what everyone sees afterwards. A worker is given tasks and messages only
//! while its hello lists them, so it says hello again to claim or to receive, and once more to be left alone. What the bus has
//! no words for goes over HTTP; where the bus gives or takes nothing, HTTP is asked why, and must find nothing either.

mod steps;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::limits;
use switchboard_hub::config::Config;
use switchboard_store::conformance::START;
use switchboard_tests::until;
use tokio::runtime::Runtime;

use super::act::{Call, Deed};
use super::engine::Kind;
use super::scene::{Expected, Scene, Step};
use super::sql::named;
use super::stage::{Answered, Stage, can_pass};
use super::{Answer, Driver};
use crate::bus::peer::Peer;

/// Which agents of a scene are workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    All,
    /// The first one that registers, the third, and so on; the others speak HTTP.
    First,
    /// The other way round.
    Second,
}

/// The steps that the bus has words for.
pub const STEPS: [&str; 10] = [
    "ackMessage",
    "claim",
    "complete",
    "fail",
    "heartbeat",
    "progress",
    "receiveMessages",
    "register",
    "releaseTask",
    "sendMessage",
];

/// Scenes whose rules are others for workers, and in what.
const OTHERWISE: &[(&str, &str)] = &[
    ("agent-silent-budget.scene", PAST_ITS_BUDGET),
    ("dependencies-failed.scene", PAST_ITS_BUDGET),
    ("fail-backoff.scene", PAST_ITS_BUDGET),
    ("fail.scene", PAST_ITS_BUDGET),
    ("messages-directed.scene", COMES_AGAIN),
];
const COMES_AGAIN: &str =
    "what a connection brought and nobody acknowledged before it ended comes again";
const PAST_ITS_BUDGET: &str = "past its budget a task that the bus handed out waits for a person";

/// Nothing of a scene takes so long.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

pub struct ByBus {
    workers: Workers,
    kind: Kind,
    runtime: Runtime,
    play: Option<Play>,
    /// How often the bus was the way, by step.
    pub said: BTreeMap<&'static str, usize>,
}

/// One scene.
struct Play {
    stage: Stage,
    bus: SocketAddr,
    /// Agents that are to be workers, and those that are.
    chosen: Vec<String>,
    hands: HashMap<String, Hand>,
    /// What workers were told of their claims: agent and task to number and epoch.
    claims: HashMap<(String, String), (u64, u64)>,
    /// Whether the last step was done on the bus.
    was_on_the_bus: bool,
}

/// A worker's connection.
struct Hand {
    peer: Peer,
    skills: Vec<String>,
}

impl ByBus {
    pub fn new(kind: Kind, workers: Workers) -> Self {
        ByBus {
            workers,
            kind,
            runtime: Runtime::new().expect("a runtime"),
            play: None,
            said: BTreeMap::new(),
        }
    }
}

impl Driver for ByBus {
    fn name(&self) -> String {
        let who = match self.workers {
            Workers::All => "all agents",
            Workers::First => "every other agent",
            Workers::Second => "every other agent but the first",
        };
        format!("the bus for {who}, over {}", self.kind.name())
    }

    fn can_run(&self, scene: &Scene) -> bool {
        let is_otherwise = OTHERWISE.iter().any(|(name, _)| scene.name == *name);
        can_pass(scene) && !is_otherwise
    }

    fn begin(&mut self, scene: &Scene) {
        let stage = Stage::open_with(&self.runtime, &self.kind, scene, START, with_bus);
        let bus = stage.hub.bus();
        until("the director hands out work", || {
            let mut operator = Peer::operator(bus, "operator");
            let snapshot = operator.hear("project_state_snapshot.v1");
            (snapshot["director"]["paused"] == false).then_some(())
        });
        self.play = Some(Play {
            stage,
            bus,
            chosen: chosen(scene, self.workers),
            hands: HashMap::new(),
            claims: HashMap::new(),
            was_on_the_bus: false,
        });
    }

    fn perform(&mut self, deed: &Deed) -> Answer {
        let play = self.play.as_mut().expect("a scene has begun");
        let body = self.runtime.block_on(play.perform(deed));
        if let (true, Deed::Call(call)) = (play.was_on_the_bus, deed) {
            *self.said.entry(call.route).or_default() += 1;
        }
        Answer { body }
    }

    fn awaits(&self, step: &Step) -> Vec<Expected> {
        match (&self.play, &step.deed) {
            (Some(play), Deed::Call(call)) if play.was_on_the_bus => awaits(step, call),
            _ => step.expected.clone(),
        }
    }

    fn end(&mut self) {
        if let Some(play) = self.play.take() {
            drop(play.hands);
            self.runtime.block_on(play.stage.hub.stop());
        }
    }
}

/// The limits are those of HTTP, so that one scene holds for all doors.
fn with_bus(config: &mut Config) {
    let bus = &mut config.bus;
    bus.enabled = true;
    bus.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    bus.heartbeat_ttl = limits::SILENT_AFTER;
    (bus.watchdog, bus.claim_stale, bus.accept_within) = (NEVER, NEVER, NEVER);
    bus.memory.enabled = false;
}

/// Agents that register once, and have nothing that a hello cannot say.
pub fn chosen(scene: &Scene, workers: Workers) -> Vec<String> {
    let calls = scene.steps.iter().filter_map(|step| match &step.deed {
        Deed::Call(call) if call.route == "register" => Some(call),
        _ => None,
    });
    let mut agents: Vec<(String, bool)> = Vec::new();
    for call in calls {
        let agent = named(call, "agent.id");
        match agents.iter_mut().find(|(known, _)| *known == agent) {
            Some((_, plain)) => *plain = false,
            None => agents.push((agent, is_plain(&call.given["agent"]))),
        }
    }
    let may = |at: usize| match workers {
        Workers::All => true,
        Workers::First => at.is_multiple_of(2),
        Workers::Second => !at.is_multiple_of(2),
    };
    let chosen = agents.into_iter().enumerate();
    chosen
        .filter(|(at, (_, plain))| may(*at) && *plain)
        .map(|(_, (agent, _))| agent)
        .collect()
}

fn is_plain(agent: &Value) -> bool {
    let can = &agent["capabilities"];
    agent["name"] == agent["id"]
        && agent["type"] == "custom"
        && agent.get("machine").is_none()
        && (&can["maxTaskMinutes"], &can["canRunTests"]) == (&json!(60), &json!(true))
        && (&can["canRunBuild"], &can["canAccessBrowser"]) == (&json!(true), &json!(false))
}

/// What is asked of a step that was done on the bus: the director does not tell what the gate found.
pub fn awaits(step: &Step, call: &Call) -> Vec<Expected> {
    let mut expected = step.expected.clone();
    let first = &mut expected[0];
    if call.route == "complete" && first.words[0] != "refused" {
        first.words.truncate(1);
        first.facts.retain(|(name, _)| name == "success");
        expected.truncate(1);
    }
    expected
}

impl Play {
    async fn perform(&mut self, deed: &Deed) -> Value {
        self.was_on_the_bus = false;
        let Deed::Call(call) = deed else {
            return self.stage.pass(deed).await;
        };
        self.stage.before().await;
        let answered = self.on_the_bus(call).await;
        self.was_on_the_bus = matches!(answered, Some(Ok(_)));
        let body = self.stage.answer(call, answered, "bus").await;
        if !self.was_on_the_bus {
            self.note(call, &body);
        }
        self.stage.after();
        body
    }

    /// What went over HTTP.
    fn note(&mut self, call: &Call, body: &Value) {
        if call.route == "deregister" {
            self.hands.remove(call.id.as_deref().unwrap_or_default());
        }
        // Who claims over HTTP knows its claim on the bus as well.
        if let ("claim", Some(id)) = (call.route, body["task"]["id"].as_str()) {
            let task = &body["task"];
            let numbers = (number(&task["number"]), number(&task["epoch"]));
            let claim = (named(call, "agentId"), id.to_owned());
            self.claims.insert(claim, numbers);
        }
    }

    /// Does it on the bus; `None` if it has no words for it, or the agent is no worker.
    async fn on_the_bus(&mut self, call: &Call) -> Option<Answered> {
        if call.key.is_some() {
            return None;
        }
        if call.route == "register" {
            return self.register(call).await;
        }
        let agent = call.given.get("agentId")?.as_str()?.to_owned();
        if !self.hands.contains_key(&agent) {
            return None;
        }
        match call.route {
            "heartbeat" => self.heartbeat(call, &agent).await,
            "claim" => self.claim(call, &agent).await,
            "progress" => self.progress(call, &agent).await,
            "complete" => self.complete(call, &agent).await,
            "fail" => self.fail(call, &agent).await,
            "releaseTask" => self.decline(call, &agent).await,
            "sendMessage" => self.send(call, &agent).await,
            "receiveMessages" => self.receive(call, &agent).await,
            "ackMessage" => Some(self.acknowledge(call, &agent).await),
            _ => None,
        }
    }

    /// A new connection of a worker, with its skills and these capabilities.
    fn reconnect(&mut self, agent: &str, capabilities: &[&str]) -> &mut Peer {
        let hand = self.hands.get_mut(agent).expect("it is a worker");
        let skills = hand.skills.iter().map(String::as_str);
        let all: Vec<&str> = capabilities.iter().copied().chain(skills).collect();
        hand.peer = Peer::worker(self.bus, agent, &all);
        &mut hand.peer
    }

    fn peer(&mut self, agent: &str) -> &mut Peer {
        &mut self.hands.get_mut(agent).expect("it is a worker").peer
    }

    /// Says something, and waits until it is dealt with.
    fn say(&mut self, agent: &str, kind: &str, payload: Value) {
        let peer = self.peer(agent);
        peer.say(kind, payload).expect("it can be said");
        peer.settle();
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
