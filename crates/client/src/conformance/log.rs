//! The hub's outbox as the checker read it, and waiting for what comes there.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

pub(super) struct Log {
    events: Mutex<Vec<Value>>,
    count: watch::Sender<usize>,
}

impl Log {
    pub fn new() -> Log {
        Log {
            events: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    pub fn add(&self, events: &[Value]) {
        let mut all = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(events);
        let count = all.len();
        drop(all);
        self.count.send_replace(count);
    }

    /// Everything up to now.
    pub fn all(&self) -> Vec<Value> {
        let all = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    pub fn len(&self) -> usize {
        *self.count.borrow()
    }

    /// The first such event, as soon as it is there.
    pub async fn find(&self, within: Duration, is: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut count = self.count.subscribe();
        let found = async {
            loop {
                count.borrow_and_update();
                if let Some(event) = self.all().into_iter().find(|event| is(event)) {
                    return Some(event);
                }
                if count.changed().await.is_err() {
                    return None;
                }
            }
        };
        timeout(within, found).await.ok().flatten()
    }
}

/// Of this kind, about this task or event.
pub(super) fn is_of(event: &Value, kind: &str, member: &str, id: &Value) -> bool {
    event["kind"] == kind && event["payload"][member] == *id
}

/// An answer of this type to an event.
pub(super) fn is_ack(event: &Value, word: &str, to: &Value) -> bool {
    is_of(event, "ack", "refEventId", to) && event["payload"]["ackType"] == word
}
