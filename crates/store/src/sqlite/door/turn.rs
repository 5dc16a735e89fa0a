//! Who writes: the hub first, and of the others one at a time.
//!
//! SQLite has one write lock and no queue for it. Here the others line up, so that the hub competes with one of them at
//! most, and knows how to make that one give way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Turn {
    began: Instant,
    taken: Mutex<bool>,
    given: Condvar,
    /// Microseconds after `began` at which the hub began to wait for the lock; 0 while it does not.
    hub_waits_since: AtomicU64,
    closed: AtomicBool,
}

/// The hub waits for as long as this lives.
#[derive(Debug)]
pub struct Waits<'a>(&'a Turn);

/// How often to look whether the hub still waits.
const LOOK_EVERY: Duration = Duration::from_millis(2);

impl Turn {
    pub fn new() -> Self {
        Turn {
            began: Instant::now(),
            taken: Mutex::new(false),
            given: Condvar::new(),
            hub_waits_since: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    pub fn hub_waits(&self) -> Waits<'_> {
        let since = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.hub_waits_since.store(since.max(1), Ordering::Relaxed);
        Waits(self)
    }

    pub fn hub_waited(&self) -> Option<Duration> {
        let since = self.hub_waits_since.load(Ordering::Relaxed);
        let since = Duration::from_micros(since);
        (!since.is_zero()).then(|| self.began.elapsed().saturating_sub(since))
    }

    /// Takes the turn to write, unless that takes longer than `within`.
    pub fn take(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut taken = lock(&self.taken);
        loop {
            if self.is_closed() {
                return false;
            }
            if !*taken && self.hub_waited().is_none() {
                *taken = true;
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.given.wait_timeout(taken, left.min(LOOK_EVERY));
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn give_back(&self) {
        *lock(&self.taken) = false;
        self.given.notify_one();
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.hub_waits_since.store(0, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_none_while_the_hub_waits() {
        let turn = Turn::new();
        assert!(turn.take(Duration::ZERO));
        assert!(!turn.take(Duration::from_millis(5)));
        turn.give_back();
        let waits = turn.hub_waits();
        assert!(turn.hub_waited().is_some());
        assert!(!turn.take(Duration::from_millis(5)));
        drop(waits);
        assert_eq!(turn.hub_waited(), None);
        assert!(turn.take(Duration::ZERO));
    }

    #[test]
    fn whoever_waits_is_woken_by_the_one_who_gives_back() {
        let turn = Turn::new();
        assert!(turn.take(Duration::ZERO));
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| turn.take(Duration::from_secs(60)));
            turn.give_back();
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn nobody_gets_a_turn_once_it_is_closed() {
        let turn = Turn::new();
        turn.close();
        assert!(!turn.take(Duration::from_secs(60)));
    }
}
