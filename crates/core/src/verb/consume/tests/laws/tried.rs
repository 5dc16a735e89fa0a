//! What a run had in it: where nothing was tried, nothing is shown.

use super::station::Station;

/// What all runs together had in them.
#[derive(Default)]
pub struct Tried {
    pub published: usize,
    pub lost: usize,
    pub repeated: usize,
    pub restored: usize,
    pub received: usize,
    pub completed: usize,
    pub resent: usize,
    pub alarms: [usize; ALARMS.len()],
}

const ALARMS: [&str; 6] = [
    "epoch_mismatch",
    "cursor_expired",
    "outbox_gap",
    "outbox_tombstone",
    "dead_letter",
    "outcome_overdue",
];

impl Tried {
    /// What came of it at a node.
    pub fn see(&mut self, station: &Station) {
        self.received += station.facts.received.len();
        self.completed += station.facts.completed.len();
        for (count, kind) in self.alarms.iter_mut().zip(ALARMS) {
            *count += station.alarms(kind).count();
        }
    }

    pub fn add(&mut self, one: &Tried) {
        self.published += one.published;
        self.lost += one.lost;
        self.repeated += one.repeated;
        self.restored += one.restored;
        self.received += one.received;
        self.completed += one.completed;
        self.resent += one.resent;
        for (sum, count) in self.alarms.iter_mut().zip(one.alarms) {
            *sum += count;
        }
    }

    /// Otherwise nothing was tried.
    pub fn is_worth_it(&self) {
        println!(
            "{} published, {} received, {} completed, {} lost, {} repeated, {} sent again, {} restored, {:?} of {ALARMS:?}",
            self.published,
            self.received,
            self.completed,
            self.lost,
            self.repeated,
            self.resent,
            self.restored,
            self.alarms
        );
        let counts = [self.published, self.received, self.completed, self.resent];
        assert!(counts.iter().all(|count| *count > 0));
    }
}
