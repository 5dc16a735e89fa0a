//! A worker's client: says hello, beats, takes tasks and messages, reports, and comes back after every cut.

mod desk;
mod handle;
mod outbox;
mod run;
mod seen;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use switchboard_wire::agentbus::envelope::Sender;
use switchboard_wire::agentbus::message::{
    AgentMessage, AgentMessageAck, BudgetGrant, CAPABILITY_ASSIGN, CAPABILITY_MESSAGE,
    CatalogDelta, CatalogSnapshot, Credential, EngramAnnounce, EngramContent, Hello, HelloRepo,
    HelloWorker, Inbound, MemoryEvent, OperatorCommand, Payload, ProtocolError, ReleasePublished,
    SyncRequired, TaskAssigned, TaskProgress, TaskResultAck, TaskRevoked, Welcome, WorkerState,
};
use switchboard_wire::agentbus::{PROTOCOL_VERSION, Role, Stage};
use tokio::sync::{mpsc, oneshot};

pub use handle::WorkerHandle;

use super::backoff::{Backoff, BackoffPolicy};
use super::clock;
use super::dial::{Dial, Endpoint, TlsFiles};
use super::error::BusError;
use super::link::{Greeting, Keep, Way};
use super::pending::Pending;
use desk::Desk;
use run::Runner;

/// Things said that wait for the connection's task.
const SAID_MAX: usize = 64;
/// Events that wait for the worker; while it takes none, nothing more is read.
const EVENTS_MAX: usize = 256;
/// Lines that a director takes unless it says otherwise.
const MESSAGE_BYTES_MAX: usize = 65_536;

/// How a worker connects.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// `host:port` of the director.
    pub addr: String,
    /// For a director under mutual TLS.
    pub tls: Option<TlsFiles>,
    /// For a director that asks who connects.
    pub credential: Option<Credential>,
    /// Also the sender's id.
    pub worker: HelloWorker,
    pub repo: HelloRepo,
    pub capabilities: Vec<String>,
    pub run_id: Option<String>,
    /// No heartbeat goes out sooner than this after the last, nor sooner than the director says; unset and unsaid: 15
    /// seconds.
    pub heartbeat_every: Option<Duration>,
    pub backoff: BackoffPolicy,
    /// Whether each line also comes as an event.
    pub show_lines: bool,
}

impl WorkerConfig {
    /// A worker of this id that only reports.
    pub fn new(addr: impl Into<String>, worker_id: impl Into<String>) -> Self {
        Self {
            addr: addr.into(),
            tls: None,
            credential: None,
            worker: HelloWorker {
                worker_id: worker_id.into(),
                ..HelloWorker::default()
            },
            repo: HelloRepo::default(),
            capabilities: Vec::new(),
            run_id: None,
            heartbeat_every: None,
            backoff: BackoffPolicy::default(),
            show_lines: false,
        }
    }

    /// A worker that takes tasks for these skills, and messages.
    pub fn taking_tasks<S: Into<String>>(mut self, skills: impl IntoIterator<Item = S>) -> Self {
        let own = [CAPABILITY_ASSIGN, CAPABILITY_MESSAGE].map(str::to_owned);
        self.capabilities.extend(own);
        self.capabilities.extend(skills.into_iter().map(Into::into));
        self
    }

    fn hello(&self) -> Hello {
        Hello {
            protocol_version: PROTOCOL_VERSION.to_string(),
            capabilities: self.capabilities.clone(),
            worker: Some(self.worker.clone()),
            repo: Some(self.repo.clone()),
            auth: None,
        }
    }
}

/// What a worker hears.
#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// The hello was answered; this comes with every connection.
    Connected(Welcome),
    /// There is no connection; the next try follows after the wait.
    Disconnected {
        error: BusError,
        retry_after: Duration,
    },
    /// A task; it comes once per epoch. It wants to be accepted or declined within 20 seconds.
    Assigned(TaskAssigned),
    /// The task is the worker's no longer.
    Revoked(TaskRevoked),
    /// Whether the worker's result counts. A result is said again after a cut until this comes.
    ResultTaken(TaskResultAck),
    /// A message of another agent; it comes once.
    Message(AgentMessage),
    /// What became of the worker's own message.
    MessageState(AgentMessageAck),
    SyncRequired(SyncRequired),
    EngramAnnounced(EngramAnnounce),
    Catalog(CatalogSnapshot),
    CatalogChanged(CatalogDelta),
    Engram(EngramContent),
    Budget(BudgetGrant),
    Released(ReleasePublished),
    /// An operator wants something of this worker, such as that it goes.
    Commanded(OperatorCommand),
    /// The director did not take a frame.
    Refused(ProtocolError),
    /// A line as it went by, if the configuration asks for it.
    Line {
        way: Way,
        text: String,
    },
    /// The last event: connecting again is of no use.
    Ended(BusError),
}

/// The events of one worker.
pub type WorkerEvents = mpsc::Receiver<WorkerEvent>;

/// The worker's side of the bus.
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Begins to connect, and does not stop until the handles are gone or the director's version is another.
    ///
    /// Must be called within a tokio runtime.
    pub fn connect(config: WorkerConfig) -> Result<(WorkerHandle, WorkerEvents), BusError> {
        let endpoint = Endpoint {
            addr: config.addr.clone(),
            tls: config.tls.clone(),
        };
        Self::connect_by(config, Box::new(endpoint))
    }

    pub(super) fn connect_by(
        config: WorkerConfig,
        dial: Box<dyn Dial>,
    ) -> Result<(WorkerHandle, WorkerEvents), BusError> {
        let hello = config.hello();
        hello.check()?;
        let sender = Sender {
            role: Role::Worker,
            id: config.worker.worker_id.clone().into(),
            run_id: config.run_id.clone().map(Into::into),
        };
        let (to_runner, orders) = mpsc::channel(SAID_MAX);
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let line_max = Arc::new(AtomicUsize::new(MESSAGE_BYTES_MAX));
        let idle = clock::state(Stage::Start, 0, 0);
        let runner = Runner {
            dial,
            greeting: Greeting {
                sender: sender.clone(),
                hello,
                credential: config.credential,
            },
            keep: if config.show_lines {
                Keep::Lines
            } else {
                Keep::Nothing
            },
            orders,
            pending: Pending::new(events),
            desk: Desk::new(config.heartbeat_every, idle),
            backoff: Backoff::random(config.backoff),
            line_max: Arc::clone(&line_max),
            began: tokio::time::Instant::now(),
        };
        tokio::spawn(runner.run());
        let handle = WorkerHandle::new(to_runner, sender, line_max);
        Ok((handle, receiver))
    }
}

/// What a handle wants of the connection's task.
enum Order {
    Say(Box<Said>),
    Close(oneshot::Sender<()>),
}

/// What a worker says.
enum Said {
    /// Told with the next heartbeat.
    State(WorkerState<'static>),
    /// Told with the next heartbeat.
    Progress(TaskProgress),
    /// Told with the next heartbeat.
    Memory(MemoryEvent),
    /// Sent at once, and again after a cut.
    Urgent(Inbound<'static>),
    /// Sent at once, or with the next connection.
    Question(Inbound<'static>),
}
