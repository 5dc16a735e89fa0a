//! The one writer of a process: drains waiting verbs, decides each in turn, commits once, then answers all.
//!
//! While a commit waits for the disk, the next verbs gather: one sync serves everyone who waited for it. The same
//! while a batch waits for the ledger's head, which other coordinators may hold: who came meanwhile goes along.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
use std::time::{Duration, Instant};

use switchboard_core::event::{Event, Logged};
use switchboard_core::slice::Notices;
use switchboard_core::verb::Serve;
use switchboard_core::{Ask, Changes, LaneKey, Slice, Timestamp, Verb, Want, limits};
use switchboard_store::{Begun, Engine, Error as StoreError};
use tokio::sync::oneshot;

use crate::hub::reason;

/// Verbs decided in one transaction at the most.
pub const BATCH_MAX: usize = 512;
/// Rounds of a batch in which all its verbs ask.
const ROUNDS_TOGETHER: usize = 8;
/// Rounds of asking before a verb is taken for broken.
const ROUNDS_MAX: usize = 100_000;

/// What reaches the writer.
pub(crate) enum Input {
    Job(Box<dyn Job>),
    NextDue(oneshot::Sender<Option<Timestamp>>),
    Stop,
}

/// A verb on its way, together with whoever waits for its answer.
pub(crate) trait Job: Send {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp);
    /// Decides; `None` if nothing is to be written. May be called again if the batch had to start over.
    fn decide(&mut self, slice: &Slice, now: Timestamp) -> Option<Changes>;
    /// After the commit: what was decided holds.
    fn answer(self: Box<Self>);
    /// The batch was not written.
    fn fail(self: Box<Self>, failure: &Failure);
}

#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Unavailable(String),
    InDoubt(String),
    Panicked,
}

/// A batch that is on disk, or had nothing to write.
struct Done {
    now: Timestamp,
    at: Instant,
    verbs: usize,
    wrote: bool,
    took: Duration,
}

/// What the rest of the hub hears about a batch that was committed.
pub(crate) struct Committed<'a> {
    pub now: Timestamp,
    /// When it was `now`.
    pub at: Instant,
    pub log: &'a [Logged],
    pub notices: &'a Notices,
    pub slice: &'a Slice,
    pub verbs: usize,
    pub wrote: bool,
    pub took: Duration,
}

impl Committed<'_> {
    /// The keys of the lanes that tasks entered, once per task.
    pub fn readied(&self) -> impl Iterator<Item = &LaneKey> {
        self.notices
            .readied
            .iter()
            .filter_map(|id| self.slice.lanes.get(*id))
            .map(|lane| &lane.key)
    }
}

pub(crate) struct Sequencer<L: Listener> {
    engine: Box<dyn Engine>,
    slice: Slice,
    input: Receiver<Input>,
    listener: L,
    /// Others write this ledger too, so that nothing is held back here.
    is_shared: bool,
    /// Who wants to know what is due next; told between batches.
    asked: Vec<oneshot::Sender<Option<Timestamp>>>,
    stopping: bool,
    /// The last batch was not written; said once.
    failing: bool,
}

/// Whether a batch takes along who comes while it waits for the head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Closed,
}

/// Hears of every batch, on the writer's thread: must be quick.
pub(crate) trait Listener: Send {
    fn taken(&self, inputs: usize);
    fn committed(&self, batch: &Committed<'_>);
    /// A batch was not written, or nobody knows.
    fn failed(&self, error: &StoreError);
    /// The ledger can no longer be trusted to be durable. Does not return.
    fn fatal(&self, error: &StoreError) -> !;
}

impl<L: Listener> Sequencer<L> {
    pub fn new(engine: Box<dyn Engine>, input: Receiver<Input>, listener: L) -> Self {
        Sequencer {
            is_shared: engine.is_shared(),
            engine,
            slice: Slice::default(),
            input,
            listener,
            asked: Vec::new(),
            stopping: false,
            failing: false,
        }
    }

    /// Serves until it is told to stop; everything that was accepted before is answered.
    pub fn run(mut self) {
        let mut jobs: Vec<Box<dyn Job>> = Vec::with_capacity(BATCH_MAX);
        while !self.stopping {
            match self.input.recv() {
                Ok(first) => {
                    self.listener.taken(1);
                    self.take(first, &mut jobs);
                }
                Err(RecvError) => self.stopping = true,
            }
            self.drain(&mut jobs);
            self.serve(&mut jobs, Intake::Open);
            self.tell_due();
        }
        self.flush();
    }

    /// Takes what waits, as much as fits into a batch.
    fn drain(&mut self, jobs: &mut Vec<Box<dyn Job>>) {
        let mut taken = 0;
        while !self.stopping && jobs.len() < BATCH_MAX {
            match self.input.try_recv() {
                Ok(next) => {
                    taken += 1;
                    self.take(next, jobs);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.stopping = true,
            }
        }
        if taken > 0 {
            self.listener.taken(taken);
        }
    }

    fn take(&mut self, input: Input, jobs: &mut Vec<Box<dyn Job>>) {
        match input {
            Input::Job(job) => jobs.push(job),
            // Not now: a batch may be open.
            Input::NextDue(reply) => self.asked.push(reply),
            Input::Stop => self.stopping = true,
        }
    }

    fn tell_due(&mut self) {
        for reply in self.asked.drain(..) {
            let due = self.engine.next_due().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot tell what is due next");
                None
            });
            let _ = reply.send(due);
        }
    }

