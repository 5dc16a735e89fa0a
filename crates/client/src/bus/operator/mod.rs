//! An operator's client: watches the swarm and gives commands.

mod run;

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_wire::agentbus::envelope::Sender;
use switchboard_wire::agentbus::message::{
    CatalogRefreshRequest, Credential, EngramRequest, Hello, Inbound, OperatorAck, OperatorCommand,
    Payload, ReleasePublished, Welcome,
};
use switchboard_wire::agentbus::{PROTOCOL_VERSION, Role};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::backoff::{Backoff, BackoffPolicy};
use super::dial::{Dial, Endpoint, TlsFiles};
use super::error::BusError;
use super::link::{Frame, Greeting, Keep, Way};
use super::pending::Pending;
use run::Runner;

/// Commands that wait for the connection's task.
const ORDERS_MAX: usize = 64;
/// Events that wait for the operator; while it takes none, nothing more is read, and the director may drop it.
const EVENTS_MAX: usize = 1024;
/// A command has to be answered within this time, connecting included.
const ACK_WITHIN: Duration = Duration::from_secs(15);

/// How an operator connects.
#[derive(Clone, Debug)]
pub struct OperatorConfig {
    /// `host:port` of the director.
    pub addr: String,
    /// For a director under mutual TLS.
    pub tls: Option<TlsFiles>,
    /// For a director that asks who connects.
    pub credential: Option<Credential>,
    pub id: String,
    pub capabilities: Vec<String>,
    pub backoff: BackoffPolicy,
    /// Whether each line also comes as an event.
    pub show_lines: bool,
}

impl OperatorConfig {
    pub fn new(addr: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            addr: addr.into(),
            tls: None,
            credential: None,
            id: id.into(),
            capabilities: Vec::new(),
            backoff: BackoffPolicy::default(),
            show_lines: false,
        }
    }
}

/// What an operator hears.
#[derive(Clone, Debug)]
pub enum OperatorEvent {
    /// The hello was answered; this comes with every connection.
    Connected(Welcome),
    /// There is no connection; the next try follows after the wait.
    Disconnected {
        error: BusError,
        retry_after: Duration,
    },
    /// A frame; what came in parts is one.
    Frame(Frame),
    /// A line as it went by, if the configuration asks for it.
    Line { way: Way, text: String },
    /// The last event: connecting again is of no use.
    Ended(BusError),
}

/// The events of one operator.
pub type OperatorEvents = mpsc::Receiver<OperatorEvent>;

/// The operator's side of the bus.
#[derive(Debug)]
pub struct Operator;

/// An operator's voice. Cheap to clone; when the last one is dropped, the connection ends.
#[derive(Clone, Debug)]
pub struct OperatorHandle {
    orders: mpsc::Sender<Order>,
}

/// What a handle wants of the connection's task.
enum Order {
    Command(
        Inbound<'static>,
        oneshot::Sender<Result<OperatorAck, BusError>>,
    ),
    Send(Inbound<'static>),
    Close(oneshot::Sender<()>),
}

impl Operator {
    /// Begins to connect, and does not stop until the handles are gone or the director's version is another.
    ///
    /// Must be called within a tokio runtime.
    pub fn connect(config: OperatorConfig) -> Result<(OperatorHandle, OperatorEvents), BusError> {
        let endpoint = Endpoint {
            addr: config.addr.clone(),
            tls: config.tls.clone(),
        };
        Self::connect_by(config, Box::new(endpoint))
    }

    pub(super) fn connect_by(
        config: OperatorConfig,
        dial: Box<dyn Dial>,
    ) -> Result<(OperatorHandle, OperatorEvents), BusError> {
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION.to_string(),
            capabilities: config.capabilities,
            worker: None,
            repo: None,
            auth: None,
        };
        hello.check()?;
        let (to_runner, orders) = mpsc::channel(ORDERS_MAX);
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let runner = Runner {
            dial,
            greeting: Greeting {
                sender: Sender {
                    role: Role::Operator,
                    id: config.id.into(),
                    run_id: None,
                },
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
            backoff: Backoff::random(config.backoff),
            waiting: VecDeque::new(),
            unanswered: Vec::new(),
        };
        tokio::spawn(runner.run());
        Ok((OperatorHandle { orders: to_runner }, receiver))
    }
}

impl OperatorHandle {
    /// Gives a command and waits for its answer. One that is cut off is not repeated: it may have been carried out.
    pub async fn command(&self, command: OperatorCommand) -> Result<OperatorAck, BusError> {
        self.confirmed(command.into()).await
    }

    /// Tells everybody of a release, and waits for the answer.
    pub async fn publish(&self, release: ReleasePublished) -> Result<OperatorAck, BusError> {
        self.confirmed(release.into()).await
    }

    async fn confirmed(&self, message: Inbound<'static>) -> Result<OperatorAck, BusError> {
        message.check()?;
        let (answer, answered) = oneshot::channel();
        self.order(Order::Command(message, answer)).await?;
        match timeout(ACK_WITHIN, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(BusError::Over),
            Err(_) => Err(BusError::NoAnswer),
        }
    }

    /// Asks for the catalog of engrams.
    pub async fn request_catalog(&self, request: CatalogRefreshRequest) -> Result<(), BusError> {
        request.check()?;
        self.order(Order::Send(request.into())).await
    }

    /// Asks for an engram's content.
    pub async fn fetch_engram(&self, engram_id: impl Into<String>) -> Result<(), BusError> {
        let request = EngramRequest {
            engram_id: engram_id.into(),
        };
        request.check()?;
        self.order(Order::Send(request.into())).await
    }

    /// Ends the connection.
    pub async fn close(&self) {
        let (done, over) = oneshot::channel();
        if self.order(Order::Close(done)).await.is_ok() {
            // Whether it was told or dropped, it is over.
            let _ = over.await;
        }
    }

    async fn order(&self, order: Order) -> Result<(), BusError> {
        let given = self.orders.send(order).await;
        given.map_err(|_| BusError::Over)
    }
}
