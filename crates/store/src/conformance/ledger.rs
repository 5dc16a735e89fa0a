//! A sequencer as small as it can be: one engine, one working set, verbs one by one or in batches.

use std::cell::OnceCell;
use std::fmt::Debug;
use std::rc::Rc;

use switchboard_core::slice::Save;
use switchboard_core::{Ask, Changes, Refusal, Slice, Timestamp, Verb, Want};

use super::random::Random;
use crate::{Engine, Error, Reader};

/// Runs verbs on an engine and panics when the engine fails.
pub struct Ledger {
    engine: Box<dyn Engine>,
    reader: OnceCell<Rc<dyn Reader>>,
    slice: Slice,
    cache: Cache,
    late_pulses: bool,
}

/// What becomes of the working set between batches.
#[derive(Clone, Debug)]
pub enum Cache {
    Kept,
    Forgotten,
    ForgottenAtRandom(Random),
}

/// Any verb, with its reply as text.
pub trait AnyVerb: Debug {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp);
    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(String, Changes), Refusal>;
}

impl<V: Verb + Debug> AnyVerb for V
where
    V::Reply: Debug,
{
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(self, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(String, Changes), Refusal> {
        let (reply, changes) = Verb::decide(self, slice, now)?;
        Ok((format!("{reply:?}"), changes))
    }
}

/// Asks are answered in a few rounds; a verb that goes on asking is broken.
const ROUNDS_MAX: usize = 10_000;

impl Ledger {
    pub fn new(engine: Box<dyn Engine>) -> Self {
        Ledger {
            engine,
            reader: OnceCell::new(),
            slice: Slice::default(),
            cache: Cache::Kept,
            late_pulses: false,
        }
    }

    pub fn with_cache(self, cache: Cache) -> Self {
        Ledger { cache, ..self }
    }

    /// Holds signs of life back as a busy hub does; otherwise every batch writes them.
    pub fn with_late_pulses(self) -> Self {
        Ledger {
            late_pulses: true,
            ..self
        }
    }

    /// One verb in a batch of its own.
    pub fn run<V: Verb>(&mut self, verb: V) -> Result<V::Reply, Refusal> {
        let now = self.begin();
        self.load_until(now, |want| verb.asks(want, now));
        let decided = verb.decide(&self.slice, now);
        let reply = decided.map(|(reply, changes)| {
            self.slice.apply(changes, now);
            reply
        });
        self.end(now);
        reply
    }

    /// Several verbs in one batch: all are loaded for first, then each is decided in turn.
    pub fn run_batch(&mut self, verbs: &[&dyn AnyVerb]) -> Vec<Result<String, Refusal>> {
        let now = self.begin();
        let replies = self.decide_all(verbs, now);
        self.end(now);
        replies
    }

    /// The same for verbs of one type, whose replies stay what they are.
    pub fn run_each<V: Verb>(&mut self, verbs: &[V]) -> Vec<Result<V::Reply, Refusal>> {
        let now = self.begin();
        let mut replies = Vec::with_capacity(verbs.len());
        for verb in verbs {
            self.load_until(now, |want| verb.asks(want, now));
            let decided = verb.decide(&self.slice, now);
            replies.push(decided.map(|(reply, changes)| {
                self.slice.apply(changes, now);
                reply
            }));
        }
        self.end(now);
        replies
    }

    /// The same, saved and then rolled back.
    pub fn run_in_vain(&mut self, verbs: &[&dyn AnyVerb]) -> Vec<Result<String, Refusal>> {
        let now = self.begin();
        let replies = self.decide_all(verbs, now);
        let engine = &mut self.engine;
        must(
            "save",
            self.slice.save_all(now, true, |save| engine.save(save)),
        );
        self.engine.rollback();
        self.slice = Slice::default();
        replies
    }

    /// Answers asks into an empty working set and hands it over.
    pub fn look(&mut self, asks: &[Ask]) -> Slice {
        let mut slice = Slice::default();
        must("begin", self.engine.begin(&mut slice));
        must("load", self.engine.load(asks, &mut slice));
        self.engine.rollback();
        slice
    }

    pub fn reader(&self) -> Rc<dyn Reader> {
        let open = || must("open a reader", self.engine.reader()).into();
        Rc::clone(self.reader.get_or_init(open))
    }

    pub fn engine(&mut self) -> &mut dyn Engine {
        &mut *self.engine
    }

    /// The working set as the last batch left it.
    pub fn slice(&self) -> &Slice {
        &self.slice
    }

    fn begin(&mut self) -> Timestamp {
        let forget = match &mut self.cache {
            Cache::Kept => false,
            Cache::Forgotten => true,
            Cache::ForgottenAtRandom(random) => random.percent(30),
        };
        if forget {
            self.slice.forget();
        }
        must("begin", self.engine.begin(&mut self.slice)).now
    }

    fn decide_all(
        &mut self,
        verbs: &[&dyn AnyVerb],
        now: Timestamp,
    ) -> Vec<Result<String, Refusal>> {
        self.load_until(now, |want| {
            for verb in verbs {
                verb.asks(want, now);
            }
        });
        let mut replies = Vec::with_capacity(verbs.len());
        for verb in verbs {
            // What an earlier verb changed may have to be read anew.
            self.load_until(now, |want| verb.asks(want, now));
            let decided = verb.decide(&self.slice, now);
            replies.push(decided.map(|(reply, changes)| {
                self.slice.apply(changes, now);
                reply
            }));
        }
        replies
    }

    fn load_until(&mut self, now: Timestamp, asks: impl Fn(&mut Want<'_>)) {
        for _ in 0..ROUNDS_MAX {
            let mut want = Want::new(&self.slice);
            asks(&mut want);
            let mut missing = want.into_asks();
            if missing.is_empty() {
                return;
            }
            let mut seen = std::collections::HashSet::new();
            missing.retain(|ask| seen.insert(ask.clone()));
            let engine = &mut self.engine;
            if self.slice.has_unsaved_rows() && missing.iter().any(Ask::is_range) {
                must("save", self.slice.save_rows(|save| engine.save(save)));
            }
            must("load", engine.load(&missing, &mut self.slice));
        }
        panic!("at {now:?} a verb goes on asking: its asks are not answered by loading them");
    }

    fn end(&mut self, now: Timestamp) {
        let all_pulses = !self.late_pulses;
        let pulses = all_pulses && self.slice.holds_pulses();
        if self.slice.is_dirty(now) || pulses {
            let engine = &mut self.engine;
            let write = |save: &Save<'_>| engine.save(save);
            must("save", self.slice.save_all(now, all_pulses, write));
            must("commit", self.engine.commit());
        } else {
            self.engine.rollback();
        }
        self.slice.end_batch();
    }
}

pub(super) fn must<T>(what: &str, done: Result<T, Error>) -> T {
    match done {
        Ok(value) => value,
        Err(error) => panic!("the engine could not {what}: {error}"),
    }
}
