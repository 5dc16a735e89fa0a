//! A role's connection that stays: messages in, receipts out, reconnected with backoff for as long as it is held.
//!
//! What to do with a message is the holder's business. A receipt that could not be sent waits for the next connection.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};

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
/// To send the last receipts.
const FAREWELL: Duration = Duration::from_secs(1);

/// The holder's end. Dropped, the connection is closed.
pub struct Receiver {
    heard: mpsc::Receiver<Heard>,
    receipts: mpsc::Sender<String>,
    task: JoinHandle<()>,
}

/// What is heard of the hub.
#[derive(Debug)]
pub enum Heard {
    /// It is connected. No pane: the hub does not know the role.
    Registered {
        pane: Option<String>,
    },
    /// It is not connected, and will be tried again.
    Lost(BrokerError),
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
    pub fn connect(find: impl Fn() -> Option<Address> + Send + Sync + 'static) -> Receiver {
        let (tell, heard) = mpsc::channel(WAITING_MAX);
        let (receipts, unsent) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(stay(Arc::new(find), tell, unsent));
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

    /// Tells the hub that a message arrived. Beyond so many that wait for a connection it stays untold.
    pub fn received(&self, trace_id: &str) {
        let _ = self.receipts.try_send(trace_id.to_owned());
    }

    /// Sends the receipts that wait, if there is a connection, and says goodbye.
    pub async fn close(mut self) {
        self.heard.close();
        self.receipts = mpsc::channel(1).0;
        let _ = timeout(FAREWELL, &mut self.task).await;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn stay(
    find: Arc<impl Fn() -> Option<Address> + Send + Sync + 'static>,
    tell: mpsc::Sender<Heard>,
    mut unsent: mpsc::Receiver<String>,
) {
    let mut backoff = Backoff::random(BACKOFF);
    while !tell.is_closed() {
        let (find, since) = (Arc::clone(&find), Instant::now());
        // It looks at files, and asks git.
        let connected = match spawn_blocking(move || find()).await {
            Ok(Some(at)) => Broker::connect(&at).await,
            Ok(None) | Err(_) => Err(BrokerError::NoHub),
        };
        let error = match connected {
            Ok(broker) => {
                let pane = broker.pane.clone();
                let _ = tell.send(Heard::Registered { pane }).await;
                match listen(broker, &tell, &mut unsent).await {
                    Some(error) => error,
                    None => return,
                }
            }
            Err(error) => error,
        };
        if since.elapsed() >= GOOD_AFTER {
            backoff.reset();
        }
        let _ = tell.send(Heard::Lost(error)).await;
        sleep(backoff.draw()).await;
    }
}

/// Until the connection is lost; nothing if it is held no longer.
async fn listen(
    mut broker: Broker,
    tell: &mpsc::Sender<Heard>,
    unsent: &mut mpsc::Receiver<String>,
) -> Option<BrokerError> {
    loop {
        tokio::select! {
            frame = broker.next() => match frame.map(arrived) {
                Some(Some(message)) => {
                    let _ = tell.send(Heard::Message(message)).await;
                }
                Some(None) => {}
                None => return Some(BrokerError::Closed),
            },
            receipt = unsent.recv() => {
                let Some(trace_id) = receipt else {
                    broker.close().await;
                    return None;
                };
                let receipt = json!({ "type": "receipt", "traceId": trace_id });
                if let Err(error) = broker.say(&receipt).await {
                    return Some(error);
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
