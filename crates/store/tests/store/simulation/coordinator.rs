//! Coordinators of one ledger: each with a working set of its own, any of them may crash or freeze at any moment.

use std::time::Duration;

use switchboard_core::verb::{
    EndOverdue, ExpireLeases, ExpireMessages, GrantBudgets, MarkSilent, ReleaseRetries, Serve,
    Sweep,
};
use switchboard_core::{Changes, Refusal, Slice, Timestamp, Verb, Want, limits};
use switchboard_store::conformance::{self, Ledger, Random};
use switchboard_store::{Engine, ManualClock, Reader};

use super::call::{Answer, Call};
use super::laws::ServedSince;

/// Opens the one ledger for one more coordinator.
pub type Open = Box<dyn Fn(&ManualClock) -> Box<dyn Engine>>;

pub struct Coordinators {
    open: Open,
    clock: ManualClock,
    /// What anyone sees, whoever is up.
    pub reader: Box<dyn Reader>,
    all: Vec<Coordinator>,
    pub served_since: ServedSince,
    served_at: Timestamp,
}

struct Coordinator {
    /// Absent while it is down.
    ledger: Option<Ledger>,
    /// When it comes back, or wakes.
    away_until: Timestamp,
    waiting: Vec<Call>,
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Told {
    Answer(Result<Answer, Refusal>),
    /// It may have happened.
    Nothing,
}

/// What a batch ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answers,
    CrashBeforeCommit,
    CrashAfterCommit,
}

/// A call whose outcome the simulation knows, whatever its agent was told.
pub struct Handled {
    pub call: Call,
    /// As committed; absent if it was not.
    pub real: Option<Result<Answer, Refusal>>,
    pub told: Told,
}

impl Coordinators {
    pub fn new(open: Open, clock: &ManualClock, count: usize) -> Coordinators {
        let all = (0..count).map(|_| Coordinator {
            ledger: None,
            away_until: Timestamp::ZERO,
            waiting: Vec::new(),
        });
        let reader = open(clock).reader().expect("the ledger can be read");
        Coordinators {
            open,
            clock: clock.clone(),
            reader,
            all: all.collect(),
            served_since: ServedSince::default(),
            served_at: Timestamp::ZERO,
        }
    }

    /// Hands a call to a coordinator; whether it arrives is another matter.
    pub fn send(&mut self, call: Call, random: &mut Random) {
        let to = random.below(self.all.len() as u64) as usize;
        self.all[to].waiting.push(call);
    }

    /// Everything that happens in one tick. Without `chaos` nothing breaks.
    pub fn tick(&mut self, now: Timestamp, random: &mut Random, chaos: bool) -> Vec<Handled> {
        let mut handled = Vec::new();
        for at in 0..self.all.len() {
            let calls = std::mem::take(&mut self.all[at].waiting);
            if !chaos {
                self.all[at].away_until = self.all[at].away_until.min(now);
            }
            if self.all[at].away_until > now {
                handled.extend(calls.into_iter().map(Handled::lost));
                continue;
            }
            self.start(at, now);
            let fate = match random.below(400) {
                0 if chaos => Fate::CrashBeforeCommit,
                1 if chaos => Fate::CrashAfterCommit,
                _ => Fate::Answers,
            };
            handled.extend(self.batch(at, calls, fate, now, random, chaos));
            if self.all[at].ledger.is_some() && random.percent(40) {
                self.sweep(at, now, random, chaos);
            }
            if chaos && random.below(200) == 0 {
                // Frozen, with all that it remembers.
                self.all[at].away_until = now + Duration::from_millis(random.below(200_000));
            }
        }
        handled
    }

    fn start(&mut self, at: usize, now: Timestamp) {
        if self.all[at].ledger.is_some() {
            return;
        }
        let ledger = Ledger::new((self.open)(&self.clock));
        // Who is alone holds signs of life back.
        let mut ledger = match self.all.len() {
            1 => ledger.with_late_pulses(),
            _ => ledger,
        };
        let started = ledger.run(Serve { starting: true });
        started.expect("a start is not refused");
        self.all[at].ledger = Some(ledger);
        self.served_at = now;
        self.serves_anew(now);
    }

