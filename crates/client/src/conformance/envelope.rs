//! What is wrong with an event that a node brings, one thing at a time.

use reqwest::Method;
use serde_json::{Value, json};
use switchboard_wire::IsoTime;

use super::findings::{Stop, Told};
use super::gateway::{Gateway, fresh};
use super::log::is_ack;
use super::probe::Probe;
use super::wire::Answer;
use crate::transport::now;

/// Members without which an event is none. A `corrId` is judged by kind.
const REQUIRED: [&str; 9] = [
    "eventId",
    "seq",
    "kind",
    "sourceNodeId",
    "sourceAgentId",
    "createdAt",
    "expiresAt",
    "payload",
    "trace",
];
/// Kinds that are about something that was before.
const CORRELATED: [&str; 7] = [
    "reply",
    "ack",
    "task_create",
    "task_accept",
    "task_update",
    "task_complete",
    "task_failed",
];

pub async fn tell(probe: &Probe) -> Told {
    let node = probe.node("odd").await?;
    let here = probe.hire("minded").await?;
    let odd = Odd { probe, node: &node };
    let agent = probe.name("odd");
    let record = json!({ "agentId": agent, "gateway": node.id, "type": "internal", "live": true });
    let hello = json!({ "path": format!("agents.{agent}"), "rev": 1, "record": record });
    odd.taken(node.event(1, "signal", &agent, hello)).await?;
    odd.lacking(&agent, &here).await?;
    odd.foreign(&agent, &here).await?;
    odd.over(&agent, &here).await?;
    odd.again(&agent, &here).await?;
    odd.published(&agent, &here).await
}

/// A node whose outbox is not what it should be.
struct Odd<'a> {
    probe: &'a Probe,
    node: &'a Gateway,
}

impl Odd<'_> {
    /// Up to where the hub took it: an empty page asks.
    async fn place(&self) -> Result<u64, Stop> {
        Ok(self.node.push(&[]).await?.0)
    }

    async fn taken(&self, event: Value) -> Result<Value, Stop> {
        self.node.push(std::slice::from_ref(&event)).await?;
        Ok(event)
    }

    /// Whether it was refused, and nothing was taken.
    async fn refused(&self, clause: &'static str, event: &Value, what: &str) -> Told {
        let before = self.place().await?;
        let answer = self
            .node
            .bring(&self.node.epoch, std::slice::from_ref(event))
            .await?;
        let holds = answer.is_refused() && self.place().await? == before;
        let expected = format!("a refusal, and lastSeq {before} as before: {what}");
        self.probe
            .findings
            .judge(clause, holds, event, &answer, expected);
        Ok(())
    }

    async fn lacking(&self, agent: &str, here: &str) -> Told {
        for name in REQUIRED {
            let mut event = self.letter(agent, here, "lacking").await?;
            remove(&mut event, name);
            let what = format!("{name} is missing");
            self.refused("runtime.envelope.required", &event, &what)
                .await?;
        }
        for kind in CORRELATED {
            let place = self.place().await?;
            let mut event = self
                .node
                .event(place + 1, kind, agent, payload_of(kind, here));
            remove(&mut event, "corrId");
            let what = format!("a {kind} has a corrId");
            self.refused("runtime.envelope.corr_id_required", &event, &what)
                .await?;
        }
        Ok(())
    }

    async fn foreign(&self, agent: &str, here: &str) -> Told {
        let other = &self.probe.main.id;
        let mut event = self.letter(agent, here, "foreign").await?;
        event["sourceNodeId"] = json!(other);
        let what = format!("it says that it is of {other}");
        self.refused("runtime.envelope.source", &event, &what)
            .await?;
        let path = format!("/runtime/v1/nodes/{other}/outbox");
        let page = json!({ "epoch": self.node.epoch, "events": [] });
        let answer = self.node.call(Method::POST, &path, Some(&page)).await?;
        self.probe.findings.answered(
            "runtime.plane.own_outbox_only",
            answer.is_refused(),
            &answer,
            format!("403: {} brings the outbox of {other}", self.node),
        );
        Ok(())
    }

    /// What has expired is not handed to anybody.
    async fn over(&self, agent: &str, here: &str) -> Told {
        let text = fresh("late");
        let mut event = self.letter(agent, here, &text).await?;
        let at = now().0;
        event["createdAt"] = json!(IsoTime(at - 7_200_000));
        event["expiresAt"] = json!(IsoTime(at - 3_600_000));
        let event = self.taken(event).await?;
        let failed = is_failed(self.probe, &event["eventId"]).await;
        let got = count(self.probe, here, &text).await;
        let holds = failed.is_some() && !matches!(got, Ok(1..));
        self.probe.findings.judge(
            "runtime.envelope.times",
            holds,
            &event,
            shown(failed, got),
            "failed_terminal, and nothing in the inbox: it expired an hour ago",
        );
        let mut event = self.letter(agent, here, "no time").await?;
        event["createdAt"] = json!("yesterday");
        let what = "createdAt is no instant";
        self.refused("runtime.envelope.times", &event, what).await
    }

    /// One id is one event.
    async fn again(&self, agent: &str, here: &str) -> Told {
        let (first, second) = (fresh("first"), fresh("second"));
        let event = self.letter(agent, here, &first).await?;
        let event = self.taken(event).await?;
        let accepted = self
            .probe
            .find(|one| is_ack(one, "accepted", &event["eventId"]))
            .await;
        if accepted.is_none() {
            let why = format!("the first event under the id was not accepted: {event}");
            return Err(Stop::Unknown(why));
        }
        let mut other = self.letter(agent, here, &second).await?;
        other["eventId"] = event["eventId"].clone();
        let other = self.taken(other).await?;
        let failed = is_failed(self.probe, &event["eventId"]).await;
        let got = count(self.probe, here, &second).await;
        self.probe.findings.judge(
            "runtime.envelope.event_id_unique",
            failed.is_some() && !matches!(got, Ok(1..)),
            json!([event, other]),
            shown(failed, got),
            "failed_terminal for the second body under one eventId, and nobody is handed it",
        );
        Ok(())
    }

    /// What the hub refuses of those who publish there.
    async fn published(&self, agent: &str, here: &str) -> Told {
        let findings = &self.probe.findings;
        let letter = |to: &str| json!({ "toAgents": [to], "subject": "conformance", "body": "b" });
        let nobody = self.probe.name("nobody");
        for from in [nobody.as_str(), agent] {
            let answer = self
                .probe
                .publish("message", from, letter(here), json!({}))
                .await?;
            findings.answered(
                "runtime.envelope.source",
                answer.is_refused(),
                &answer,
                format!("a refusal: {from} is no agent of this node"),
            );
        }
        for kind in ["ack", "signal", "dead_letter"] {
            let answer = self.probe.publish(
                kind,
                here,
                payload_of(kind, here),
                json!({ "corrId": "corr_c" }),
            );
            let answer = answer.await?;
            findings.answered(
                "runtime.envelope.source",
                answer.is_refused(),
                &answer,
                format!("a refusal: a {kind} is the node's own to publish"),
            );
        }
        for kind in CORRELATED
            .into_iter()
            .filter(|kind| !matches!(*kind, "ack" | "task_create"))
        {
            let answer = self
                .probe
                .publish(kind, here, payload_of(kind, here), json!({}))
                .await?;
            findings.answered(
                "runtime.envelope.corr_id_required",
                answer.is_refused(),
                &answer,
                format!("a refusal: a {kind} has a corrId"),
            );
        }
        let said = letter(&self.probe.name("idle"));
        let id = json!({ "eventId": fresh("evt") });
        let first = self
            .probe
            .publish("message", here, said.clone(), id.clone())
            .await?;
        let again = self
            .probe
            .publish("message", here, said.clone(), id.clone())
            .await?;
        let mut other = said;
        other["body"] = json!("another");
        let other = self.probe.publish("message", here, other, id).await?;
        let is_same = |one: &Answer| one.body["seq"] == first.body["seq"] && one.status == 201;
        findings.judge(
            "runtime.envelope.event_id_unique",
            first.status == 201 && is_same(&again) && other.is_refused(),
            format!("{}, the same again, then another body", first.sent),
            format!("{first}, {again}, {other}"),
            "one seq for the same body, and a refusal of the other",
        );
        let event = self.probe.published(&first).await?;
        self.probe
            .main
            .ack(&event, "accepted", &self.probe.name("idle"), json!({}))
            .await
    }

    /// The next event of this node.
    async fn letter(&self, from: &str, to: &str, body: &str) -> Result<Value, Stop> {
        let payload = json!({ "toAgents": [to], "subject": "conformance", "body": body });
        Ok(self
            .node
            .event(self.place().await? + 1, "message", from, payload))
    }
}

