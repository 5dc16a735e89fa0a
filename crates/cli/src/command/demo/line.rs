//! The ten operations, over HTTP or as files: how agents of Jetpack's protocol reach the hub.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_client::jetpack::{
    AckRequest, AcquireLeaseRequest, AcquireLeaseResponse, AgentType, Capabilities, ClaimRequest,
    ClaimResponse, CompleteRequest, CompleteResponse, Envelope, Event, FailRequest,
    Failure as Failed, FailureType, NewAgent, NewMessage, Progress, ProgressRequest,
    QualityMetrics, ReceiveMessagesRequest, ReceiveMessagesResponse, RegisterRequest,
    ReleaseLeaseRequest, Request, SendMessageRequest, TaskPhase, TaskResult, TaskStatus,
};
use switchboard_client::runtime::{
    EventPriority, MessagePayload, PublishKind, PublishRequest, TaskCreatePayload,
};
use switchboard_client::{Client, Error};
use switchboard_wire::{Json, Recipients};
use tokio::time::{sleep, timeout};

use super::world::{Held, stuck};
use crate::failure::Failure;

/// Seconds that a claim waits; then messages are looked for.
const WAIT_SECONDS: u32 = 1;
const LOOK_EVERY: Duration = Duration::from_millis(5);
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
const LEASE_MS: i64 = 60_000;

/// One agent's way to the hub.
pub struct Line {
    pub agent: String,
    pub client: Client,
    pub way: Way,
}

pub enum Way {
    /// Claims by long poll.
    Http,
    /// Follows the event stream, and claims when a task is ready.
    Sse(BoxStream<'static, Result<Event, Error>>),
    /// Claims by long poll, and speaks by events of the node.
    Runtime,
    /// Writes requests into this directory; so many up to now.
    Files(PathBuf, u64),
}

impl Line {
    pub async fn register(&mut self, skills: &[&str]) -> Result<(), Failure> {
        let capabilities = Capabilities {
            skills: skills.iter().map(|skill| (*skill).to_owned()).collect(),
            max_task_minutes: 60,
            can_run_tests: true,
            can_run_build: true,
            can_access_browser: false,
        };
        let agent = NewAgent {
            id: self.agent.clone(),
            name: self.agent.clone(),
            kind: AgentType::Custom,
            capabilities,
            machine: None,
        };
        let request = RegisterRequest {
            agent,
            resume: None,
        };
        self.ask::<Value>(Request::Register(request)).await?;
        Ok(())
    }

    /// Waits a moment if there is nothing to do.
    pub async fn claim(&mut self) -> Result<Option<Held>, Failure> {
        let wait = (!matches!(self.way, Way::Sse(_))).then_some(WAIT_SECONDS);
        let request = ClaimRequest {
            agent_id: self.agent.clone(),
            wait,
            ..ClaimRequest::default()
        };
        let answer: ClaimResponse = self.ask(Request::Claim(request)).await?;
        if let (None, Way::Sse(events)) = (&answer.task, &mut self.way) {
            let _ = timeout(Duration::from_secs(WAIT_SECONDS.into()), events.next()).await;
        }
        Ok(answer.task.map(|task| Held {
            id: task.id,
            number: task.number,
            epoch: task.epoch,
            files: task.files,
        }))
    }

    pub async fn progress(&mut self, held: &Held) -> Result<(), Failure> {
        let request = ProgressRequest {
            agent_id: self.agent.clone(),
            task_id: Some(held.id.clone()),
            progress: Progress {
                phase: TaskPhase::Implementing,
                percent_complete: 50.0,
                description: "half way".to_owned(),
                files_modified: Vec::new(),
            },
            epoch: Some(held.epoch),
        };
        self.ask::<Value>(Request::Progress(request)).await?;
        Ok(())
    }

    pub async fn complete(
        &mut self,
        held: &Held,
        quality_metrics: Option<QualityMetrics>,
    ) -> Result<TaskStatus, Failure> {
        let request = CompleteRequest {
            agent_id: self.agent.clone(),
            task_id: Some(held.id.clone()),
            result: TaskResult {
                files_modified: held.files.clone(),
                summary: format!("done by {}", self.agent),
                ..TaskResult::default()
            },
            quality_metrics,
            epoch: Some(held.epoch),
            evidence: Vec::new(),
        };
        let answer: CompleteResponse = self.ask(Request::Complete(request)).await?;
        Ok(answer.status)
    }

    pub async fn fail(&mut self, held: &Held) -> Result<(), Failure> {
        let request = FailRequest {
            agent_id: self.agent.clone(),
            task_id: Some(held.id.clone()),
            failure: Failed {
                kind: FailureType::TaskError,
                message: "it did not compile".to_owned(),
                details: None,
                recoverable: true,
                suggested_action: None,
                spends_retry: None,
            },
            epoch: Some(held.epoch),
        };
        self.ask::<Value>(Request::Fail(request)).await?;
        Ok(())
    }

