//! The one writer of a process: drains waiting verbs, decides each in turn, commits once, then answers all.
//!
//! While a commit waits for the disk, the next verbs gather: one sync serves everyone who waited for it. The same
//! while a batch waits for the ledger's head, which other coordinators may hold: who came meanwhile goes along.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use switchboard_core::event::Logged;
use switchboard_core::slice::Notices;
use switchboard_core::verb::{BeginEpoch, NoteStep, Serve};
use switchboard_core::{Changes, LaneKey, LedgerEpoch, Slice, Timestamp, Verb, Want, limits};
use switchboard_store::{Begun, Engine, Error as StoreError};
use tokio::sync::oneshot;

use crate::hub::reason;

/// Verbs decided in one transaction at the most.
pub const BATCH_MAX: usize = 512;
/// Rounds of a batch in which all its verbs ask.
const ROUNDS_TOGETHER: usize = 8;

/// What reaches the writer.
pub(crate) enum Input {
    Job(Box<dyn Job>),
    /// Of one batch, even if it grows beyond [`BATCH_MAX`] by them.
    Jobs(Vec<Box<dyn Job>>),
    NextDue(oneshot::Sender<Option<Timestamp>>),
    /// Somebody may have written into the ledger's tables by hand.
    Look,
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
    wall: Timestamp,
    at: Instant,
    verbs: usize,
    wrote: bool,
    took: Duration,
    /// The last event there is after it, and in which epoch of the ledger.
    latest: (LedgerEpoch, u64),
}

/// What the rest of the hub hears about a batch that was committed.
pub(crate) struct Committed<'a> {
    pub now: Timestamp,
    /// What the wall clock showed then.
    pub wall: Timestamp,
    /// When it was `now`.
    pub at: Instant,
    pub log: &'a [Logged],
    pub notices: &'a Notices,
    /// The keys of the lanes that tasks entered, once per task.
    pub readied: Vec<&'a LaneKey>,
    /// Where signs of life are held back; absent if all are written.
    pub pulses: Option<&'a Slice>,
    pub verbs: usize,
    pub wrote: bool,
    pub took: Duration,
    /// The last event there is after it, and in which epoch of the ledger.
    pub latest: (LedgerEpoch, u64),
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
    /// Somebody else wrote, perhaps by hand.
    looking: bool,
    adoption: Adoption,
    /// By how much the wall clock was set; told by the next batch that is written.
    clock_stepped_ms: i64,
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
    /// A commit begins to be waited for, or no longer is.
    fn commits(&self, is_under_way: bool);
    /// A batch was not written, or nobody knows.
    fn failed(&self, error: &StoreError);
    /// The ledger could not be asked: the next batch may fail as well.
    fn troubled(&self, error: &StoreError);
    /// The ledger can no longer be trusted to be durable. Does not return.
    fn fatal(&self, error: &StoreError) -> !;
}

impl<L: Listener> Sequencer<L> {
    pub fn new(
        engine: Box<dyn Engine>,
        input: Receiver<Input>,
        listener: L,
        adoption: Adoption,
    ) -> Self {
        Sequencer {
            is_shared: engine.is_shared(),
            engine,
            slice: Slice::default(),
            input,
            listener,
            asked: Vec::new(),
            stopping: false,
            failing: false,
            looking: false,
            adoption,
            clock_stepped_ms: 0,
        }
    }

    /// Serves until it is told to stop; everything that was accepted before is answered.
    pub fn run(mut self) {
        let mut jobs: Vec<Box<dyn Job>> = Vec::with_capacity(BATCH_MAX);
        while !self.stopping {
            self.next(&mut jobs);
            self.drain(&mut jobs);
            if !jobs.is_empty() || std::mem::take(&mut self.looking) {
                self.serve(&mut jobs, Intake::Open);
            }
            self.tell_due();
        }
        self.flush();
    }

