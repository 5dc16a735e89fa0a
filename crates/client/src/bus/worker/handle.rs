//! What a worker can say. Everything is checked here, so that nothing is sent that the director would refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use switchboard_wire::agentbus::envelope::{self, Sender};
use switchboard_wire::agentbus::message::{
    Accomplished, AgentMessage, AgentMessageAck, BudgetRequest, BudgetResult,
    CatalogRefreshRequest, CatalogVersion, EngramRequest, ErrorReport, Heartbeat, Inbound,
    MailState, MemoryEvent, Message, Quality, TaskAccepted, TaskDeclined, TaskProgress, TaskResult,
    WorkerError, WorkerState,
};
use switchboard_wire::agentbus::{
    BudgetKind, BudgetPriority, BudgetResource, BudgetStatus, UtcTime,
};
use switchboard_wire::{Json, Recipients};
use tokio::sync::{mpsc, oneshot};
use ulid::Ulid;

use super::{Order, Said};
use crate::bus::error::BusError;

/// Of a program's output, as much of its end goes into an error.
pub const TAIL_BYTES_MAX: usize = 8 * 1024;

/// A worker's voice. Cheap to clone; when the last one is dropped, what is urgent is sent and the worker leaves.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    orders: mpsc::Sender<Order>,
    sender: Sender<'static>,
    line_max: Arc<AtomicUsize>,
}

