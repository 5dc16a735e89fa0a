//! Who is to look whether its token still counts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::Event;
use tokio::sync::Notify;

use super::Wakeups;
use crate::hub::Shared;

/// Streams that a token let in, by the token's name, which is all that the log tells of it.
#[derive(Default)]
pub(super) struct Tokens {
    streams: Mutex<HashMap<Arc<str>, Vec<Arc<Notify>>>>,
}

/// One stream. Dropping it ends the watch.
pub(crate) struct TokenWatch {
    shared: Arc<Shared>,
    name: Arc<str>,
    bell: Arc<Notify>,
}

impl Wakeups {
    /// Rings whenever a token of this name is revoked, and once at the start.
    pub fn watch_token(shared: &Arc<Shared>, name: &Arc<str>) -> TokenWatch {
        let bell = Arc::new(Notify::new());
        let mut streams = shared.wakeups().tokens.streams.lock();
        let of_name = streams.entry(Arc::clone(name)).or_default();
        of_name.push(Arc::clone(&bell));
        // It may have been revoked since it was looked up.
        bell.notify_one();
        TokenWatch {
            shared: Arc::clone(shared),
            name: Arc::clone(name),
            bell,
        }
    }

    pub fn has_tokens(&self) -> bool {
        !self.tokens.streams.lock().is_empty()
    }

    /// Tells those whom an event of the log concerns.
    pub fn tokens_ended<'a>(&self, events: impl Iterator<Item = &'a Event>) {
        let streams = self.tokens.streams.lock();
        if streams.is_empty() {
            return;
        }
        for event in events {
            if let Event::TokenRevoked { name } = event
                && let Some(bells) = streams.get(name.as_str())
            {
                bells.iter().for_each(|bell| bell.notify_one());
            }
        }
    }

    pub(super) fn all_tokens_changed(&self) {
        let streams = self.tokens.streams.lock();
        let bells = streams.values().flatten();
        bells.for_each(|bell| bell.notify_one());
    }
}

impl TokenWatch {
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// To be rung again by whoever could not look.
    pub fn bell(&self) -> &Arc<Notify> {
        &self.bell
    }
}

impl Drop for TokenWatch {
    fn drop(&mut self) {
        let mut streams = self.shared.wakeups().tokens.streams.lock();
        if let Some(bells) = streams.get_mut(&self.name) {
            bells.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            if bells.is_empty() {
                streams.remove(&self.name);
            }
        }
    }
}
