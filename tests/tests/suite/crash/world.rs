//! Where the hub is, if it is, and how much it has acknowledged.

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_tests::PATIENCE;

/// Shared by the clients and the one who kills.
#[derive(Debug, Default)]
pub struct World {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    /// The hub of this life listens here.
    addr: Option<SocketAddr>,
    life: u64,
    acknowledged: u64,
    over: bool,
}

impl World {
    pub fn hub_serves(&self, addr: SocketAddr) {
        let mut now = self.lock();
        now.addr = Some(addr);
        now.life += 1;
        self.changed.notify_all();
    }

    pub fn acknowledged(&self) {
        self.lock().acknowledged += 1;
        self.changed.notify_all();
    }

    /// Clients finish what they are at, and stop.
    pub fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    pub fn is_over(&self) -> bool {
        self.lock().over
    }

    /// The hub of a later life than this one, when there is one.
    pub fn later_than(&self, life: u64) -> (SocketAddr, u64) {
        let now = self.wait(
            "the hub broke a connection, and nobody had killed it",
            |now| now.life > life || now.over,
        );
        assert!(now.life > life, "the world ended while an answer was due");
        (now.addr.expect("a life has an address"), now.life)
    }

    /// Returns when so many more changes were acknowledged.
    pub fn wait_for_more(&self, changes: u64) {
        let goal = self.lock().acknowledged + changes;
        drop(self.wait("the clients get no answers", |now| {
            now.acknowledged >= goal || now.over
        }));
    }

    fn wait(&self, otherwise: &str, there: impl Fn(&Now) -> bool) -> MutexGuard<'_, Now> {
        const SEVERAL: u32 = 4;
        let deadline: Duration = PATIENCE * SEVERAL;
        let (now, waited) = self
            .changed
            .wait_timeout_while(self.lock(), deadline, |now| !there(now))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "{otherwise}");
        now
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the world also when its owner fails, so that the others do not wait in vain.
pub struct EndsWith<'a>(pub &'a World);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