    /// Who holds the file, if it is not free.
    pub async fn lease(&mut self, held: &Held, path: &str) -> Result<Option<String>, Failure> {
        let request = AcquireLeaseRequest {
            agent_id: self.agent.clone(),
            task_id: Some(held.id.clone()),
            epoch: Some(held.epoch),
            file_path: path.to_owned(),
            duration_ms: LEASE_MS,
        };
        let answer: AcquireLeaseResponse = self.ask(Request::AcquireLease(request)).await?;
        Ok(answer.held_by)
    }

    pub async fn release(&mut self, path: &str) -> Result<(), Failure> {
        let request = ReleaseLeaseRequest {
            agent_id: self.agent.clone(),
            file_path: path.to_owned(),
            fencing_token: None,
        };
        self.ask::<Value>(Request::ReleaseLease(request)).await?;
        Ok(())
    }

    /// A message that wants to be acknowledged.
    pub async fn send(&mut self, to: &str, text: &str) -> Result<(), Failure> {
        if matches!(self.way, Way::Runtime) {
            let payload = MessagePayload {
                to_agents: vec![to.to_owned()],
                subject: "from the demo".to_owned(),
                body: Json::from(Value::from(text)),
                priority: EventPriority::Normal,
                expects_reply: true,
            };
            let event = publication(PublishKind::Message, &payload, &self.agent)?;
            self.client.nodes().publish(&event).await?;
            return Ok(());
        }
        let message = NewMessage {
            to: Some(Recipients::One(to.to_owned())),
            kind: "custom".to_owned(),
            payload: Json::from(serde_json::json!({ "text": text })),
            ack_required: Some(true),
            ..NewMessage::default()
        };
        let agent_id = self.agent.clone();
        let request = SendMessageRequest { agent_id, message };
        self.ask::<Value>(Request::SendMessage(request)).await?;
        Ok(())
    }

    /// One that speaks by events publishes these tasks for whoever can do them.
    pub async fn publish(&mut self, titles: &[String]) -> Result<(), Failure> {
        if !matches!(self.way, Way::Runtime) {
            return Ok(());
        }
        for (at, title) in titles.iter().enumerate() {
            let payload = TaskCreatePayload {
                task_id: format!("demo-event-{}", at + 1),
                title: title.clone(),
                description: None,
                to_agents: Vec::new(),
                required_capabilities: vec!["any".to_owned()],
                priority: EventPriority::Normal,
                requester_agent_id: self.agent.clone(),
                response_required: true,
                deadline_at: None,
                distribution: None,
            };
            let event = publication(PublishKind::TaskCreate, &payload, &self.agent)?;
            self.client.nodes().publish(&event).await?;
        }
        Ok(())
    }

    /// Acknowledges what is there, and says how much it was. Files cannot: that is none of the ten operations.
    pub async fn mail(&mut self) -> Result<usize, Failure> {
        if matches!(self.way, Way::Files(..)) {
            return Ok(0);
        }
        let agent_id = self.agent.clone();
        let request = ReceiveMessagesRequest {
            agent_id: agent_id.clone(),
            ..ReceiveMessagesRequest::default()
        };
        let mut answer: ReceiveMessagesResponse =
            self.ask(Request::ReceiveMessages(request)).await?;
        answer.messages.retain(|message| message.ack_required);
        let request = AckRequest { agent_id };
        for message in &answer.messages {
            self.client.messages().ack(&message.id, &request).await?;
        }
        Ok(answer.messages.len())
    }

    async fn ask<A: DeserializeOwned>(&mut self, request: Request) -> Result<A, Failure> {
        let answer = match &mut self.way {
            Way::Files(dir, count) => {
                *count += 1;
                let stem = format!("{}-{count}", self.agent);
                let sealed = Envelope::of(request.operation()).seal(&request);
                let body = sealed.map_err(|error| stuck(&self.agent, error))?;
                post(dir, &stem, &body).await?
            }
            Way::Http | Way::Sse(_) | Way::Runtime => {
                self.client.admin().protocol(&request).await?
            }
        };
        let read = A::deserialize(&answer);
        read.map_err(|_| stuck(&self.agent, format!("{}: {answer}", request.operation())))
    }
}

fn publication(
    kind: PublishKind,
    payload: &impl Serialize,
    from: &str,
) -> Result<PublishRequest, Failure> {
    Ok(PublishRequest {
        kind,
        payload: Json::of(payload).map_err(|error| stuck(from, error))?,
        source_agent_id: Some(from.to_owned()),
        event_id: None,
        corr_id: None,
        expires_at: None,
    })
}

/// Written beside and renamed; then the answer is waited for.
async fn post(dir: &Path, stem: &str, body: &Value) -> Result<Value, Failure> {
    let beside = dir.join("requests").join(format!(".{stem}"));
    fs::write(&beside, body.to_string())?;
    fs::rename(&beside, dir.join("requests").join(format!("{stem}.json")))?;
    let answer = dir.join("responses").join(format!("{stem}-response.json"));
    let until = Instant::now() + ANSWERED_WITHIN;
    loop {
        match fs::read(&answer) {
            Ok(text) => return serde_json::from_slice(&text).map_err(|error| stuck(stem, error)),
            Err(error) if Instant::now() > until => return Err(stuck(stem, error)),
            Err(_) => sleep(LOOK_EVERY).await,
        }
    }
}
