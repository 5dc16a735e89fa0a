//! Agents that are roles of the broker.
//!
//! An agent signs on with a frame, and then over HTTP as well, for all that frames have no words for: one agent with two
//! doors. Its first door is open only while it says or takes something, so that its mail waits like everyone's, and its
//! silence counts. Where the broker gives or takes nothing, HTTP is asked why, and must find nothing either.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::{AgentId, Door};
use switchboard_hub::config::Config;
use switchboard_store::conformance::START;
use switchboard_tests::PATIENCE;
use switchboard_wire::squidrun::{Role, Roles};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::act::{Call, Deed};
use super::bus::{self, Workers};
use super::engine::Kind;
use super::http::Transport;
use super::scene::{Expected, Scene, Step};
use super::sql::{named, text};
use super::stage::{Answered, Nothing, Stage, can_pass};
use super::{Answer, Driver};
use crate::broker::{next, open, register};

/// The steps that the broker has words for.
pub const STEPS: [&str; 8] = [
    "ackMessage",
    "claim",
    "complete",
    "createTasks",
    "fail",
    "receiveMessages",
    "register",
    "sendMessage",
];

/// The one scene whose texts name agents; roles are in lower case.
const OTHERWISE: &str = "why.scene";

/// How often to look. Only decides how quickly a scene goes on.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Before every scene.
const LONG_AGO: &str = "2025-01-01T00:00:00.000Z";

pub struct ByBroker {
    kind: Kind,
    runtime: Runtime,
    play: Option<Play>,
    /// How often the broker was the way, by step.
    pub said: BTreeMap<&'static str, usize>,
}

/// One scene.
struct Play {
    stage: Stage,
    broker: SocketAddr,
    /// Ids of the scene and of the hub: roles are in lower case, and a message's task is called after it.
    names: Vec<(String, String)>,
    /// Roles that signed on, and how much each has said.
    roles: HashMap<String, u32>,
    /// Tasks that messages made.
    tasks: Vec<String>,
    was_said: bool,
}

impl ByBroker {
    pub fn new(kind: Kind) -> Self {
        ByBroker {
            kind,
            runtime: Runtime::new().expect("a runtime"),
            play: None,
            said: BTreeMap::new(),
        }
    }
}

impl Driver for ByBroker {
    fn name(&self) -> String {
        format!("the broker, over {}", self.kind.name())
    }

    fn can_run(&self, scene: &Scene) -> bool {
        can_pass(scene) && scene.name != OTHERWISE
    }

    fn begin(&mut self, scene: &Scene) {
        let names: Vec<(String, String)> = bus::chosen(scene, Workers::All)
            .into_iter()
            .filter(|agent| !AgentId::from(agent.as_str()).is_reserved())
            .map(|agent| (agent.clone(), agent.to_lowercase()))
            .collect();
        let with_broker = |config: &mut Config| {
            let role = |(_, id): &(String, String)| Role {
                id: id.clone(),
                pane: format!("pane-{id}"),
                ..Role::default()
            };
            let roles = Roles::with(names.iter().map(role).collect());
            config.broker.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
            config.broker.roles = Arc::new(roles.expect("their words are free"));
        };
        let stage = Stage::open_with(&self.runtime, &self.kind, scene, START, with_broker);
        self.play = Some(Play {
            broker: stage.hub.broker(),
            stage,
            names,
            roles: HashMap::new(),
            tasks: Vec::new(),
            was_said: false,
        });
    }

    fn perform(&mut self, deed: &Deed) -> Answer {
        let play = self.play.as_mut().expect("a scene has begun");
        let body = self.runtime.block_on(play.perform(deed));
        if let (true, Deed::Call(call)) = (play.was_said, deed) {
            *self.said.entry(call.route).or_default() += 1;
        }
        Answer { body }
    }

    fn awaits(&self, step: &Step) -> Vec<Expected> {
        match (&self.play, &step.deed) {
            (Some(play), Deed::Call(call)) if play.was_said => bus::awaits(step, call),
            _ => step.expected.clone(),
        }
    }

    fn end(&mut self) {
        if let Some(play) = self.play.take() {
            self.runtime.block_on(play.stage.hub.stop());
        }
    }
}