fn remove(event: &mut Value, name: &str) {
    if let Some(event) = event.as_object_mut() {
        event.remove(name);
    }
}

/// What would be right for a kind, were it about something.
fn payload_of(kind: &str, agent: &str) -> Value {
    let task = "tsk_of_nobody";
    match kind {
        "reply" => json!({ "refEventId": "evt_of_nobody", "body": "b" }),
        "ack" => {
            json!({ "refEventId": "evt_of_nobody", "refKind": "message", "ackType": "accepted", "ackedByNodeId": "n", "ackedAt": now() })
        }
        "task_create" => {
            json!({ "taskId": task, "title": "t", "toAgents": [agent], "requesterAgentId": agent })
        }
        "task_accept" => json!({ "taskId": task, "acceptedByAgentId": agent, "etaSeconds": 60 }),
        "task_update" => json!({ "taskId": task, "status": "in_progress", "progress": 1 }),
        "task_complete" => {
            json!({ "taskId": task, "completedByAgentId": agent, "resultSummary": "r", "completedAt": now() })
        }
        "task_failed" => {
            json!({ "taskId": task, "failedByAgentId": agent, "failureClass": "unknown", "errorSummary": "e", "failedAt": now() })
        }
        "signal" => json!({ "path": format!("agents.{agent}"), "rev": 1, "record": {} }),
        _ => {
            json!({ "refEventId": "evt_of_nobody", "refKind": "message", "attempts": 1, "reason": "r" })
        }
    }
}

async fn is_failed(probe: &Probe, id: &Value) -> Option<Value> {
    probe
        .find(|event| is_ack(event, "failed_terminal", id))
        .await
}

async fn count(probe: &Probe, agent: &str, text: &str) -> Result<usize, Stop> {
    let inbox = probe.inbox(agent).await?;
    let has = |one: &&Value| one["payload"].to_string().contains(text);
    Ok(inbox.iter().filter(has).count())
}

fn shown(ack: Option<Value>, got: Result<usize, Stop>) -> String {
    let ack = ack.map_or("no such ack".to_owned(), |ack| ack.to_string());
    match got {
        Ok(got) => format!("{ack}; it is in the inbox {got} times"),
        Err(_) => ack,
    }
}
