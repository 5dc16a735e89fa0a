//! A role's connection that stays: messages in, receipts out, reconnected with backoff for as long as it is held.
//!
//! What to do with a message is the holder's business. A receipt that could not be sent waits for the next connection.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep};

use super::{Address, Broker, BrokerError};
use crate::bus::{Backoff, BackoffPolicy};

/// Messages, and receipts, that wait on their way; then nothing more is read.
const WAITING_MAX: usize = 64;
const BACKOFF: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(250),
    max: Duration::from_secs(5),
};
/// A connection that lasted so long was good: the next wait is a first one.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// The holder's end. Dropped, the connection is closed.
pub struct Receiver {
    heard: mpsc::Receiver<Heard>,
    receipts: mpsc::Sender<String>,
    task: AbortHandle,
}

/// What is heard of the hub.
#[derive(Debug)]
pub enum Heard {
    /// It is connected. No pane: the hub does not know the role.
    Registered {
        pane: Option<String>,
    },
    /// It is not connected, and will be tried again.
    Lost {
        url: String,
        error: BrokerError,
    },
    Message(Arrived),
}

/// A message for the role.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Arrived {
    pub content: String,
    /// What a receipt names.
    pub trace_id: String,
    #[serde(default)]
    pub event_id: String,
}

impl Receiver {
    /// Connects, and again whenever the connection is lost, to wherever `find` says that the broker is by then.
    pub fn connect(find: impl Fn() -> Address + Send + Sync + 'static) -> Receiver {
        let (tell, heard) = mpsc::channel(WAITING_MAX);
        let (receipts, unsent) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(stay(Arc::new(find), tell, unsent)).abort_handle();
        Receiver {
            heard,
            receipts,
            task,
        }
    }

    /// What is heard next.
    pub async fn next(&mut self) -> Heard {
        let heard = self.heard.recv().await;
        heard.expect("the task lives for as long as it is held")
    }

    /// Tells that a message arrived; `false` if too many such words wait already.
    pub fn received(&self, trace_id: String) -> bool {
        self.receipts.try_send(trace_id).is_ok()
    }

    /// Whether every receipt was sent.
    pub fn is_done(&self) -> bool {
        self.receipts.capacity() == WAITING_MAX
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn stay(
    find: Arc<impl Fn() -> Address + Send + Sync + 'static>,
    tell: mpsc::Sender<Heard>,
    mut unsent: mpsc::Receiver<String>,
) {
    let mut backoff = Backoff::random(BACKOFF);
    while !tell.is_closed() {
        let find = Arc::clone(&find);
        // It looks at files, and asks git.
        let Ok(at) = spawn_blocking(move || find()).await else {
            return;
        };
        let since = Instant::now();
        let error = match Broker::connect(&at).await {
            Ok(broker) => {
                let pane = broker.pane.clone();
                let _ = tell.send(Heard::Registered { pane }).await;
                listen(broker, &tell, &mut unsent).await
            }
            Err(error) => error,
        };
        if since.elapsed() >= GOOD_AFTER {
            backoff.reset();
        }
        let url = at.url;
        let _ = tell.send(Heard::Lost { url, error }).await;
        sleep(backoff.draw()).await;
    }
}

/// Until the connection is lost.
async fn listen(
    mut broker: Broker,
    tell: &mpsc::Sender<Heard>,
    unsent: &mut mpsc::Receiver<String>,
) -> BrokerError {
    loop {
        tokio::select! {
            frame = broker.next() => match frame.map(arrived) {
                Some(Some(message)) => {
                    let _ = tell.send(Heard::Message(message)).await;
                }
                Some(None) => {}
                None => return BrokerError::Closed,
            },
            Some(trace_id) = unsent.recv() => {
                let receipt = json!({ "type": "receipt", "traceId": trace_id });
                if let Err(error) = broker.say(&receipt).await {
                    return error;
                }
            }
        }
    }
}

fn arrived(frame: Value) -> Option<Arrived> {
    let is_mail = frame["type"] == "message" || frame["type"] == "broadcast";
    is_mail
        .then(|| serde_json::from_value(frame).ok())
        .flatten()
}
