//! Events on their way to whoever reads them: held in order while that one is busy, and never in its way.

use std::collections::VecDeque;

use tokio::sync::mpsc;

/// Events that wait beyond the channel's own room.
pub(super) struct Pending<E> {
    events: mpsc::Sender<E>,
    waiting: VecDeque<E>,
    /// Nobody reads them any more.
    deaf: bool,
}

impl<E> Pending<E> {
    pub fn new(events: mpsc::Sender<E>) -> Self {
        Self {
            events,
            waiting: VecDeque::new(),
            deaf: false,
        }
    }

    /// Puts an event behind the others. Whoever reads a socket stops reading while [`Pending::is_waiting`], which
    /// bounds what comes together here.
    pub fn push(&mut self, event: E) {
        if self.deaf {
            return;
        }
        if self.waiting.is_empty() {
            match self.events.try_send(event) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(event)) => self.waiting.push_back(event),
                Err(mpsc::error::TrySendError::Closed(_)) => self.deaf = true,
            }
        } else {
            self.waiting.push_back(event);
        }
    }

    /// Puts a new last word in the place of an older one that nobody has read.
    pub fn replace_last(&mut self, event: E, is_older: impl Fn(&E) -> bool) {
        if self.waiting.back().is_some_and(is_older) {
            self.waiting.pop_back();
        }
        self.push(event);
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for room and hands one event over; may be given up at any time.
    pub async fn hand_over(&mut self) {
        match self.events.reserve().await {
            Ok(permit) => {
                if let Some(event) = self.waiting.pop_front() {
                    permit.send(event);
                }
            }
            Err(_) => {
                self.deaf = true;
                self.waiting.clear();
            }
        }
    }
}
