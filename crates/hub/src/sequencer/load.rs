//! Fetches what verbs ask for, in as few rounds as the deepest of them needs.

use switchboard_core::{Ask, Timestamp, Want};
use switchboard_store::Error as StoreError;

use super::{Job, Listener, Sequencer};

/// Rounds of asking before a verb is taken for broken.
pub(super) const ROUNDS_MAX: usize = 100_000;

impl<L: Listener> Sequencer<L> {
    /// Sees to it that the first job finds all it asks for. When something is missing, what the jobs after it
    /// miss is loaded along, so that a batch costs as many rounds as its deepest verb. Later in a batch only
    /// what a verb before has changed is missing, and that each loads for itself.
    pub(super) fn load_for(
        &mut self,
        jobs: &[Box<dyn Job>],
        rounds: &mut usize,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for _ in 0..ROUNDS_MAX {
            let mut want = Want::new(&self.slice);
            jobs[0].asks(&mut want, now);
            if want.is_satisfied() {
                return Ok(());
            }
            if *rounds > 0 {
                *rounds -= 1;
                jobs[1..].iter().for_each(|job| job.asks(&mut want, now));
            }
            self.load(&want.into_asks())?;
        }
        Err(StoreError::Unavailable(
            "a verb never stopped asking".to_owned(),
        ))
    }

    pub(super) fn load(&mut self, asks: &[Ask]) -> Result<(), StoreError> {
        let engine = &mut self.engine;
        if asks.iter().any(Ask::is_range) && self.slice.has_unsaved_rows() {
            self.slice.save_rows(|save| engine.save(save))?;
        }
        engine.load(asks, &mut self.slice)
    }
}
