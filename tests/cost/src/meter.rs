//! An engine that counts what it is asked, and keeps quiet otherwise: nothing comes due, and nobody follows the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use switchboard_core::slice::Save;
use switchboard_core::{Ask, Slice, Timestamp};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Begun, Engine, Error, HandPage, Reader, Wall};

/// What was counted so far.
#[derive(Default)]
pub struct Counts {
    pub rounds: AtomicU64,
    pub asks: AtomicU64,
    /// Of SQLite only; PostgreSQL counts by itself.
    pub statements: Arc<AtomicU64>,
    pub rows: AtomicU64,
}

pub struct Metered<E> {
    pub engine: E,
    pub counts: Arc<Counts>,
    /// How many rows were written through this connection so far.
    pub rows: fn(&E) -> u64,
}

impl Metered<SqliteEngine> {
    pub fn sqlite(mut engine: SqliteEngine, counts: Arc<Counts>) -> Self {
        engine.count_statements(Arc::clone(&counts.statements));
        Metered {
            engine,
            counts,
            rows: SqliteEngine::rows_written,
        }
    }
}

impl<E> Metered<E> {
    fn ended<T>(&self, result: T) -> T {
        let rows = (self.rows)(&self.engine);
        self.counts.rows.store(rows, Ordering::SeqCst);
        result
    }
}

impl<E: Engine> Engine for Metered<E> {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, Error> {
        self.engine.begin(slice)
    }

    fn start_clock(&mut self, wall: Wall) -> Result<(), Error> {
        self.engine.start_clock(wall)
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), Error> {
        self.counts.rounds.fetch_add(1, Ordering::SeqCst);
        let asked = asks.len() as u64;
        self.counts.asks.fetch_add(asked, Ordering::SeqCst);
        self.engine.load(asks, slice)
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), Error> {
        self.engine.save(save)
    }

    fn commit(&mut self) -> Result<(), Error> {
        let committed = self.engine.commit();
        self.ended(committed)
    }

    fn rollback(&mut self) {
        self.engine.rollback();
    }

    fn end_unwritten(&mut self) -> Result<(), Error> {
        self.engine.end_unwritten()
    }

    fn hand_notes(&mut self, limit: usize, slice: &mut Slice) -> Result<HandPage, Error> {
        self.engine.hand_notes(limit, slice)
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, Error> {
        Ok(None)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, Error> {
        self.engine.reader()
    }

    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    fn shared_key(&mut self, fresh: &[u8; 32]) -> Result<Option<[u8; 32]>, Error> {
        self.engine.shared_key(fresh)
    }
}
