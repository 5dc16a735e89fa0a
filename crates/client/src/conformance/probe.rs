//! One run: the hub, the checker's nodes there, the agents of both, and what was found.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use switchboard_wire::IsoTime;
use tokio::time::{Instant, sleep};
use ulid::Ulid;

use super::findings::{Findings, Stop};
use super::gateway::{Gateway, LASTS_FOR_MS, fresh, merge};
use super::log::Log;
use super::wire::{self, Answer, WAIT_SECONDS};
use super::{Settings, Timings};
use crate::client::Client;
use crate::transport::now;

/// What should come at once is waited for so long.
const PROMPT: Duration = Duration::from_secs(10);
/// Lists are looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Probe {
    pub client: Client,
    pub settings: Settings,
    pub findings: Findings,
    /// What is in the names of all that this run makes.
    pub tag: String,
    /// Reads the hub's outbox, and speaks where nothing is wrong.
    pub main: Arc<Gateway>,
    pub log: Log,
    /// The end of the hub's outbox when the run began.
    begins_after: u64,
    until: Instant,
    /// What the hub's agents publish counts so long.
    expires_at: IsoTime,
    invites: Mutex<Vec<String>>,
    nodes: Mutex<Vec<Arc<Gateway>>>,
    agents: Mutex<Vec<String>>,
    outsiders: Mutex<Vec<String>>,
    tasks: Mutex<Vec<String>>,
    capabilities: Mutex<Vec<String>>,
    /// Why the hub's agents are not the checker's to make.
    foreign: Option<&'static str>,
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probe {
    pub async fn begin(client: &Client, settings: Settings) -> Result<Probe, Stop> {
        let until = Instant::now() + settings.patience;
        let tag = Ulid::generate().to_string().to_ascii_lowercase();
        let tag = tag[tag.len() - 8..].to_owned();
        let mut invites = settings.invites.clone();
        invites.reverse();
        let invite = invite(client, &settings, invites.pop()).await?;
        let main = Arc::new(Gateway::new(
            client,
            format!("conformance-{tag}-main"),
            None,
        )?);
        main.join(&invite).await?;
        let path = "/runtime/v1/outbox?limit=1";
        let outbox = main.call(Method::GET, path, None).await?.expect(200)?;
        Ok(Probe {
            client: client.clone(),
            begins_after: outbox.body["latestSeq"].as_u64().unwrap_or(0),
            findings: Findings::default(),
            log: Log::new(),
            until,
            expires_at: IsoTime(now().0 + LASTS_FOR_MS),
            invites: Mutex::new(invites),
            nodes: Mutex::new(vec![Arc::clone(&main)]),
            agents: Mutex::default(),
            outsiders: Mutex::default(),
            tasks: Mutex::default(),
            capabilities: Mutex::default(),
            foreign: settings
                .agent
                .is_some()
                .then_some("only a Switchboard lets the checker make agents and see what they got"),
            main,
            tag,
            settings,
        })
    }

    /// One more node of the checker, for what a node must not do.
    pub async fn node(&self, name: &str) -> Result<Arc<Gateway>, Stop> {
        let given = lock(&self.invites).pop();
        let invite = invite(&self.client, &self.settings, given).await?;
        let id = format!("conformance-{}-{name}", self.tag);
        let node = Arc::new(Gateway::new(&self.client, id, Some(self.main.hub()))?);
        // Beforehand: also what nobody waits for any more has to go.
        lock(&self.nodes).push(Arc::clone(&node));
        node.join(&invite).await?;
        Ok(node)
    }

    pub fn timings(&self) -> &Timings {
        &self.settings.timings
    }

    pub async fn get(&self, path: &str) -> Result<Answer, Stop> {
        let answer = wire::call(&self.client, Method::GET, path, None, None).await?;
        answer.found()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer, Stop> {
        wire::call(&self.client, Method::POST, path, Some(body), None).await
    }

    /// Has an agent of the hub publish something.
    pub async fn publish(
        &self,
        kind: &str,
        from: &str,
        payload: Value,
        more: Value,
    ) -> Result<Answer, Stop> {
        let mut body = json!({ "kind": kind, "sourceAgentId": from, "payload": payload, "expiresAt": self.expires_at });
        merge(&mut body, more);
        self.post("/runtime/v1/events", &body).await?.found()
    }

    /// The event that was published, as it stands in the outbox.
    pub async fn published(&self, answer: &Answer) -> Result<Value, Stop> {
        let id = answer.body["eventId"].clone();
        let found = self.find(|event| event["eventId"] == id).await;
        found.ok_or_else(|| {
            Stop::Unknown(format!(
                "the event {id} was not in the outbox in time; {} was answered with {answer}",
                answer.sent
            ))
        })
    }

    /// What should come at once.
    pub async fn find(&self, is: impl Fn(&Value) -> bool) -> Option<Value> {
        self.log.find(self.soon(), is).await
    }

    /// Whether it becomes true at once, and what was seen last.
    pub async fn eventually(
        &self,
        mut look: impl AsyncFnMut() -> Result<Value, Stop>,
        is: impl Fn(&Value) -> bool,
    ) -> Result<(bool, Value), Stop> {
        let until = Instant::now() + self.soon();
        loop {
            let seen = look().await?;
            if is(&seen) {
                return Ok((true, seen));
            }
            if Instant::now() >= until {
                return Ok((false, seen));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub fn soon(&self) -> Duration {
        PROMPT.min(self.left()).max(Duration::from_secs(1))
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Ends a story that takes longer than the caller is willing to wait.
    pub fn has_time_for(&self, what: &str, wait: Duration) -> Result<(), Stop> {
        if wait <= self.left() {
            return Ok(());
        }
        let (wait, patience) = (wait.as_secs(), self.settings.patience.as_secs());
        Err(Stop::Unknown(format!(
            "{what} takes {wait} s, which is longer than is left of --patience {patience}"
        )))
    }

    /// The name of an agent of this run.
    pub fn name(&self, name: &str) -> String {
        format!("cf-{}-{name}", self.tag)
    }

    /// An agent of the hub: made for it, or the one that was named.
    pub async fn hire(&self, name: &str) -> Result<String, Stop> {
        if let Some(agent) = &self.settings.agent {
            return Ok(agent.clone());
        }
        let id = self.name(name);
        let can = json!({ "skills": [], "maxTaskMinutes": 60, "canRunTests": true, "canRunBuild": true, "canAccessBrowser": false });
        let agent =
            json!({ "agent": { "id": id, "name": id, "type": "custom", "capabilities": can } });
        lock(&self.agents).push(id.clone());
        let answer = self.post("/api/v1/agents/register", &agent).await?;
        if answer.status != 200 {
            return Err(Stop::Unknown(format!(
                "no agent could be registered ({answer}); name one with --agent"
            )));
        }
        Ok(id)
    }

    /// As [`hire`](Self::hire), where the one that was named is not enough.
    pub async fn hire_another(&self, name: &str) -> Result<String, Stop> {
        match self.foreign {
            Some(why) => Err(Stop::unknown(why)),
            None => self.hire(name).await,
        }
    }

    /// An agent of the hub goes.
    pub async fn dismiss(&self, id: &str) -> Result<(), Stop> {
        let path = format!("/api/v1/agents/{id}");
        let answer = wire::call(&self.client, Method::DELETE, &path, None, None).await?;
        answer.expect(200).map(drop)
    }

    /// What an agent of the hub was handed up to now.
    pub async fn inbox(&self, agent: &str) -> Result<Vec<Value>, Stop> {
        if let Some(why) = self.foreign {
            return Err(Stop::unknown(why));
        }
        let path = format!("/api/v1/messages?agentId={agent}&limit=500");
        let answer = self.get(&path).await?.expect(200)?;
        Ok(answer.body["messages"]
            .as_array()
            .cloned()
            .unwrap_or_default())
    }

    /// Problems that the hub tells people about.
    pub async fn incidents(&self) -> Result<Vec<Value>, Stop> {
        if self.foreign.is_some() {
            let why = "the protocol has no list of incidents, and only a Switchboard has its own";
            return Err(Stop::unknown(why));
        }
        let answer = self
            .get("/api/v1/incidents?limit=1000")
            .await?
            .expect(200)?;
        Ok(answer.body["incidents"]
            .as_array()
            .cloned()
            .unwrap_or_default())
    }

    /// An invite for an agent that lives elsewhere; it is sent away at the end.
    pub async fn invite_agent(&self, id: &str) -> Result<String, Stop> {
        lock(&self.outsiders).push(id.to_owned());
        let scopes = ["ansible.message.send", "ansible.status.read"];
        let body = json!({ "agentId": id, "scopes": scopes, "ttlSeconds": 300 });
        let answer = self.post("/ansible/agent/invites", &body).await?.found()?;
        match answer.body["inviteToken"].as_str() {
            Some(invite) if answer.status == 201 => Ok(invite.to_owned()),
            _ => Err(Stop::Unknown(format!(
                "the hub invited no external agent ({answer}); pass a steward's --token"
            ))),
        }
    }

    /// What the hub knows of something that one of its agents published; null if nothing.
    pub async fn order(&self, event: &Value) -> Result<Value, Stop> {
        for ended in ["false", "true"] {
            let path = format!("/runtime/v1/orders?ended={ended}&limit=1000");
            let answer = self.get(&path).await?.expect(200)?;
            let orders = answer.body["orders"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let mut found = orders.into_iter().filter(|one| one["eventId"] == *event);
            if let Some(order) = found.next() {
                return Ok(order);
            }
        }
        Ok(Value::Null)
    }

    /// A name for a task, whose rest is removed at the end.
    pub fn task_id(&self) -> String {
        let id = fresh("tsk");
        lock(&self.tasks).push(id.clone());
        id
    }

    /// A capability, which is withdrawn at the end.
    pub fn capability_id(&self, name: &str) -> String {
        let id = format!("cap.conformance.{}.{name}", self.tag);
        lock(&self.capabilities).push(id.clone());
        id
    }

    /// Reads the hub's outbox for as long as it is polled.
    pub async fn follow(&self) -> std::convert::Infallible {
        let mut place = self.begins_after;
        let mut last: Option<String> = None;
        loop {
            let read = self.main.read(place, last.as_deref(), WAIT_SECONDS).await;
            let events = match &read {
                Ok(answer) => answer.body["events"].as_array(),
                Err(_) => None,
            };
            match events {
                Some(events) => {
                    if let Some(event) = events.last() {
                        place = event["seq"].as_u64().unwrap_or(place);
                        last = event["eventId"].as_str().map(str::to_owned);
                    }
                    self.log.add(events);
                }
                None => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Leaves nothing behind: capabilities, tasks, agents, nodes.
    pub async fn clean_up(&self) {
        let delete = |path: String| async move {
            let _ = wire::call(&self.client, Method::DELETE, &path, None, None).await;
        };
        let capabilities = lock(&self.capabilities).clone();
        for id in capabilities {
            delete(format!("/runtime/v1/capabilities/{id}")).await;
        }
        if self.foreign.is_none() {
            let tasks = lock(&self.tasks).clone();
            for id in tasks {
                let path = format!("/api/v1/tasks/{id}/cancel");
                let _ = self
                    .post(&path, &json!({ "reason": "a conformance run is over" }))
                    .await;
            }
        }
        let outsiders = lock(&self.outsiders).clone();
        for id in outsiders {
            let _ = self
                .post("/ansible/agent/revoke", &json!({ "agentId": id }))
                .await;
        }
        let agents = lock(&self.agents).clone();
        for id in agents {
            delete(format!("/api/v1/agents/{id}")).await;
        }
        let nodes = lock(&self.nodes).clone();
        for node in nodes {
            let _ = node.leave().await;
        }
    }
}

/// One that was given, else one that the hub gives who may ask for it.
async fn invite(
    client: &Client,
    settings: &Settings,
    given: Option<String>,
) -> Result<String, Stop> {
    if let Some(invite) = given {
        return Ok(invite);
    }
    if !settings.invites.is_empty() {
        let why =
            "it needs a node of its own, and no invite was left for it: give --invite more often";
        return Err(Stop::unknown(why));
    }
    let body = json!({ "ttlSeconds": 300 });
    let path = "/runtime/v1/invites";
    let answer = wire::call(client, Method::POST, path, Some(&body), None).await?;
    let answer = answer.found()?;
    match answer.body["inviteToken"].as_str() {
        Some(invite) if answer.status == 201 => Ok(invite.to_owned()),
        _ => Err(Stop::Unknown(format!(
            "the hub gave no invite ({answer}); pass a steward's --token, or --invite"
        ))),
    }
}
