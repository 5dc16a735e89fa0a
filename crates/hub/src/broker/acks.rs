//! Answers of the last minute: whoever sends the same again gets the same answer, or waits for it with the first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_wire::squidrun::frame::SendAck;
use switchboard_wire::squidrun::{Addressees, Saying};
use tokio::sync::OnceCell;
use tokio::time::Instant;

const KEPT_FOR: Duration = Duration::from_secs(60);
const KEPT_MAX: usize = 10_000;

/// The answer to one message; whoever asks first makes it.
pub(super) type Cell = Arc<OnceCell<SendAck>>;

#[derive(Default)]
pub(super) struct Acks {
    kept: Mutex<Kept>,
    hasher: RandomState,
}

#[derive(Default)]
struct Kept {
    by_id: HashMap<String, (u64, Cell)>,
    /// Oldest first.
    since: VecDeque<(Instant, String)>,
}

impl Acks {
    /// The answer to a message under this id. Another message under it has one of its own, which is not kept.
    pub fn of(&self, id: &str, saying: &Saying) -> Cell {
        let (sum, now) = (self.sum(saying), Instant::now());
        let mut kept = self.kept.lock();
        kept.forget(now);
        if let Some((known, cell)) = kept.by_id.get(id) {
            return match *known == sum {
                true => Arc::clone(cell),
                false => Cell::default(),
            };
        }
        let cell = Cell::default();
        let entry = (sum, Arc::clone(&cell));
        kept.by_id.insert(id.to_owned(), entry);
        kept.since.push_back((now, id.to_owned()));
        cell
    }

    /// The answer to a message that was sent a moment ago.
    pub fn known(&self, id: &str) -> Option<Cell> {
        let kept = self.kept.lock();
        kept.by_id.get(id).map(|(_, cell)| Arc::clone(cell))
    }

    /// It was not accepted: the next try counts.
    pub fn forget(&self, id: &str, cell: &Cell) {
        let mut kept = self.kept.lock();
        let is_it = |known: &&(u64, Cell)| Arc::ptr_eq(&known.1, cell);
        if kept.by_id.get(id).filter(is_it).is_some() {
            kept.by_id.remove(id);
        }
    }

    fn sum(&self, saying: &Saying) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        saying.from.id().as_str().hash(&mut hasher);
        saying.content.hash(&mut hasher);
        saying.priority.hash(&mut hasher);
        match &saying.to {
            Addressees::One(word) => word.hash(&mut hasher),
            Addressees::All => 1_u8.hash(&mut hasher),
            Addressees::Others(but) => but.as_str().hash(&mut hasher),
        }
        hasher.finish()
    }
}

impl Kept {
    fn forget(&mut self, now: Instant) {
        while let Some((since, _)) = self.since.front() {
            let is_old = now.duration_since(*since) >= KEPT_FOR;
            if !is_old && self.since.len() < KEPT_MAX {
                return;
            }
            if let Some((_, id)) = self.since.pop_front() {
                self.by_id.remove(&id);
            }
        }
    }
}
