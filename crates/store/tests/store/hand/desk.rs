//! A sequencer as small as it can be, with a client that writes into the same ledger by hand.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use switchboard_core::verb::{Finding, Gauge, HandStep, Note, Written};
use switchboard_core::{Ask, GatePolicy, LeasePath, Meaning, Message, Slice, Timestamp, To, Want};
use switchboard_store::conformance::{AnyVerb, Everything};
use switchboard_store::{Engine, ManualClock, Reader};

/// A ledger, and a hand beside it.
pub struct Desk<H> {
    pub clock: ManualClock,
    /// The working set is lost after each batch, as when somebody else writes in between.
    pub forgets: bool,
    engine: Box<dyn Engine>,
    reader: Box<dyn Reader>,
    slice: Slice,
    policy: Arc<GatePolicy>,
    pub hand: H,
}

const ROUNDS_MAX: usize = 1000;

impl<H> Desk<H> {
    pub fn open(open: impl FnOnce(&ManualClock) -> (Box<dyn Engine>, H)) -> Desk<H> {
        let clock = ManualClock::at(real_now());
        let (engine, hand) = open(&clock);
        Desk {
            reader: engine.reader().unwrap(),
            engine,
            hand,
            clock,
            forgets: false,
            slice: Slice::default(),
            policy: Arc::default(),
        }
    }

    pub fn everything(&self) -> Everything {
        Everything::read(&*self.reader)
    }

    /// Takes in all that was written by hand, at most `page` notes to a batch; then the verbs, in the last batch.
    pub fn run(&mut self, page: usize, verbs: &[&dyn AnyVerb]) -> Vec<String> {
        loop {
            if let (_, Some(replies)) = self.batch(page, verbs, &mut || {}) {
                return replies;
            }
        }
    }

    /// Takes in some notes and says how many; if there are no more, the verbs are decided too.
    /// `meanwhile` happens after the batch has begun.
    pub fn batch(
        &mut self,
        page: usize,
        verbs: &[&dyn AnyVerb],
        meanwhile: &mut dyn FnMut(),
    ) -> (usize, Option<Vec<String>>) {
        let begun = self.engine.begin(&mut self.slice).unwrap();
        meanwhile();
        let now = begun.now;
        let (mut notes, mut is_last) = (0, true);
        if begun.by_hand {
            let found = self.engine.hand_notes(page, &mut self.slice).unwrap();
            (notes, is_last) = (found.notes.len(), found.is_last);
            for note in &found.notes {
                self.take_in(note, now);
            }
        }
        let replies = is_last.then(|| verbs.iter().map(|verb| self.decide(*verb, now)).collect());
        let engine = &mut self.engine;
        let saved = self.slice.save_all(now, true, |save| engine.save(save));
        saved.unwrap();
        self.engine.commit().unwrap();
        self.slice.end_batch();
        if self.forgets {
            self.slice.forget();
        }
        (notes, replies)
    }

    fn decide(&mut self, verb: &dyn AnyVerb, now: Timestamp) -> String {
        self.load(|want| verb.asks(want, now));
        match verb.decide(&self.slice, now) {
            Ok((reply, changes)) => {
                self.slice.apply(changes, now);
                reply
            }
            Err(refusal) => refusal.to_string(),
        }
    }

    fn take_in(&mut self, note: &Note, now: Timestamp) {
        let mut why = None;
        let meant = |message: &Message| Ok((meaning(message)?, Vec::new()));
        let gauge = Gauge {
            policy: &self.policy,
            judge: &|_, _| Finding { breach: None },
        };
        for step in note.steps(gauge, &meant) {
            why = self.step(&*step, now);
            if why.is_some() {
                break;
            }
        }
        if let Written::Unreadable { why: reason, .. } = &note.written {
            why = Some(reason.clone());
        }
        if let Some(why) = why {
            self.slice.apply(note.undone(why), now);
        }
    }

    fn step(&mut self, step: &dyn HandStep, now: Timestamp) -> Option<String> {
        self.load(|want| step.asks(want, now));
        match step.decide(&self.slice, now) {
            Ok(changes) => {
                self.slice.apply(changes, now);
                None
            }
            Err(refusal) => Some(refusal.to_string()),
        }
    }

    fn load(&mut self, asks: impl Fn(&mut Want<'_>)) {
        for _ in 0..ROUNDS_MAX {
            let mut want = Want::new(&self.slice);
            asks(&mut want);
            let missing = want.into_asks();
            if missing.is_empty() {
                return;
            }
            let engine = &mut self.engine;
            if missing.iter().any(Ask::is_range) && self.slice.has_unsaved_rows() {
                self.slice.save_rows(|save| engine.save(save)).unwrap();
            }
            engine.load(&missing, &mut self.slice).unwrap();
        }
        panic!("it never stops asking");
    }
}

/// The triggers tell the time by the database's clock, so the ledger's begins there.
fn real_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap())
}

/// As whoever reads the payloads of the document's messages says it.
fn meaning(message: &Message) -> Result<Meaning, String> {
    let payload: Value = serde_json::from_str(&message.payload).map_err(|it| it.to_string())?;
    let named = |member: &str| {
        payload[member]
            .as_str()
            .ok_or(format!("{member} is required"))
    };
    match (message.kind.as_str(), &message.to) {
        ("task.handoff", _) => Ok(Meaning::Offer(named("taskId")?.into())),
        ("file.lock_request", To::Everyone) => {
            LeasePath::parse(named("filePath")?, "/").map(Meaning::Wants)
        }
        _ => Ok(Meaning::Nothing),
    }
}
