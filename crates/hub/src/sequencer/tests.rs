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
    loads: VecDeque<Result<(), StoreError>>,
    /// How commits end that are sent ahead; past these none is.
    ahead: VecDeque<Result<bool, StoreError>>,
    under_way: bool,
    is_confirmed: bool,
    /// The head comes at once.
    is_soon: bool,
    /// What arrives while a commit is under way.
    meanwhile: Vec<Input>,
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
        self.loads.pop_front().unwrap_or(Ok(()))?;
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

    fn commit_ahead(&mut self) -> Result<bool, StoreError> {
        assert!(!self.under_way, "one at a time");
        if self.ahead.is_empty() {
            return self.commit().map(|()| false);
        }
        self.under_way = true;
        self.is_open = false;
        self.record.note(format!("sent {}", self.events));
        self.inner.commit().map(|()| true)
    }

    fn wait(&mut self, _word: &Word) -> bool {
        let is_over = self.meanwhile.is_empty();
        for input in self.meanwhile.drain(..) {
            self.input.try_send(input).unwrap();
        }
        is_over
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        assert!(std::mem::take(&mut self.under_way), "it was sent");
        self.record.note("settled");
        self.is_confirmed = self.ahead.pop_front().unwrap()?;
        Ok(())
    }

    fn confirm(&mut self, within: Duration) -> Option<bool> {
        if within == HEAD_SOON && !self.is_soon {
            return None;
        }
        self.record.note("confirmed");
        // Asked again it has nothing to object.
        Some(std::mem::replace(&mut self.is_confirmed, true))
    }

    fn rollback(&mut self) {
        self.is_open = false;
        self.inner.rollback();
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>, StoreError> {
        assert!(!self.is_open && !self.under_way, "a batch is open");
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
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if self.name == "asks" {
            want.agent(&"somebody".into());
        }
    }

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

struct Ears(Record, Word);

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

    fn word(&self) -> &Word {
        &self.1
    }

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
    loads: Vec<Result<(), StoreError>>,
    /// Each with whether the batch begun after it may go on.
    ahead: Vec<Result<bool, StoreError>>,
    meanwhile: Vec<Input>,
    is_soon: bool,
}

impl Script {
    fn new() -> Self {
        Script {
            record: Record::default(),
            first: Vec::new(),
            arrives: Vec::new(),
            commits: Vec::new(),
            loads: Vec::new(),
            ahead: Vec::new(),
            meanwhile: Vec::new(),
            is_soon: false,
        }
    }

    /// One batch is sent ahead and ends so; the next begins while it is under way.
    fn two_batches(end: Result<bool, StoreError>, is_soon: bool) -> Record {
        let mut script = Script::new();
        script.is_soon = is_soon;
        let more = (0..BATCH_MAX).map(|_| script.note("a"));
        script.first = more.chain([script.note("b")]).collect();
        script.ahead = vec![end];
        script.arrives = vec![vec![], vec![script.note("c")]];
        script.meanwhile = vec![script.note("d"), Input::Stop];
        script.run()
    }

    fn note(&self, name: &'static str) -> Input {
        self.job(name, false)
    }

    fn job(&self, name: &'static str, panics: bool) -> Input {
        Input::Job(Box::new(Note {
            name,
            panics,
            record: self.record.clone(),
        }))
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
            loads: self.loads.into(),
            ahead: self.ahead.into(),
            under_way: false,
            is_confirmed: true,
            is_soon: self.is_soon,
            meanwhile: self.meanwhile,
            events: 0,
            is_open: false,
            is_shared: true,
        };
        let ears = Ears(self.record.clone(), Word::new());
        Sequencer::new(Box::new(engine), receiver, ears, Arc::default()).run();
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

#[test]
fn the_next_batch_is_decided_while_one_is_under_way_and_written_after_it() {
    for is_soon in [true, false] {
        let record = Script::two_batches(Ok(true), is_soon);
        let all = record.all();
        let place = |what: &str| all.iter().position(|found| found == what).unwrap();
        assert_eq!(record.of("sent"), [format!("sent {BATCH_MAX}")]);
        // It took along who came before and after it began.
        assert_eq!(record.of("commit of"), ["commit of 3"]);
        assert!(place("settled") < place("a done"));
        assert!(place("settled") < place("commit of 3"));
        assert!(place("confirmed") < place("commit of 3"));
        assert!(place("commit of 3") < place("b done"));
        // Nobody waits for a head that others hold.
        assert_eq!(place("confirmed") < place("a done"), is_soon);
        assert_eq!(record.of("a "), ["a done"; BATCH_MAX]);
        assert_eq!(record.of("failed"), [] as [&str; 0]);
    }
}

#[test]
fn a_batch_that_counted_on_another_starts_over_when_that_one_failed() {
    let away = || StoreError::Unavailable("away".to_owned());
    let lost = || StoreError::InDoubt("cut".to_owned());
    for (error, how) in [(away(), "unavailable"), (lost(), "in doubt")] {
        let record = Script::two_batches(Err(error), true);
        assert_eq!(record.of("a "), vec![format!("a {how}"); BATCH_MAX]);
        assert_eq!(
            record.of("commit of"),
            ["commit of 3"],
            "what is left, once"
        );
        for name in ["b", "c", "d"] {
            assert_eq!(record.of(&format!("{name} ")), [format!("{name} done")]);
        }
    }
}

#[test]
fn a_batch_that_counted_on_another_starts_over_when_somebody_else_wrote_in_between() {
    for is_soon in [true, false] {
        let record = Script::two_batches(Ok(false), is_soon);
        assert_eq!(record.of("a "), ["a done"; BATCH_MAX]);
        assert_eq!(record.of("commit of"), ["commit of 3"]);
        for name in ["b", "c", "d"] {
            assert_eq!(record.of(&format!("{name} ")), [format!("{name} done")]);
        }
        assert_eq!(record.of("failed"), [] as [&str; 0]);
    }
}

#[test]
fn a_panic_beside_a_batch_that_is_under_way_does_not_touch_it() {
    let mut script = Script::new();
    let more = (0..BATCH_MAX).map(|_| script.note("a"));
    let rest = [script.job("b", true), script.note("c"), Input::Stop];
    script.first = more.chain(rest).collect();
    script.ahead = vec![Ok(true)];
    let record = script.run();
    assert_eq!(record.of("a "), ["a done"; BATCH_MAX]);
    assert_eq!(record.of("b "), ["b panicked"]);
    assert_eq!(record.of("c "), ["c done"]);
}

#[test]
fn a_load_that_fails_in_a_batch_whose_ground_has_gone_is_not_told() {
    for is_confirmed in [true, false] {
        let mut script = Script::new();
        let more = (0..BATCH_MAX).map(|_| script.note("a"));
        let rest = [script.job("asks", false), Input::Stop];
        script.first = more.chain(rest).collect();
        script.ahead = vec![Ok(is_confirmed)];
        script.loads = vec![Err(StoreError::Unavailable("stale".to_owned()))];
        let record = script.run();
        let how = if is_confirmed { "unavailable" } else { "done" };
        assert_eq!(record.of("asks "), [format!("asks {how}")]);
        assert_eq!(record.of("a "), ["a done"; BATCH_MAX]);
    }
}