    /// Runs the jobs in one batch. If a verb panics, nothing was written, and each job gets a batch of its own.
    fn serve(&mut self, jobs: &mut Vec<Box<dyn Job>>, intake: Intake) {
        if jobs.is_empty() {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| self.batch(jobs, intake))) {
            Ok(Ok(done)) => {
                self.tell(&done);
                jobs.drain(..).for_each(Job::answer);
            }
            // Also when a newer build has taken the ledger where this one cannot follow.
            Ok(Err(
                error @ (StoreError::Fatal(_)
                | StoreError::Corrupt(_)
                | StoreError::NewerSchema { .. }),
            )) => self.listener.fatal(&error),
            Ok(Err(error)) => {
                let failure = self.failed(&error);
                jobs.drain(..).for_each(|job| job.fail(&failure));
            }
            Err(_) if jobs.len() == 1 => {
                tracing::error!("a verb panicked; nothing of it was written");
                self.undo();
                jobs.drain(..).for_each(|job| job.fail(&Failure::Panicked));
            }
            Err(_) => {
                self.undo();
                for job in jobs.drain(..) {
                    self.serve(&mut vec![job], Intake::Closed);
                }
            }
        }
    }

    fn failed(&mut self, error: &StoreError) -> Failure {
        self.undo();
        self.listener.failed(error);
        // While the ledger is away every batch fails: the first one tells.
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "a batch was not written");
        }
        if let StoreError::InDoubt(_) = error {
            tracing::warn!(%error, "nobody can tell whether a batch was written");
            return Failure::InDoubt(reason(error));
        }
        Failure::Unavailable(reason(error))
    }

    /// What is committed stays committed: from here on nothing may fail.
    fn tell(&mut self, done: &Done) {
        self.listener.committed(&Committed {
            now: done.now,
            at: done.at,
            log: self.slice.log(),
            notices: self.slice.notices(),
            slice: &self.slice,
            verbs: done.verbs,
            wrote: done.wrote,
            took: done.took,
        });
        self.slice.end_batch();
        if done.wrote && std::mem::take(&mut self.failing) {
            tracing::info!("batches are written again");
        }
    }

    fn undo(&mut self) {
        self.engine.rollback();
        if self.is_shared {
            // Signs of life too: another coordinator may have written later ones.
            self.slice = Slice::default();
        } else {
            self.slice.forget();
        }
    }

    fn batch(&mut self, jobs: &mut Vec<Box<dyn Job>>, intake: Intake) -> Result<Done, StoreError> {
        let begun = self.engine.begin(&mut self.slice)?;
        let (now, at) = (begun.now, Instant::now());
        if intake == Intake::Open {
            self.drain(jobs);
        }
        self.note_time(&begun);
        let mut rounds = ROUNDS_TOGETHER;
        for index in 0..jobs.len() {
            self.load_for(&jobs[index..], &mut rounds, now)?;
            if let Some(changes) = jobs[index].decide(&self.slice, now) {
                self.slice.apply(changes, now);
            }
        }
        let began = Instant::now();
        // What others count on may not be held back: they would take a live agent for silent.
        let all_pulses = self.is_shared;
        let wrote = self.slice.is_dirty(now) || (all_pulses && self.slice.holds_pulses());
        if wrote {
            let engine = &mut self.engine;
            self.slice
                .save_all(now, all_pulses, |save| engine.save(save))?;
            self.engine.commit()?;
        } else {
            self.engine.rollback();
        }
        Ok(Done {
            now,
            at,
            verbs: jobs.len(),
            wrote,
            took: began.elapsed(),
        })
    }

    /// A busy hub says by its batches that it serves. If nobody did for a while, silence counts from now on,
    /// before any verb looks at it.
    fn note_time(&mut self, begun: &Begun) {
        let due = begun.now.since(self.slice.head.served_at) >= limits::SERVED_EVERY;
        let serve = Serve { starting: false };
        if due && let Ok((_, changes)) = serve.decide(&self.slice, begun.now) {
            self.slice.apply(changes, begun.now);
        }
        if let Some(by_ms) = begun.clock_stepped_back_ms {
            tracing::warn!(
                by_ms,
                "the wall clock was set back by {by_ms} ms; the ledger's time goes on"
            );
            let events = vec![Event::ClockSteppedBack { by_ms }];
            self.slice.apply(
                Changes {
                    events,
                    ..Changes::default()
                },
                begun.now,
            );
        }
    }

    /// Sees to it that the first job finds all it asks for. When something is missing, what the jobs after it
    /// miss is loaded along, so that a batch costs as many rounds as its deepest verb. Later in a batch only
    /// what a verb before has changed is missing, and that each loads for itself.
    fn load_for(
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

    fn load(&mut self, asks: &[Ask]) -> Result<(), StoreError> {
        let engine = &mut self.engine;
        if asks.iter().any(Ask::is_range) && self.slice.has_unsaved_rows() {
            self.slice.save_rows(|save| engine.save(save))?;
        }
        engine.load(asks, &mut self.slice)
    }

    /// Writes the signs of life that were held back.
    fn flush(&mut self) {
        if !self.slice.holds_pulses() {
            return;
        }
        let written = self.engine.begin(&mut self.slice).and_then(|begun| {
            let engine = &mut self.engine;
            self.slice
                .save_all(begun.now, true, |save| engine.save(save))?;
            self.engine.commit()
        });
        if let Err(error) = written {
            tracing::warn!(%error, "the last signs of life were not written; agents get a new grace period at start");
            self.engine.rollback();
        }
    }
}

#[cfg(test)]
mod tests;
