//! What the rest of the hub hears of the writer: after each commit, and when one goes wrong.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use switchboard_core::LedgerEpoch;
use switchboard_store::Error as StoreError;

use super::{HubState, reason};
use crate::sequencer::{Committed, Listener};

impl Listener for Arc<HubState> {
    fn taken(&self, inputs: usize) {
        let _ = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                Some(waiting.saturating_sub(inputs))
            });
    }

    fn committed(&self, batch: &Committed<'_>) {
        self.looking.store(false, Ordering::Relaxed);
        self.time.heard(batch.now, batch.wall, batch.at);
        self.verbs.fetch_add(batch.verbs as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        if batch.wrote {
            self.commits.fetch_add(1, Ordering::Relaxed);
            let micros = u64::try_from(batch.took.as_micros()).unwrap_or(u64::MAX);
            self.commit_micros.fetch_add(micros, Ordering::Relaxed);
            *self.trouble.lock() = None;
        }
        self.share_pulses(batch);
        let (epoch, seq) = batch.latest;
        self.entered(epoch, seq);
        if let Some(last) = batch.log.last() {
            self.reached(last.seq);
            if let Some(announce) = &self.announce {
                announce(last.seq);
            }
        }
        if let Some(due) = batch.notices.due
            && due.0 < self.due.fetch_min(due.0, Ordering::Relaxed)
        {
            self.due_bell.notify_one();
        }
        if batch.log.iter().any(|logged| logged.event.moves_agents()) {
            self.agents_bell.send_replace(());
        }
        if batch.notices.told {
            self.outbox_bell.send_replace(());
        }
        for lane in &batch.readied {
            self.wakeups.task_is_ready(lane);
        }
        if batch.notices.agents_left || batch.notices.work_resumed {
            self.wakeups.wake_all_claims();
        }
        if batch.notices.agents_busied {
            self.wakeups.others_are_busy();
        }
        self.wakeups.agents_changed(&batch.notices.changed_agents);
        self.wakeups.logged(batch.log);
        for agent in &batch.notices.inboxes {
            self.wakeups.message_waits(agent);
        }
    }

    fn commits(&self, is_under_way: bool) {
        *self.committing.lock() = is_under_way.then(Instant::now);
    }

    fn failed(&self, error: &StoreError) {
        self.looking.store(false, Ordering::Relaxed);
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.trouble.lock() = Some(reason(error));
        if matches!(error, StoreError::InDoubt(_)) {
            // If it was written after all, nobody else tells this process of its own changes: so everyone looks.
            self.wakeups.wake_all();
            self.due.store(0, Ordering::Relaxed);
            self.due_bell.notify_one();
        }
    }

    fn troubled(&self, error: &StoreError) {
        *self.trouble.lock() = Some(reason(error));
    }

    fn fatal(&self, error: &StoreError) -> ! {
        (self.on_fatal)(error)
    }
}

impl HubState {
    /// The log goes up to here, or further: this process and the others tell it in any order.
    pub(crate) fn reached(&self, seq: u64) {
        self.latest.send_if_modified(|latest| {
            let is_news = seq > *latest;
            *latest = seq.max(*latest);
            is_news
        });
    }

    /// The ledger goes on in this epoch: if it is a new one, nothing holds that anybody here was told before.
    pub(crate) fn entered(&self, epoch: LedgerEpoch, seq: u64) {
        {
            let mut known = self.epoch.lock();
            if epoch.number <= known.number {
                return;
            }
            *known = epoch;
        }
        self.latest.send_replace(seq);
        self.wakeups.wake_all();
        self.due.store(0, Ordering::Relaxed);
        self.due_bell.notify_one();
    }

    fn share_pulses(&self, batch: &Committed<'_>) {
        let Some(slice) = batch.pulses else {
            self.pulses.write().clear();
            return;
        };
        let pulsed = &batch.notices.pulsed;
        let none_held = !slice.holds_pulses();
        if pulsed.is_empty() && !(none_held && batch.wrote) {
            return;
        }
        let mut pulses = self.pulses.write();
        if none_held {
            pulses.clear();
        }
        for agent in pulsed {
            match slice.held_pulse(agent) {
                Some(pulse) => pulses.insert(agent.clone(), pulse),
                None => pulses.remove(agent),
            };
        }
    }
}
