//! A few threads that read, each with a connection of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use parking_lot::RwLock;
use switchboard_store::Reader;

use crate::hub::Error;

pub(crate) type Query = Box<dyn FnOnce(&dyn Reader) + Send>;

pub(crate) struct Readers {
    /// Absent once they were told to stop.
    queue: RwLock<Option<SyncSender<Query>>>,
    threads: parking_lot::Mutex<Vec<JoinHandle<()>>>,
}

/// Queries that may wait for a reader.
const QUEUE: usize = 1024;

impl Readers {
    pub fn start(readers: Vec<Box<dyn Reader>>) -> Readers {
        let (queue, queries) = sync_channel::<Query>(QUEUE);
        let queries = Arc::new(Mutex::new(queries));
        let mut threads = Vec::with_capacity(readers.len());
        for reader in readers {
            let queries = Arc::clone(&queries);
            let spawned = std::thread::Builder::new()
                .name("reader".to_owned())
                .spawn(move || run(reader.as_ref(), &queries));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::warn!(%error, "a reader thread could not be started"),
            }
        }
        Readers {
            queue: RwLock::new(Some(queue)),
            threads: parking_lot::Mutex::new(threads),
        }
    }

    pub fn submit(&self, query: Query) -> Result<(), Error> {
        let queue = self.queue.read();
        let queue = queue.as_ref().ok_or(Error::Stopping)?;
        queue.try_send(query).map_err(|_| Error::Overloaded)
    }

    /// Answers what was accepted, then closes every connection. Blocks until that is done.
    pub fn stop(&self) {
        drop(self.queue.write().take());
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(reader: &dyn Reader, queries: &Mutex<Receiver<Query>>) {
    loop {
        let next = queries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(query) = next else { return };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| query(reader)));
        if ran.is_err() {
            tracing::error!("a query panicked; it was dropped");
        }
    }
}
