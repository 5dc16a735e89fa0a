//! Each step in the words of the bus.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::PATIENCE;

use super::super::stage::{Answered, Nothing};
use super::{Hand, Play, number};
use crate::bus::peer::Peer;
use crate::scenarios::act::Call;
use crate::scenarios::sql::{named, or, text};

/// The stage that stands for a phase; planning has none of its own.
const STAGES: &[(&str, &str)] = &[
    ("analyzing", "CONTEXT_LOAD"),
    ("implementing", "CODE"),
    ("testing", "VALIDATE"),
    ("reviewing", "REVIEW_REQUEST"),
];

/// Messages that a worker gets at once; more come when these are handed over.
const AT_ONCE: usize = 16;

/// How often to look. Only decides how quickly a scene goes on.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Play {
    /// The hello of a worker; one that is not welcomed must be refused over HTTP, too.
    pub(super) async fn register(&mut self, call: &Call) -> Option<Answered> {
        let agent = named(call, "agent.id");
        if !self.chosen.contains(&agent) {
            return None;
        }
        let skills: Vec<String> = call.given["agent"]["capabilities"]["skills"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|skill| skill.as_str().map(str::to_owned))
            .collect();
        let mut peer = Peer::dial(self.bus, "worker", &agent).expect("the bus listens");
        let capabilities: Vec<&str> = skills.iter().map(String::as_str).collect();
        peer.hello(&capabilities).expect("it can be said");
        let answer = peer.next().expect("a hello is answered");
        if answer.is_none_or(|answer| answer["message_type"] != "protocol_welcome.v1") {
            return Some(Err(Nothing));
        }
        // What follows the welcome is done before the next frame.
        peer.settle();
        self.hands.insert(agent.clone(), Hand { peer, skills });
        let shown = self.stage.get("getAgent", Some(&agent), json!({})).await;
        let registered_at = &shown["agent"]["registeredAt"];
        Some(Ok(
            json!({"success": true, "agentId": agent, "registeredAt": registered_at, "resumed": false}),
        ))
    }

    /// What it is at follows from what it holds; metrics have no word, and orders are obeyed at once.
    pub(super) async fn heartbeat(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        if call.given.contains_key("currentTask") || call.given.contains_key("metrics") {
            return None;
        }
        let shown = self.stage.get("getAgent", Some(agent), json!({})).await;
        let holds = shown["tasks"]
            .as_array()
            .is_some_and(|tasks| !tasks.is_empty());
        let ordered = shown["commands"]
            .as_array()
            .is_some_and(|orders| !orders.is_empty());
        let doing = if holds { "busy" } else { "idle" };
        if named(call, "status") != doing || ordered {
            return None;
        }
        let peer = self.reconnect(agent, &[]);
        peer.beat("START", 0);
        peer.settle();
        Some(Ok(json!({"success": true})))
    }

    /// Whoever holds nothing is given the next task, as soon as its hello asks for it.
    pub(super) async fn claim(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        if call.given.contains_key("filter") || call.given.contains_key("taskId") {
            return None;
        }
        let shown = self.stage.get("getAgent", Some(agent), json!({})).await;
        if shown["tasks"]
            .as_array()
            .is_some_and(|tasks| !tasks.is_empty())
        {
            return None;
        }
        let peer = self.reconnect(agent, &["assign.v1"]);
        let frames = peer.settle();
        let given = frames
            .iter()
            .find(|frame| frame["message_type"] == "task_assigned.v1");
        self.reconnect(agent, &[]);
        let Some(given) = given.map(|frame| &frame["payload"]) else {
            return Some(Err(Nothing));
        };
        let id = given["task_id"].as_str().unwrap_or_default().to_owned();
        let task = self.stage.task(&id).await;
        for (theirs, ours) in [
            (&task["number"], &given["issue_number"]),
            (&task["epoch"], &given["epoch"]),
            (&task["title"], &given["title"]),
            (&task["files"], &given["files"]),
            (&task["assignedAgent"], &json!(agent)),
        ] {
            assert_eq!(theirs, ours, "{given} of {task}");
        }
        let retries = task["retryCount"].as_u64().unwrap_or_default();
        assert_eq!(given["attempt"], retries + 1, "{given}");
        let numbers = (number(&task["number"]), number(&task["epoch"]));
        self.claims.insert((agent.to_owned(), id), numbers);
        Some(Ok(json!({"success": true, "task": task})))
    }

    /// The number and the epoch of a claim, by which reports name it; none if it names another claim than the last.
    fn known(&self, call: &Call, agent: &str, task: &str) -> Option<(u64, u64)> {
        let claim = (agent.to_owned(), task.to_owned());
        let (issue, epoch) = *self.claims.get(&claim)?;
        let named = call.given.get("epoch").and_then(Value::as_u64);
        Some((issue, named.unwrap_or(epoch)))
    }

    /// Progress names no epoch, and files have no word.
    pub(super) async fn progress(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let task = named(call, "taskId");
        let (issue, epoch) = self.known(call, agent, &task)?;
        let progress = &call.given["progress"];
        let percent = progress["percentComplete"].as_f64()?;
        let phase = progress["phase"].as_str()?;
        let (_, stage) = STAGES.iter().find(|(known, _)| *known == phase)?;
        if percent.fract() != 0.0
            || !(0.0..=100.0).contains(&percent)
            || progress.get("filesModified").is_some()
        {
            return None;
        }
        if !self.holds(agent, &task, epoch).await {
            return Some(Err(Nothing));
        }
        let said = json!({"issue_number": issue, "attempt": 1, "stage": stage,
            "progress": {"step": "", "percent": percent}, "note": progress["description"]});
        self.say(agent, "task_progress.v1", said);
        let shown = self.stage.task(&task).await;
        assert_eq!(
            shown["progress"]["percentComplete"], percent as u64,
            "{shown}"
        );
        Some(Ok(json!({"success": true, "continue": true})))
    }

    /// Whether it is the holder under this claim, as everyone sees it.
    async fn holds(&mut self, agent: &str, task: &str, epoch: u64) -> bool {
        let shown = self.stage.task(task).await;
        shown["assignedAgent"] == agent
            && shown["epoch"] == epoch
            && (shown["status"] == "claimed" || shown["status"] == "in_progress")
    }

    pub(super) async fn complete(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let task = named(call, "taskId");
        let (issue, epoch) = self.known(call, agent, &task)?;
        let told = &call.given["result"];
        let mut said = json!({"issue_number": issue, "epoch": epoch, "result": {
            "summary": told["summary"],
            "files_created": told["filesCreated"],
            "files_modified": told["filesModified"],
            "files_deleted": told["filesDeleted"],
        }});
        if let Some(learnings) = told.get("learnings") {
            said["result"]["learnings"] = learnings.clone();
        }
        if let Some(metrics) = call.given.get("qualityMetrics") {
            said["quality"] = json!({
                "tests_ran": metrics["testsRan"], "tests_passed": metrics["testsPassed"],
                "lint_errors": metrics["lintErrors"], "type_errors": metrics["typeErrors"],
                "build_success": metrics["buildSuccess"], "test_coverage": metrics.get("testCoverage"),
            });
        }
        Some(self.end(agent, &task, epoch, "task_result.v1", said).await)
    }

    /// Flags decide: what is final is not tried again. The pauses of what is are drawn, so that goes over HTTP.
    pub(super) async fn fail(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let task = named(call, "taskId");
        let (issue, epoch) = self.known(call, agent, &task)?;
        let failure = &call.given["failure"];
        let is_plain = failure.get("details").is_none() && failure.get("suggestedAction").is_none();
        if failure["recoverable"] == true || failure["type"] != "task_error" || !is_plain {
            return None;
        }
        let said = json!({"error": {
            "error_id": format!("e-{task}-{epoch}"), "worker_id": agent, "issue_number": issue, "stage": "CODE",
            "attempt": 1, "error_type": "docker_exit_nonzero", "is_transient": false, "should_retry": false,
            "escalate_to_human": false, "message": failure["message"],
        }});
        Some(self.end(agent, &task, epoch, "worker_error.v1", said).await)
    }

    /// To decline is to give back.
    pub(super) async fn decline(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let task = call.id.clone()?;
        let (issue, epoch) = self.known(call, agent, &task)?;
        let said = json!({"issue_number": issue, "epoch": epoch, "reason": "not now"});
        let ended = self
            .end(agent, &task, epoch, "task_declined.v1", said)
            .await;
        if ended.is_err() {
            return Some(Err(Nothing));
        }
        let task = self.stage.task(&task).await;
        Some(Ok(json!({"success": true, "task": task})))
    }

    /// Says what ends a claim; the status that came of it.
    async fn end(
        &mut self,
        agent: &str,
        task: &str,
        epoch: u64,
        kind: &str,
        said: Value,
    ) -> Answered {
        let held = self.holds(agent, task, epoch).await;
        let before = self.stage.task(task).await;
        self.say(agent, kind, said);
        let after = self.stage.task(task).await;
        if !held {
            // Said in vain: nothing may have come of it.
            assert_eq!(before, after, "{agent} does not hold {task}");
            return Err(Nothing);
        }
        Ok(json!({"success": true, "status": after["status"], "willRetry": false}))
    }

    /// An end of their own has no word; the word for what a message is about is free.
    pub(super) async fn send(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        let kind = text(call, "message.type")?;
        let ends = call.given["message"].get("expiresIn").is_some();
        let is_free = kind != "custom" && !kind.contains('.');
        if ends || is_free {
            return None;
        }
        let message = named(call, "message.id");
        // On the bus, whoever says the same again is told that it is kept; HTTP has keys for that.
        let known = self
            .stage
            .get("getMessage", Some(&message), json!({}))
            .await;
        if known["message"]["from"] == agent {
            return None;
        }
        let said = json!({
            "message_id": message, "from": agent, "to": or(call, "message.to", Value::Null), "type": kind,
            "body": or(call, "message.payload", Value::Null), "ack_required": or(call, "message.ackRequired", false),
        });
        let peer = self.peer(agent);
        peer.say("agent_message.v1", said).expect("it can be said");
        let frames = peer.settle();
        let kept = frames.iter().any(|frame| {
            frame["message_type"] == "agent_message_ack.v1"
                && frame["payload"]["message_id"] == *message
                && frame["payload"]["state"] == "accepted"
        });
        self.reconnect(agent, &[]);
        if !kept {
            return Some(Err(Nothing));
        }
        let sent = self
            .stage
            .get("getMessage", Some(&message), json!({}))
            .await;
        let recipients = sent["deliveries"].as_array().map_or(0, Vec::len);
        Some(Ok(
            json!({"success": true, "messageId": message, "recipients": recipients}),
        ))
    }

    /// What waits comes after the hello that asks for it, oldest first.
    pub(super) async fn receive(&mut self, call: &Call, agent: &str) -> Option<Answered> {
        if ["since", "types", "limit"]
            .iter()
            .any(|name| call.given.contains_key(*name))
        {
            return None;
        }
        let mut frames = Vec::new();
        loop {
            let came = self.reconnect(agent, &["message.v1"]).settle().into_iter();
            let mail = came.filter(|frame| frame["message_type"] == "agent_message.v1");
            let mail: Vec<Value> = mail.collect();
            for frame in &mail {
                self.is_delivered(agent, &frame["payload"]["message_id"])
                    .await;
            }
            let count = mail.len();
            frames.extend(mail);
            if count < AT_ONCE {
                break;
            }
        }
        self.reconnect(agent, &[]);
        if frames.is_empty() {
            return Some(Err(Nothing));
        }
        let mut messages = Vec::new();
        for frame in frames {
            let mail = &frame["payload"];
            let id = mail["message_id"].as_str().unwrap_or_default();
            let sent = self.stage.get("getMessage", Some(id), json!({})).await;
            messages.push(json!({
                "id": id, "from": mail["from"], "to": sent["message"]["to"], "type": mail["type"], "payload": mail["body"],
                "ackRequired": mail["ack_required"], "createdAt": sent["message"]["createdAt"],
            }));
        }
        Some(Ok(json!({"success": true, "messages": messages})))
    }

    /// What was written counts as delivered a moment later.
    async fn is_delivered(&mut self, agent: &str, message: &Value) {
        let message = message.as_str().unwrap_or_default();
        let noted = async {
            while self.stage.delivery(agent, message).await == "queued" {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let noted = tokio::time::timeout(PATIENCE, noted).await;
        noted.unwrap_or_else(|_| panic!("{message} is never delivered to {agent}"));
    }

    pub(super) async fn acknowledge(&mut self, call: &Call, agent: &str) -> Answered {
        let message = call.id.clone().expect("the path names a message");
        let before = self.stage.delivery(agent, &message).await;
        self.say(
            agent,
            "agent_message_ack.v1",
            json!({"message_id": message}),
        );
        // A refusal of the receipt is not told again.
        self.reconnect(agent, &[]);
        let after = self.stage.delivery(agent, &message).await;
        if before == after {
            return Err(Nothing);
        }
        assert_eq!(after, "acknowledged", "{message} for {agent}");
        let sent = self
            .stage
            .get("getMessage", Some(&message), json!({}))
            .await;
        let offered = sent["message"]["payload"]["taskId"].as_str();
        let Some(id) = offered.filter(|_| sent["message"]["type"] == "task.handoff") else {
            return Ok(json!({"success": true}));
        };
        let task = self.stage.task(id).await;
        let numbers = (number(&task["number"]), number(&task["epoch"]));
        self.claims
            .insert((agent.to_owned(), id.to_owned()), numbers);
        Ok(json!({"success": true, "taskId": id, "epoch": task["epoch"]}))
    }
}
