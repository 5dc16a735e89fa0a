//! A node of the checker's own: its key, its tickets, and an outbox that it makes up as it goes.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use reqwest::Method;
use serde_json::{Map, Value, json};
use switchboard_wire::IsoTime;
use switchboard_wire::runtime::proof::{self, Signer};
use ulid::Ulid;

use super::findings::{Stop, Told};
use super::wire::{self, Answer};
use crate::client::Client;
use crate::transport::{fresh_nonce, now};

pub(super) struct Gateway {
    client: Client,
    pub id: String,
    signer: Signer,
    hub: OnceLock<String>,
    ticket: Mutex<(String, IsoTime)>,
    /// Of its outbox.
    pub epoch: String,
    /// The last event that it published.
    last_seq: tokio::sync::Mutex<u64>,
}

/// How long what the checker publishes counts.
pub(super) const LASTS_FOR_MS: i64 = 3_600_000;

impl Gateway {
    pub fn new(client: &Client, id: String, hub: Option<&str>) -> Result<Gateway, Stop> {
        let signer = Signer::from_hex(&fresh_nonce());
        Ok(Gateway {
            client: client.clone(),
            id,
            signer: signer.ok_or_else(|| Stop::unknown("no key was made"))?,
            hub: hub.map_or_else(OnceLock::new, |hub| OnceLock::from(hub.to_owned())),
            ticket: Mutex::default(),
            epoch: format!("route-epoch-{}", now()),
            last_seq: tokio::sync::Mutex::new(0),
        })
    }

    /// Joins with an invite: one call to the hub's authentication.
    pub async fn join(&self, invite: &str) -> Told {
        let (id, signer, nonce) = (&self.id, &self.signer, fresh_nonce());
        let exchange = json!({
            "inviteToken": invite, "nodeId": id, "nonce": nonce, "publicKey": signer.public_key(),
            "nodeProof": signer.sign(&proof::exchange(invite, id, &nonce)), "protocolVersion": "1.0",
        });
        let path = "/ansible/auth/exchange";
        let answer = wire::call(&self.client, Method::POST, path, Some(&exchange), None).await?;
        // The invite is a secret.
        let answer = Answer {
            sent: format!("POST {path} as node {id}"),
            ..answer
        };
        let answer = answer.expect(200)?;
        let _ = self.hub.set(answer.text("nodeId").to_owned());
        self.take(&answer);
        Ok(())
    }

    /// The node that it joined.
    pub fn hub(&self) -> &str {
        self.hub.get().map_or("", String::as_str)
    }

    /// The ticket that it shows, and until when.
    pub fn ticket(&self) -> (String, IsoTime) {
        let ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        ticket.clone()
    }

    fn take(&self, answer: &Answer) {
        let until = answer.text("expiresAt").parse();
        let taken = (answer.text("ticket").to_owned(), until.unwrap_or(now()));
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    /// A call with the node's ticket; with a new one, if the hub says that the old one is over.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Stop> {
        let ticket = || self.ticket().0;
        let answer = wire::call(&self.client, method.clone(), path, body, Some(&ticket())).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        self.renew().await?;
        wire::call(&self.client, method, path, body, Some(&ticket())).await
    }

    async fn renew(&self) -> Result<(), Stop> {
        let (nonce, at) = (fresh_nonce(), now());
        let signed = proof::ticket(&self.id, self.hub(), at, &nonce);
        let asked = json!({ "nodeId": self.id, "nonce": nonce, "at": at, "proof": self.signer.sign(&signed) });
        let path = "/ansible/auth/ticket";
        let answer = wire::call(&self.client, Method::POST, path, Some(&asked), None).await?;
        self.take(&answer.expect(200)?);
        Ok(())
    }