    /// Somebody serves at this moment.
    fn serves(&mut self, now: Timestamp) {
        if now.since(self.served_at) > limits::SERVED_GAP_MAX {
            self.serves_anew(now);
        }
        self.served_at = now;
    }

    fn serves_anew(&mut self, now: Timestamp) {
        let head = self.reader.head().expect("the ledger can be read");
        self.served_since.begin(head.seq, now);
    }

    fn crash(&mut self, at: usize, now: Timestamp, random: &mut Random) {
        let down = match random.below(3) {
            0 => 100,
            1 => random.below(20_000),
            _ => random.below(400_000),
        };
        self.all[at].ledger = None;
        self.all[at].away_until = now + Duration::from_millis(down);
    }

    fn batch(
        &mut self,
        at: usize,
        calls: Vec<Call>,
        fate: Fate,
        now: Timestamp,
        random: &mut Random,
        chaos: bool,
    ) -> Vec<Handled> {
        let Some(ledger) = &mut self.all[at].ledger else {
            return calls.into_iter().map(Handled::lost).collect();
        };
        let mut turn = vec![Turn::NoteTime];
        turn.extend(calls.iter().cloned().map(Box::new).map(Turn::Call));
        if fate == Fate::CrashBeforeCommit {
            let verbs: Vec<&dyn conformance::AnyVerb> = turn
                .iter()
                .map(|verb| verb as &dyn conformance::AnyVerb)
                .collect();
            ledger.run_in_vain(&verbs);
            self.crash(at, now, random);
            return calls.into_iter().map(Handled::lost).collect();
        }
        let mut replies = ledger.run_each(&turn).into_iter();
        replies.next();
        self.serves(now);
        if fate == Fate::CrashAfterCommit {
            self.crash(at, now, random);
        }
        let handled = calls.into_iter().zip(replies).map(|(call, reply)| {
            let real = reply.map(|answer| answer.expect("a call is answered"));
            let is_lost = fate == Fate::CrashAfterCommit || (chaos && random.percent(7));
            let told = match is_lost {
                true => Told::Nothing,
                false => Told::Answer(real.clone()),
            };
            Handled {
                call,
                real: Some(real),
                told,
            }
        });
        handled.collect()
    }

    /// The caretaker's round, which a crash may end anywhere.
    fn sweep(&mut self, at: usize, now: Timestamp, random: &mut Random, chaos: bool) {
        for step in 0..6 {
            if chaos && random.below(5_000) == 0 {
                self.crash(at, now, random);
                return;
            }
            let Some(ledger) = &mut self.all[at].ledger else {
                return;
            };
            let note = ledger.run_each(&[Turn::NoteTime]);
            assert!(note[0].is_ok(), "telling the time is not refused");
            match step {
                0 => steps(ledger, ReleaseRetries),
                1 => steps(ledger, ExpireLeases),
                2 => steps(ledger, ExpireMessages),
                3 => steps(ledger, EndOverdue),
                4 => steps(ledger, MarkSilent),
                _ => {
                    let granted = ledger.run(GrantBudgets);
                    granted.expect("a caretaker is not refused");
                }
            }
            self.serves(now);
        }
    }
}

fn steps<V: Verb<Reply = Sweep> + Copy>(ledger: &mut Ledger, verb: V) {
    while ledger.run(verb).expect("a caretaker is not refused").more {}
}

impl Handled {
    fn lost(call: Call) -> Handled {
        Handled {
            call,
            real: None,
            told: Told::Nothing,
        }
    }
}

/// What a batch is made of: like the hub's, it first notes that the ledger is served.
#[derive(Debug)]
enum Turn {
    NoteTime,
    Call(Box<Call>),
}

impl Verb for Turn {
    type Reply = Option<Answer>;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        match self {
            Turn::NoteTime => {}
            Turn::Call(call) => call.asks(want, now),
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Option<Answer>, Changes), Refusal> {
        match self {
            Turn::NoteTime if now.since(slice.head.served_at) < limits::SERVED_EVERY => {
                Ok((None, Changes::default()))
            }
            Turn::NoteTime => {
                let (_, changes) = Serve { starting: false }.decide(slice, now)?;
                Ok((None, changes))
            }
            Turn::Call(call) => {
                let (answer, changes) = call.decide(slice, now)?;
                Ok((Some(answer), changes))
            }
        }
    }
}
