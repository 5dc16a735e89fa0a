//! What goes into a batch, and what becomes of it when the world fails; on an engine that does as it was told.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use switchboard_core::Ask;
use switchboard_core::event::Event;
use switchboard_core::slice::Save;
use switchboard_store::memory::MemoryEngine;
use switchboard_store::{ManualClock, Reader};

use super::*;

/// What happened, in order.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// What was noted that begins so.
    fn of(&self, start: &str) -> Vec<String> {
        let all = self.all().into_iter();
        all.filter(|what| what.starts_with(start)).collect()
    }
}

struct Scripted {
    inner: MemoryEngine,
    record: Record,
    input: SyncSender<Input>,
    /// What arrives while a batch waits for the head, batch by batch.
    arrives: VecDeque<Vec<Input>>,
    commits: VecDeque<Result<(), StoreError>>,
    events: usize,
    is_open: bool,
    is_shared: bool,
}

impl Engine for Scripted {
    fn begin(&mut self, slice: &mut Slice) -> Result<Begun, StoreError> {
        for input in self.arrives.pop_front().into_iter().flatten() {
            self.input.try_send(input).unwrap();
        }
        self.is_open = true;
        self.events = 0;
        self.inner.begin(slice)
    }

    fn load(&mut self, asks: &[Ask], slice: &mut Slice) -> Result<(), StoreError> {
        self.inner.load(asks, slice)
    }

    fn save(&mut self, save: &Save<'_>) -> Result<(), StoreError> {
        self.events = save.log.len();
        self.inner.save(save)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.commits.pop_front().unwrap_or(Ok(()))?;
        self.is_open = false;
        self.record.note(format!("commit of {}", self.events));
        self.inner.commit()
    }