    /// An event as the document wants it.
    pub fn event(&self, seq: u64, kind: &str, from: &str, payload: Value) -> Value {
        let at = now();
        let mut event = json!({
            "eventId": fresh("evt"), "seq": seq, "kind": kind, "sourceNodeId": self.id, "sourceAgentId": from,
            "corrId": fresh("corr"), "createdAt": at, "expiresAt": IsoTime(at.0 + LASTS_FOR_MS), "payload": payload,
            "trace": { "attempt": 1, "routingPolicyVersion": "rpv_2026_01_01_1", "capabilityPolicyVersion": "cpv_2026_01_01_1" },
        });
        if let Some([one]) = event["payload"]["toAgents"].as_array().map(Vec::as_slice) {
            event["toAgentId"] = one.clone();
        }
        if kind == "task_create" {
            event["trace"]["toNodeId"] = json!(self.hub());
        }
        event
    }

    /// Brings a page, whatever is in it.
    pub async fn bring(&self, epoch: &str, events: &[Value]) -> Result<Answer, Stop> {
        let page = json!({ "epoch": epoch, "events": events });
        let path = format!("/runtime/v1/nodes/{}/outbox", self.id);
        self.call(Method::POST, &path, Some(&page)).await?.found()
    }

    /// Brings a page of its one epoch, and says how far the hub took it.
    pub async fn push(&self, events: &[Value]) -> Result<(u64, Answer), Stop> {
        let answer = self.bring(&self.epoch, events).await?;
        Ok((answer.body["lastSeq"].as_u64().unwrap_or(0), answer))
    }

    /// Publishes the next event of its outbox, changed by the caller, and has the hub take it.
    pub async fn publish(
        &self,
        kind: &str,
        from: &str,
        payload: Value,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<Value, Stop> {
        let mut last_seq = self.last_seq.lock().await;
        let seq = *last_seq + 1;
        let mut event = self.event(seq, kind, from, payload);
        if let Some(members) = event.as_object_mut() {
            change(members);
        }
        let (taken, answer) = self.push(std::slice::from_ref(&event)).await?;
        if taken != seq {
            return Err(Stop::Unknown(format!(
                "event {seq} of {self} was not taken: {answer}"
            )));
        }
        *last_seq = seq;
        Ok(event)
    }

    /// Tells which agents are here.
    pub async fn announce(&self, agents: &[&str]) -> Result<(), Stop> {
        for agent in agents {
            let record =
                json!({ "agentId": agent, "gateway": self.id, "type": "internal", "live": true });
            let payload = json!({ "path": format!("agents.{agent}"), "rev": 1, "record": record });
            self.publish("signal", agent, payload, |_| {}).await?;
        }
        Ok(())
    }

    /// Answers an event of the hub.
    pub async fn ack(&self, event: &Value, word: &str, by: &str, more: Value) -> Result<(), Stop> {
        let mut payload = json!({
            "refEventId": event["eventId"], "refKind": event["kind"], "ackType": word, "ackedByNodeId": self.id,
            "ackedByAgentId": by, "ackedAt": now(),
        });
        merge(&mut payload, more);
        let corr = event["corrId"].clone();
        let acked = self.publish("ack", by, payload, |ack| {
            ack.insert("corrId".to_owned(), corr);
        });
        acked.await.map(drop)
    }

    /// A page of the hub's outbox.
    pub async fn read(&self, after: u64, last: Option<&str>, wait: u64) -> Result<Answer, Stop> {
        let last = last.map_or(String::new(), |id| format!("&last={id}"));
        let path = format!("/runtime/v1/outbox?after={after}{last}&limit=256&wait={wait}");
        self.call(Method::GET, &path, None).await?.found()
    }

    pub async fn leave(&self) -> Result<Answer, Stop> {
        let path = format!("/runtime/v1/nodes/{}/leave", self.id);
        self.call(Method::POST, &path, Some(&json!({}))).await
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

pub(super) fn fresh(prefix: &str) -> String {
    format!("{prefix}_{}", Ulid::generate())
}

/// Members of the one go into the other.
pub(super) fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
