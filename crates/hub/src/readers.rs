//! A few threads that read, each with a connection of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use switchboard_store::Reader;

pub(crate) type Query = Box<dyn FnOnce(&dyn Reader) + Send>;

pub(crate) struct Readers {
    queue: SyncSender<Query>,
}

/// Queries that may wait for a reader.
const QUEUE: usize = 1024;

impl Readers {
    pub fn start(readers: Vec<Box<dyn Reader>>) -> Readers {
        let (queue, queries) = sync_channel::<Query>(QUEUE);
        let queries = Arc::new(Mutex::new(queries));
        for reader in readers {
            let queries = Arc::clone(&queries);
            let spawned =
                std::thread::Builder::new().name("reader".to_owned()).spawn(move || run(reader.as_ref(), &queries));
            if let Err(error) = spawned {
                tracing::warn!(%error, "one reader thread less than asked for");
            }
        }
        Readers { queue }
    }

    /// Whether there was room for it.
    pub fn submit(&self, query: Query) -> bool {
        self.queue.try_send(query).is_ok()
    }
}

fn run(reader: &dyn Reader, queries: &Mutex<Receiver<Query>>) {
    loop {
        let next = queries.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(query) = next else { return };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| query(reader)));
        if ran.is_err() {
            tracing::error!("a query panicked; it was dropped");
        }
    }
}