    fn rollback(&mut self) {
        self.is_open = false;
        self.inner.rollback();
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, StoreError> {
        assert!(!self.is_open, "a batch is open");
        self.record.note("asked for what is due");
        self.inner.next_due()
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        self.inner.reader()
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

/// Leaves one event, unless it panics.
struct Note {
    name: &'static str,
    panics: bool,
    record: Record,
}

impl Job for Note {
    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&mut self, _slice: &Slice, _now: Timestamp) -> Option<Changes> {
        assert!(!self.panics, "as it was told");
        let events = vec![Event::TokenCreated {
            name: self.name.to_owned(),
            scope: "sql".to_owned(),
        }];
        Some(Changes {
            events,
            ..Changes::default()
        })
    }

    fn answer(self: Box<Self>) {
        self.record.note(format!("{} done", self.name));
    }

    fn fail(self: Box<Self>, failure: &Failure) {
        let how = match failure {
            Failure::Unavailable(_) => "unavailable",
            Failure::InDoubt(_) => "in doubt",
            Failure::Panicked => "panicked",
        };
        self.record.note(format!("{} {how}", self.name));
    }
}

struct Ears(Record);

impl Listener for Ears {
    fn taken(&self, inputs: usize) {
        for _ in 0..inputs {
            self.0.note("taken");
        }
    }

    fn committed(&self, batch: &Committed<'_>) {
        self.0.note(format!("batch of {}", batch.verbs));
    }

    fn commits(&self, _is_under_way: bool) {}

    fn failed(&self, _error: &StoreError) {
        self.0.note("failed");
    }

    fn troubled(&self, _error: &StoreError) {}

    fn fatal(&self, error: &StoreError) -> ! {
        panic!("{error}");
    }
}

/// A writer with inputs that wait already, those that arrive while it begins, and how its commits end.
struct Script {
    record: Record,
    first: Vec<Input>,
    arrives: Vec<Vec<Input>>,
    commits: Vec<Result<(), StoreError>>,
}

impl Script {
    fn new() -> Self {
        Script {
            record: Record::default(),
            first: Vec::new(),
            arrives: Vec::new(),
            commits: Vec::new(),
        }
    }

    fn note(&self, name: &'static str) -> Input {
        self.job(name, false)
    }

    fn job(&self, name: &'static str, panics: bool) -> Input {
        let record = self.record.clone();
        Input::Job(Box::new(Note {
            name,
            panics,
            record,
        }))
    }

    /// Jobs that belong together.
    fn page(&self, count: usize) -> Input {
        let note = |_| -> Box<dyn Job> {
            let record = self.record.clone();
            Box::new(Note {
                name: "of a page",
                panics: false,
                record,
            })
        };
        Input::Jobs((0..count).map(note).collect())
    }

    fn run(self) -> Record {
        let (sender, receiver) = sync_channel(2 * BATCH_MAX + 16);
        for input in self.first {
            sender.try_send(input).unwrap();
        }
        let engine = Scripted {
            inner: MemoryEngine::new(Box::new(ManualClock::at(Timestamp(1_000_000)))),
            record: self.record.clone(),
            input: sender,
            arrives: self.arrives.into(),
            commits: self.commits.into(),
            events: 0,
            is_open: false,
            is_shared: true,
        };
        let ears = Ears(self.record.clone());
        let adoption = Adoption::new(Arc::default(), "/".to_owned());
        Sequencer::new(Box::new(engine), receiver, ears, adoption).run();
        self.record
    }
}

#[test]
fn a_batch_takes_along_who_comes_while_it_waits_for_the_head() {
    let due = || Input::NextDue(oneshot::channel().0);
    let mut script = Script::new();
    script.first = vec![script.note("a"), due()];
    script.arrives = vec![vec![
        script.note("b"),
        script.note("c"),
        due(),
        script.note("d"),
        Input::Stop,
    ]];
    let record = script.run();
    assert_eq!(record.of("commit of"), ["commit of 4"]);
    assert_eq!(record.of("batch of"), ["batch of 4"]);
    assert_eq!(record.of("taken").len(), 7);
    let all = record.all();
    let place = |what: &str| all.iter().position(|found| found == what).unwrap();
    assert_eq!(record.of("asked").len(), 2);
    assert!(place("d done") < place("asked for what is due"));
}

#[test]
fn a_batch_takes_no_more_than_its_measure() {
    for more in [BATCH_MAX - 1, BATCH_MAX] {
        let mut script = Script::new();
        script.first = vec![script.note("a")];
        let mut arrives: Vec<Input> = (0..more).map(|_| script.note("b")).collect();
        arrives.push(Input::Stop);
        script.arrives = vec![arrives];
        let record = script.run();
        let mut batches = vec![format!("batch of {BATCH_MAX}")];
        if more == BATCH_MAX {
            batches.push("batch of 1".to_owned());
        }
        assert_eq!(record.of("batch of"), batches);
        assert_eq!(record.of("taken").len(), more + 2);
    }
}

#[test]
fn what_belongs_together_is_one_batch_however_much_is_in_it_already() {
    let mut script = Script::new();
    script.first = vec![script.note("a")];
    let mut arrives: Vec<Input> = (2..BATCH_MAX).map(|_| script.note("b")).collect();
    arrives.extend([script.page(256), script.note("c"), Input::Stop]);
    script.arrives = vec![arrives];
    let record = script.run();
    let whole = BATCH_MAX - 1 + 256;
    let batches = [format!("batch of {whole}"), "batch of 1".to_owned()];
    assert_eq!(record.of("batch of"), batches);
}

#[test]
fn what_is_behind_the_order_to_stop_is_not_taken_along() {
    let mut script = Script::new();
    script.first = vec![script.note("a")];
    script.arrives = vec![vec![Input::Stop, script.note("late")]];
    let record = script.run();
    assert_eq!(record.of("commit of"), ["commit of 1"]);
    assert_eq!(record.of("late"), [] as [&str; 0]);
}

#[test]
fn a_batch_that_fails_fails_for_the_late_ones_too() {
    let away = || StoreError::Unavailable("away".to_owned());
    let lost = || StoreError::InDoubt("cut".to_owned());
    for (error, how) in [(away(), "unavailable"), (lost(), "in doubt")] {
        let mut script = Script::new();
        script.first = vec![script.note("a")];
        let due = Input::NextDue(oneshot::channel().0);
        script.arrives = vec![vec![script.note("b"), due, Input::Stop]];
        script.commits = vec![Err(error)];
        let record = script.run();
        for name in ["a", "b"] {
            assert_eq!(record.of(&format!("{name} ")), [format!("{name} {how}")]);
        }
        assert_eq!(record.of("failed").len(), 1);
        assert_eq!(record.of("commit of"), [] as [&str; 0]);
        assert_eq!(record.of("asked").len(), 1);
    }
}

#[test]
fn after_a_panic_each_gets_a_batch_of_its_own_and_nobody_joins() {
    let mut script = Script::new();
    script.first = vec![script.note("a"), script.job("b", true)];
    script.arrives = vec![
        vec![script.note("c")],
        // While the first of them begins alone.
        vec![script.note("d"), Input::Stop],
    ];
    let record = script.run();
    assert_eq!(record.of("b "), ["b panicked"]);
    assert_eq!(record.of("commit of"), ["commit of 1"; 3]);
    for name in ["a", "c", "d"] {
        assert_eq!(record.of(&format!("{name} ")), [format!("{name} done")]);
    }
}
