//! The engine over core's ledger in memory: the model that other engines are compared with.
//!
//! A batch works on its own copy, which becomes the ledger when it commits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switchboard_core::ledger::Ledger;
use switchboard_core::slice::Save;
use switchboard_core::{Ask, Slice, Timestamp};

use crate::clock::{LedgerClock, Mark};
use crate::{Begun, Clock, Engine, Error, Reader};

mod read;

pub struct MemoryEngine {
    clock: LedgerClock,
    committed: SharedLedger,
    /// What this engine knows to be committed; anything else was written by another one.
    known: Option<Arc<Ledger>>,
    /// The rows of the batch that goes on; a copy from the first save on.
    batch: Option<Arc<Ledger>>,
}

/// What was committed last. Readers take the whole of it and look at leisure.
#[derive(Clone, Default)]
struct SharedLedger(Arc<Mutex<Arc<Ledger>>>);

impl MemoryEngine {
    pub fn new(clock: Box<dyn Clock>) -> Self {
        MemoryEngine {
            clock: LedgerClock::new(clock),
            committed: SharedLedger::default(),
            known: None,
            batch: None,
        }
    }

    /// The engine of another coordinator on the same ledger.
    pub fn beside(&self, clock: Box<dyn Clock>) -> Self {
        MemoryEngine {
            committed: self.committed.clone(),
            ..MemoryEngine::new(clock)
        }
    }

    fn batch(&mut self) -> &mut Arc<Ledger> {
        self.batch
            .as_mut()
            .expect("loads and saves happen within a batch")
    }
}

impl Engine for MemoryEngine {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        assert!(self.batch.is_none(), "the batch before has ended");
        let rows = self.committed.get();
        let is_known = |known: &Arc<Ledger>| Arc::ptr_eq(known, &rows);
        if !self.known.as_ref().is_some_and(is_known) {
            slice.forget();
        }
        self.known = Some(Arc::clone(&rows));
        slice.head = rows.head.clone();
        slice.has_head = true;
        let told = self
            .clock
            .tell(rows.head.last_at, || Ok::<_, Error>(Mark::default()))?;
        self.batch = Some(rows);
        Ok(Begun {
            now: told.now,
            wall: told.wall,
            clock_stepped_ms: told.clock_stepped_ms,
            by_hand: false,
            rewound: None,
        })
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        let rows = self.batch();
        for ask in asks {
            rows.answer(ask, slice);
        }
        Ok(())
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        Arc::make_mut(self.batch()).save(save);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let batch = self.batch.take().expect("a commit ends a batch");
        self.known = Some(Arc::clone(&batch));
        *self.committed.lock() = batch;
        Ok(())
    }

    fn rollback(&mut self) {
        self.batch = None;
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        let rows = match &self.batch {
            Some(batch) => Arc::clone(batch),
            None => self.committed.get(),
        };
        Ok(rows.next_due())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(read::MemoryReader(self.committed.clone())))
    }
}

impl SharedLedger {
    fn lock(&self) -> MutexGuard<'_, Arc<Ledger>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Arc<Ledger> {
        Arc::clone(&self.lock())
    }
}