    /// Waits for the next input.
    fn next(&mut self, jobs: &mut Vec<Box<dyn Job>>) {
        let input = match self.engine.looks_every() {
            Some(every) => self.input.recv_timeout(every),
            None => self.input.recv().map_err(RecvTimeoutError::from),
        };
        match input {
            Ok(input) => {
                self.listener.taken(1);
                self.take(input, jobs);
            }
            // A ledger that cannot be looked at says so at the next batch.
            Err(RecvTimeoutError::Timeout) => self.looking = self.engine.look().unwrap_or(false),
            Err(RecvTimeoutError::Disconnected) => self.stopping = true,
        }
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
            Input::Jobs(more) => jobs.extend(more),
            // Not now: a batch may be open.
            Input::NextDue(reply) => self.asked.push(reply),
            Input::Look => self.looking = true,
            Input::Stop => self.stopping = true,
        }
    }

    fn tell_due(&mut self) {
        for reply in self.asked.drain(..) {
            let due = self.engine.next_due().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot determine what is due next");
                self.listener.troubled(&error);
                None
            });
            let _ = reply.send(due);
        }
    }

    /// Runs the jobs in one batch. If a verb panics, nothing was written, and each job gets a batch of its own.
    fn serve(&mut self, jobs: &mut Vec<Box<dyn Job>>, intake: Intake) {
        match catch_unwind(AssertUnwindSafe(|| self.batch(jobs, intake))) {
            Ok(Ok(done)) => {
                self.tell(&done);
                jobs.drain(..).for_each(Job::answer);
            }
            Err(_) if self.adoption.panicked() => {
                self.undo();
                self.serve(jobs, intake);
            }
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
        // Also when a newer build or a move has taken the ledger where this one cannot follow.
        if let StoreError::Fatal(_)
        | StoreError::Corrupt(_)
        | StoreError::NewerSchema { .. }
        | StoreError::Moved(_) = error
        {
            self.listener.fatal(error);
        }
        self.undo();
        self.listener.failed(error);
        // While the ledger is away every batch fails: the first one tells.
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "a batch was not written");
        }
        if let StoreError::InDoubt(_) = error {
            tracing::warn!(%error, "it is unknown whether a batch was written");
            return Failure::InDoubt(reason(error));
        }
        Failure::Unavailable(reason(error))
    }

    /// What is committed stays committed: from here on nothing may fail.
    fn tell(&mut self, done: &Done) {
        self.listener.committed(&Committed {
            now: done.now,
            wall: done.wall,
            at: done.at,
            log: self.slice.log(),
            notices: self.slice.notices(),
            readied: self.readied().collect(),
            pulses: Some(&self.slice),
            verbs: done.verbs,
            wrote: done.wrote,
            took: done.took,
            latest: done.latest,
        });
        self.slice.end_batch();
        if done.wrote && std::mem::take(&mut self.failing) {
            tracing::info!("batches are written again");
        }
    }

    /// The keys of the lanes that tasks entered in this batch, once per task.
    fn readied(&self) -> impl Iterator<Item = &LaneKey> {
        let lanes = self.slice.notices().readied.iter();
        let lanes = lanes.filter_map(|id| self.slice.lanes.get(*id));
        lanes.map(|lane| &lane.key)
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
        loop {
            let begun = self.engine.begin(&mut self.slice)?;
            let at = Instant::now();
            if intake == Intake::Open {
                self.drain(jobs);
            }
            if let Some(rewound) = begun.rewound {
                self.begin_epoch(rewound, begun.now)?;
            }
            self.note_time(&begun)?;
            if !begun.by_hand || self.adopt(begun.now)? {
                self.decide(jobs, begun.now)?;
                return self.save(jobs.len(), &begun, at);
            }
            let done = self.save(0, &begun, at)?;
            self.tell(&done);
        }
    }

    fn decide(&mut self, jobs: &mut [Box<dyn Job>], now: Timestamp) -> Result<(), StoreError> {
        let mut rounds = ROUNDS_TOGETHER;
        for index in 0..jobs.len() {
            self.load_for(&jobs[index..], &mut rounds, now)?;
            if let Some(changes) = jobs[index].decide(&self.slice, now) {
                self.slice.apply(changes, now);
            }
        }
        Ok(())
    }

    fn save(&mut self, verbs: usize, begun: &Begun, at: Instant) -> Result<Done, StoreError> {
        let now = begun.now;
        let saved_at = Instant::now();
        // What others count on may not be held back: they would take a live agent for silent.
        let all_pulses = self.is_shared;
        let wrote = self.slice.is_dirty(now) || (all_pulses && self.slice.holds_pulses());
        if wrote {
            let engine = &mut self.engine;
            self.slice
                .save_all(now, all_pulses, |save| engine.save(save))?;
            self.listener.commits(true);
            let committed = self.engine.commit();
            self.listener.commits(false);
            committed?;
            self.clock_stepped_ms = 0;
        } else {
            self.engine.end_unwritten()?;
        }
        Ok(Done {
            now,
            wall: begun.wall,
            at,
            verbs,
            wrote,
            took: saved_at.elapsed(),
            latest: (self.slice.head.epoch, self.slice.head.seq),
        })
    }

    /// A busy hub says by its batches that it serves. If nobody did for a while, silence counts from now on,
    /// before any verb looks at it.
    fn note_time(&mut self, begun: &Begun) -> Result<(), StoreError> {
        if begun.now.since(self.slice.head.served_at) >= limits::SERVED_EVERY {
            self.note(&Serve { starting: false }, begun.now)?;
        }
        if let Some(by_ms) = begun.clock_stepped_ms {
            tracing::error!(
                by_ms,
                "the wall clock jumped by {by_ms} ms; the ledger's time follows it by at most 1 s every 10 s. If the clock is right \
                 now, restart the hub with --clock-is-right"
            );
            self.clock_stepped_ms = self.clock_stepped_ms.saturating_add(by_ms);
        }
        match self.clock_stepped_ms {
            0 => Ok(()),
            by_ms => self.note(&NoteStep { by_ms }, begun.now),
        }
    }

    /// Runs a verb that nobody waits for.
    fn note(&mut self, verb: &impl Verb, now: Timestamp) -> Result<(), StoreError> {
        loop {
            let mut want = Want::new(&self.slice);
            verb.asks(&mut want, now);
            if want.is_satisfied() {
                break;
            }
            self.load(&want.into_asks())?;
        }
        if let Ok((_, changes)) = verb.decide(&self.slice, now) {
            self.slice.apply(changes, now);
        }
        Ok(())
    }

    /// Others may have acted by what the ledger no longer has: it says so before anything else.
    fn begin_epoch(&mut self, rewound: BeginEpoch, now: Timestamp) -> Result<(), StoreError> {
        let BeginEpoch { told, common } = rewound;
        tracing::error!(
            told,
            common,
            "the database lost acknowledged changes, as after a failover to a standby that had not received them: events up to \
             {told} were acknowledged, but only those up to {common} are still there; a new epoch begins"
        );
        self.note(&rewound, now)
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
            tracing::warn!(%error, "the last heartbeats were not written; agents get a new grace period after the next start");
            self.engine.rollback();
        }
    }
}

mod adopt;
mod load;
#[cfg(test)]
mod tests;

pub(crate) use adopt::Adoption;