impl WorkerHandle {
    pub(super) fn new(
        orders: mpsc::Sender<Order>,
        sender: Sender<'static>,
        line_max: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            orders,
            sender,
            line_max,
        }
    }

    pub fn worker_id(&self) -> &str {
        &self.sender.id
    }

    /// Where the worker stands. The next heartbeat tells it; of several before that, the last one counts.
    ///
    /// A stage that must not be missed, such as the end of a task, has a message of its own: [`Self::result`].
    pub async fn heartbeat(&self, state: WorkerState<'static>) -> Result<(), BusError> {
        let message = self.fit(Heartbeat { state }.into())?;
        let Inbound::Heartbeat(Heartbeat { state }) = message else {
            return Ok(());
        };
        self.say(Said::State(state)).await
    }

    /// How far a task is; rides with the next heartbeat, and of several the last one counts.
    pub async fn progress(&self, progress: TaskProgress) -> Result<(), BusError> {
        self.fit(progress.clone().into())?;
        self.say(Said::Progress(progress)).await
    }

    /// Something worth remembering; rides with the next heartbeat.
    pub async fn memory_event(&self, event: MemoryEvent) -> Result<(), BusError> {
        self.fit(event.clone().into())?;
        self.say(Said::Memory(event)).await
    }

    /// Something went wrong; goes at once. Output beyond [`TAIL_BYTES_MAX`] is cut at its beginning.
    pub async fn error(&self, mut error: ErrorReport) -> Result<(), BusError> {
        for tail in [&mut error.last_stdout_tail, &mut error.last_stderr_tail] {
            if let Some(text) = tail.take() {
                *tail = Some(ending(text, TAIL_BYTES_MAX));
            }
        }
        let error = WorkerError {
            error,
            corr_id: None,
        };
        self.urgent(error.into()).await
    }

    /// The worker takes the task.
    pub async fn accept(&self, issue_number: u64, epoch: u64) -> Result<(), BusError> {
        let accepted = TaskAccepted {
            issue_number,
            epoch,
            corr_id: None,
        };
        self.urgent(accepted.into()).await
    }

    /// The worker does not take the task.
    pub async fn decline(
        &self,
        issue_number: u64,
        epoch: u64,
        reason: impl Into<String>,
    ) -> Result<(), BusError> {
        let declined = TaskDeclined {
            issue_number,
            epoch,
            reason: reason.into(),
            corr_id: None,
        };
        self.urgent(declined.into()).await
    }

    /// The task is done.
    pub async fn result(
        &self,
        issue_number: u64,
        epoch: u64,
        result: Accomplished,
        quality: Option<Quality>,
    ) -> Result<(), BusError> {
        let told = TaskResult {
            issue_number,
            epoch,
            result,
            quality,
            corr_id: None,
        };
        self.urgent(told.into()).await
    }

    /// The worker has the message.
    pub async fn ack(&self, message_id: impl Into<String>) -> Result<(), BusError> {
        let ack = AgentMessageAck {
            message_id: message_id.into(),
            state: None,
            reason: None,
            by: None,
            corr_id: None,
        };
        self.urgent(ack.into()).await
    }

    /// The worker will not have the message: it fails, with this reason.
    pub async fn refuse(
        &self,
        message_id: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<(), BusError> {
        let ack = AgentMessageAck {
            message_id: message_id.into(),
            state: Some(MailState::Failed),
            reason: Some(reason.into()),
            by: None,
            corr_id: None,
        };
        self.urgent(ack.into()).await
    }

    /// A message for another agent, for several, or for all; returns its id, by which its fate is told.
    pub async fn send_message(
        &self,
        to: Option<Recipients>,
        kind: impl Into<String>,
        body: Json,
        ack_required: bool,
    ) -> Result<String, BusError> {
        let message_id = format!("msg_{}", Ulid::generate());
        let message = AgentMessage {
            message_id: message_id.clone(),
            from: self.worker_id().to_owned(),
            to,
            kind: kind.into(),
            body,
            ack_required,
            priority: None,
            redelivered: false,
            redacted: 0,
            corr_id: None,
            part: 0,
            parts: 1,
        };
        self.urgent(message.into()).await?;
        Ok(message_id)
    }

    /// May the worker use a shared resource? Returns the request's id, under which the grant comes.
    pub async fn request_budget(
        &self,
        resource: BudgetResource,
        kind: BudgetKind,
        priority: BudgetPriority,
    ) -> Result<String, BusError> {
        let request_id = format!("req_{}", Ulid::generate());
        let request = BudgetRequest {
            request_id: request_id.clone(),
            resource,
            kind,
            priority,
        };
        self.urgent(request.into()).await?;
        Ok(request_id)
    }

    /// How the use of a grant went.
    pub async fn report_budget(
        &self,
        grant_id: impl Into<String>,
        status: BudgetStatus,
        retry_after_seconds: Option<u64>,
    ) -> Result<(), BusError> {
        let result = BudgetResult {
            grant_id: grant_id.into(),
            status,
            retry_after_seconds,
        };
        self.urgent(result.into()).await
    }

    /// Asks for the catalog, or for what is new since the one the worker has.
    pub async fn request_catalog(
        &self,
        have: Option<(CatalogVersion, String)>,
    ) -> Result<(), BusError> {
        let (have_version, have_hash) = have.unzip();
        let request = CatalogRefreshRequest {
            have_version,
            have_hash,
        };
        self.ask(request.into()).await
    }

    /// Asks for an engram's content.
    pub async fn fetch_engram(&self, engram_id: impl Into<String>) -> Result<(), BusError> {
        let request = EngramRequest {
            engram_id: engram_id.into(),
        };
        self.ask(request.into()).await
    }

    /// Sends what is urgent and leaves: what the worker holds goes back unspent. Without a connection it is tried for a
    /// few seconds.
    pub async fn close(&self) {
        let (done, over) = oneshot::channel();
        if self.orders.send(Order::Close(done)).await.is_ok() {
            // Whether it was told or dropped, it is over.
            let _ = over.await;
        }
    }

    async fn urgent(&self, message: Inbound<'static>) -> Result<(), BusError> {
        let message = self.fit(message)?;
        self.say(Said::Urgent(message)).await
    }

    async fn ask(&self, message: Inbound<'static>) -> Result<(), BusError> {
        let message = self.fit(message)?;
        self.say(Said::Question(message)).await
    }

    async fn say(&self, said: Said) -> Result<(), BusError> {
        let sent = self.orders.send(Order::Say(Box::new(said))).await;
        sent.map_err(|_| BusError::Over)
    }

    fn fit(&self, message: Inbound<'static>) -> Result<Inbound<'static>, BusError> {
        message.check()?;
        let max = self.line_max.load(Ordering::Relaxed);
        let bytes = printed_len(&self.sender, &message);
        if bytes > max {
            return Err(BusError::TooLarge { bytes, max });
        }
        Ok(message)
    }
}

/// The length of the line, with the longest number it can have.
fn printed_len(sender: &Sender<'_>, message: &Inbound<'_>) -> usize {
    let header = envelope::Header {
        sent_at: UtcTime(1),
        sender,
        seq: envelope::SEQ_MAX,
    };
    let mut line = Vec::new();
    envelope::encode(header, message.message_type().as_str(), message, &mut line);
    line.len() - 1
}

/// The end of a text, from a letter on.
fn ending(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let from = (text.len() - max..).find(|place| text.is_char_boundary(*place));
    from.map(|from| text[from..].to_owned()).unwrap_or_default()
}