fn rename(value: &mut Value, to: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => *text = to(text).unwrap_or_else(|| std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, to)),
        Value::Object(members) => members.values_mut().for_each(|member| rename(member, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn tell(ws: &mut WebSocket<TcpStream>, frame: Value) {
    let frame = Message::text(frame.to_string());
    ws.send(frame).expect("it can be sent");
}

impl Play {
    async fn perform(&mut self, deed: &Deed) -> Value {
        self.was_said = false;
        let mut body = match deed {
            Deed::Call(call) => {
                let call = self.translated(call);
                self.stage.before().await;
                let body = self.call(&call).await;
                self.stage.after();
                body
            }
            _ => self.stage.pass(deed).await,
        };
        let back = |word: &str| self.names.iter().find(|(_, ours)| ours == word);
        rename(&mut body, &|word| {
            back(word).map(|(theirs, _)| theirs.clone())
        });
        body
    }

    fn translated(&self, call: &Call) -> Call {
        let ours = |word: &str| {
            let name = self.names.iter().find(|(theirs, _)| theirs == word);
            name.map(|(_, ours)| ours.clone())
        };
        let mut given = call.given.clone();
        given.values_mut().for_each(|value| rename(value, &ours));
        Call {
            route: call.route,
            id: call
                .id
                .as_ref()
                .map(|id| ours(id).unwrap_or_else(|| id.clone())),
            given,
            key: call.key.clone(),
            view: call.view,
        }
    }

    async fn call(&mut self, call: &Call) -> Value {
        let answered = match call.key {
            None => self.by_frames(call).await,
            Some(_) => None,
        };
        self.was_said = matches!(answered, Some(Ok(_)));
        if call.route == "deregister" {
            self.roles.remove(call.id.as_deref().unwrap_or_default());
        }
        self.stage.answer(call, answered, "broker").await
    }

    /// Says it in frames; `None` if there are no words for it, or the agent is no role.
    async fn by_frames(&mut self, call: &Call) -> Option<Answered> {
        match call.route {
            "register" => return self.register(call).await,
            "createTasks" => return self.delegate(call).await,
            _ => {}
        }
        let agent = text(call, "agentId").filter(|agent| self.roles.contains_key(*agent))?;
        let agent = agent.to_owned();
        match call.route {
            "claim" => self.claim(call, &agent).await,
            "complete" => self.complete(call, &agent).await,
            "fail" => self.fail(call, &agent).await,
            "sendMessage" => self.send(call, &agent).await,
            "receiveMessages" => self.receive(call, &agent).await,
            "ackMessage" => Some(self.acknowledge(call, &agent).await),
            _ => None,
        }
    }

    /// A connection that gets the role's mail.
    fn ear(&self, role: &str) -> WebSocket<TcpStream> {
        let mut ws = open(&self.broker.to_string()).expect("the broker listens");
        let registered = register(&mut ws, role).expect("it is a role");
        assert_eq!(registered["role"], role, "{registered}");
        ws
    }

    /// A connection that gets none, as that of a send script.
    fn mouth(&self, role: &str) -> WebSocket<TcpStream> {
        let mut ws = open(&self.broker.to_string()).expect("the broker listens");
        tell(&mut ws, json!({"type": "health-check", "target": role}));
        next(&mut ws, "health-check-result").expect("an answer");
        register(&mut ws, role).expect("it is a role");
        ws
    }

    /// Goes, and waits until all that it asked for is done and its door is closed.
    async fn leave(&mut self, mut ws: WebSocket<TcpStream>, role: &str) {
        let _ = ws.close(None);
        while ws.read().is_ok() {}
        let is_closed = async || {
            let id = AgentId::from(role);
            let read = self
                .stage
                .hub
                .itself()
                .read(move |ledger| ledger.agent(&id));
            let agent = read.await.expect("the ledger answers");
            agent.is_none_or(|agent| !agent.doors.contains(&Door::Squidrun))
        };
        let closed = async {
            while !is_closed().await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let closed = tokio::time::timeout(PATIENCE, closed).await;
        closed.unwrap_or_else(|_| panic!("{role} never leaves"));
    }

    /// Says something on a connection of its own; the ack.
    async fn say(&mut self, role: &str, to: Option<&str>, id: &str, words: &str) -> Value {
        let said = self.roles.entry(role.to_owned()).or_default();
        *said += 1;
        let content = format!("({} #{said}): {words}", role.to_uppercase());
        let mut ws = self.mouth(role);
        let mut frame =
            json!({"type": "broadcast", "content": content, "messageId": id, "ackRequired": true});
        if let Some(to) = to {
            (frame["type"], frame["target"]) = (json!("send"), json!(to));
        }
        tell(&mut ws, frame);
        let ack = next(&mut ws, "send-ack").expect("an ack");
        assert_eq!(ack["messageId"], id, "{ack}");
        self.leave(ws, role).await;
        ack
    }

    /// The first connection makes an agent of it; over HTTP it says what it can do.
    async fn register(&mut self, call: &Call) -> Option<Answered> {
        let agent = named(call, "agent.id");
        if !self.names.iter().any(|(_, ours)| *ours == agent) {
            return None;
        }
        let ws = self.ear(&agent);
        let shown = self.stage.get("getAgent", Some(&agent), json!({})).await;
        assert_eq!(shown["agent"]["status"], "idle", "{shown}");
        let mut body = self.stage.call(call, Transport::Paths).await;
        assert_eq!(body["resumed"], true, "it is there already: {body}");
        body["resumed"] = json!(false);
        self.leave(ws, &agent).await;
        self.roles.insert(agent, 0);
        Some(Ok(body))
    }

    /// A task for one role that is not tried again is a message with a tag, from the person.
    async fn delegate(&mut self, call: &Call) -> Option<Answered> {
        let audience = call.given.get("audience")?.as_array()?;
        let [role] = audience.as_slice() else {
            return None;
        };
        let role = role
            .as_str()
            .filter(|role| self.roles.contains_key(*role))?;
        let is_plain = call.given.len() == 4 && call.given.get("maxRetries") == Some(&json!(0));
        let (id, words) = (
            text(call, "id")?,
            format!("[TASK] {}", text(call, "title")?),
        );
        if !is_plain {
            return None;
        }
        let ack = self.say("user", Some(role), id, &words).await;
        assert_eq!(ack["status"], "accepted.unverified", "{ack}");
        let task = format!("sq:{id}");
        self.names.push((id.to_owned(), task.clone()));
        self.tasks.push(task.clone());
        Some(Ok(
            json!({"success": true, "task": self.stage.task(&task).await}),
        ))
    }

    /// Whoever is handed a message that delegates a task has it.
    async fn claim(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let mut waiting = None;
        for id in self.tasks.clone() {
            let task = self.stage.task(&id).await;
            let is_its = task["status"] == "ready" && task["audience"] == json!([agent]);
            waiting = waiting.or(is_its.then_some(task));
        }
        let waiting = waiting.filter(|_| call.given.len() == 1)?;
        let mut ws = self.ear(agent);
        let content = loop {
            let frame = next(&mut ws, "message").expect("the task comes");
            let id = format!("sq:{}", frame["traceId"].as_str().unwrap_or_default());
            if waiting["id"] == id {
                break frame["content"].to_string();
            }
        };
        let number = format!("(task #{})\"", waiting["number"]);
        assert!(content.ends_with(&number), "{content}");
        self.leave(ws, agent).await;
        let task = self.stage.task(waiting["id"].as_str()?).await;
        assert_eq!(task["assignedAgent"], agent, "{task}");
        Some(Ok(json!({"success": true, "task": task})))
    }

    /// Files, figures and learnings have no word.
    async fn complete(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let result = call.given["result"].as_object()?;
        let is_plain = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
        if call.given.contains_key("qualityMetrics") || !result.values().all(is_plain) {
            return None;
        }
        let summary = text(call, "result.summary")?.to_owned();
        self.end(call, agent, "DONE", &summary).await
    }

    /// What failed so is not tried again.
    async fn fail(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let failure = call.given["failure"].as_object()?;
        if failure.len() != 3 || failure["recoverable"] == true || failure["type"] != "task_error" {
            return None;
        }
        let why = text(call, "failure.message")?.to_owned();
        self.end(call, agent, "FAILED", &why).await
    }

    /// Says how a task ended; an epoch has no word.
    async fn end(&mut self, call: &Call, agent: &str, how: &str, why: &str) -> Option<Answered> {
        let before = self.stage.task(&named(call, "taskId")).await;
        let (number, id) = (before["number"].as_u64()?, before["id"].as_str()?);
        let is_held = before["assignedAgent"] == agent && before["completedAt"].is_null();
        let epoch = call.given.get("epoch");
        if epoch.is_some_and(|epoch| before["epoch"] != *epoch || !is_held) {
            return None;
        }
        let (said, words) = (self.roles[agent], format!("[{how} #{number}] {why}"));
        let ack = self
            .say(agent, Some("user"), &format!("end-{agent}-{said}"), &words)
            .await;
        assert_eq!(ack["accepted"], true, "{ack}");
        let after = self.stage.task(id).await;
        if !is_held {
            assert_eq!(before, after, "{agent} does not hold {id}");
            return Some(Err(Nothing));
        }
        Some(Ok(
            json!({"success": true, "status": after["status"], "willRetry": false}),
        ))
    }

    /// Texts for one role or everyone; types, payloads and ends have no words.
    async fn send(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let message = &call.given["message"];
        let to = match message.get("to") {
            Some(to) => Some(to.as_str()?),
            None => None,
        };
        let is_text = message["type"] == "custom" && message["payload"].is_null();
        if !is_text || message.get("expiresIn").is_some() {
            return None;
        }
        if let Some(to) = to.filter(|to| !self.roles.contains_key(*to)) {
            // Agents that are no roles have no word either.
            let known = self.stage.get("getAgent", Some(to), json!({})).await;
            known.get("error")?;
        }
        let tag = if message["ackRequired"] == true {
            "[ACK REQUIRED] "
        } else {
            ""
        };
        let id = named(call, "message.id");
        let ack = self
            .say(agent, to, &id, &format!("{tag}this is {id}"))
            .await;
        if ack["accepted"] != true {
            return Some(Err(Nothing));
        }
        assert_eq!(
            ack["status"], "accepted.unverified",
            "nobody is there: {ack}"
        );
        let sent = self.stage.get("getMessage", Some(&id), json!({})).await;
        let recipients = sent["deliveries"].as_array().map_or(0, Vec::len);
        Some(Ok(
            json!({"success": true, "messageId": id, "recipients": recipients}),
        ))
    }

    /// Messages that wait for a role, and no tasks.
    async fn waiting(&mut self, agent: &str) -> Vec<Value> {
        let asked = json!({"agentId": agent, "since": LONG_AGO});
        let all = self.stage.get("receiveMessages", None, asked).await;
        let mut waiting = Vec::new();
        for message in all["messages"].as_array().into_iter().flatten() {
            let id = message["id"].as_str().unwrap_or_default();
            if self.stage.delivery(agent, id).await == "queued" {
                waiting.push(message.clone());
            }
        }
        waiting
    }

    /// What waits comes with the connection, oldest first.
    async fn receive(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        if call.given.len() > 1 {
            return None;
        }
        let waiting = self.waiting(agent).await;
        let mut ws = self.ear(agent);
        let mut messages = Vec::new();
        while messages.len() < waiting.len() {
            let frame = crate::broker::frame(&mut ws).expect("what waits comes");
            let mut is_it = waiting.iter().filter(|it| it["corrId"] == frame["traceId"]);
            let Some(message) = is_it.next() else {
                continue;
            };
            let kind = if message["to"].is_null() {
                "broadcast"
            } else {
                "message"
            };
            let from = if message["from"] == "switchboard" {
                &json!("hub")
            } else {
                &message["from"]
            };
            assert_eq!(
                (&frame["type"], &frame["from"]),
                (&json!(kind), from),
                "{frame}"
            );
            let content = frame["content"].as_str().unwrap_or_default();
            let asks = content.contains("): [ACK REQUIRED] ");
            assert_eq!(message["ackRequired"], asks, "{frame}");
            messages.push(message.clone());
        }
        tell(&mut ws, json!({"type": "last", "requestId": "last"}));
        while let Some(frame) = crate::broker::frame(&mut ws).filter(|it| it["type"] != "response")
        {
            let is_held = frame["content"]
                .as_str()
                .is_some_and(|it| it.contains("(task #"));
            assert!(is_held, "nobody sent {agent} this: {frame}");
        }
        self.leave(ws, agent).await;
        for message in &messages {
            let id = message["id"].as_str().unwrap_or_default();
            assert_eq!(
                self.stage.delivery(agent, id).await,
                "delivered",
                "{message}"
            );
        }
        if messages.is_empty() {
            return Some(Err(Nothing));
        }
        Some(Ok(json!({"success": true, "messages": messages})))
    }

    async fn acknowledge(&mut self, call: &Call, agent: &str) -> Answered {
        let id = call.id.clone().expect("the path names a message");
        let before = self.stage.delivery(agent, &id).await;
        let mut ws = self.mouth(agent);
        tell(&mut ws, json!({"type": "receipt", "traceId": id}));
        self.leave(ws, agent).await;
        let after = self.stage.delivery(agent, &id).await;
        if before == after {
            return Err(Nothing);
        }
        assert_eq!(after, "acknowledged", "{id} for {agent}");
        let sent = self.stage.get("getMessage", Some(&id), json!({})).await;
        let offered = sent["message"]["payload"]["taskId"].as_str();
        let Some(task) = offered.filter(|_| sent["message"]["type"] == "task.handoff") else {
            return Ok(json!({"success": true}));
        };
        let epoch = self.stage.task(task).await["epoch"].take();
        Ok(json!({"success": true, "taskId": task, "epoch": epoch}))
    }
}
