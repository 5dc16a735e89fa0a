//! Where the hubs are, those that serve, and how much they have acknowledged.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use switchboard_tests::http::SILENCE_MAX;
use switchboard_tests::power::Recorder;
use switchboard_tests::{PATIENCE, Random};

/// Shared by the clients and the one who makes trouble.
#[derive(Debug)]
pub struct World {
    now: Mutex<Now>,
    changed: Condvar,
    /// How long a client waits for a hub that says nothing before it asks another one.
    pub patience: Duration,
    /// Whether the ledger may be away, so that callers are told to come back.
    pub outages: bool,
    /// The ledger, if it can be looked at without a hub.
    pub file: Option<PathBuf>,
    /// Of the disk of the one hub, if it is recorded.
    recorder: Option<Recorder>,
    began: Instant,
}

#[derive(Debug, Default)]
struct Now {
    hubs: Vec<Life>,
    acknowledged: u64,
    over: bool,
}

#[derive(Clone, Debug, Default)]
struct Life {
    /// The hub of this life listens here, unless it is being killed.
    addr: Option<SocketAddr>,
    number: u64,
    /// It slept, so its connections may have grown too old meanwhile.
    slept: bool,
}

/// The hub that a client talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    hub: usize,
    life: u64,
    pub addr: SocketAddr,
}

impl World {
    /// A world of so many hubs, of which none serves yet.
    pub fn of(hubs: usize) -> World {
        let now = Now {
            hubs: vec![Life::default(); hubs],
            ..Now::default()
        };
        World {
            now: Mutex::new(now),
            changed: Condvar::new(),
            patience: SILENCE_MAX,
            outages: false,
            file: None,
            recorder: None,
            began: Instant::now(),
        }
    }

    /// Some look at the ledger over SQL.
    pub fn with_file(self, file: PathBuf) -> World {
        World {
            file: Some(file),
            ..self
        }
    }

    pub fn recorded_by(self, recorder: Recorder) -> World {
        World {
            recorder: Some(recorder),
            ..self
        }
    }

    /// Since it began.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// How far the record of the disk has come.
    pub fn disk(&self) -> u64 {
        self.recorder.as_ref().map_or(0, Recorder::position)
    }

    pub fn recorder(&self) -> &Recorder {
        self.recorder.as_ref().expect("this world is recorded")
    }

    pub fn with_patience(self, patience: Duration) -> World {
        World { patience, ..self }
    }

    /// Callers may be told to come back.
    pub fn with_outages(self) -> World {
        World {
            outages: true,
            ..self
        }
    }

    pub fn hub_serves(&self, hub: usize, addr: SocketAddr) {
        let mut now = self.lock();
        let number = now.hubs[hub].number + 1;
        now.hubs[hub] = Life {
            addr: Some(addr),
            number,
            slept: false,
        };
        self.changed.notify_all();
    }

    /// To be said before it is put to sleep.
    pub fn hub_sleeps(&self, hub: usize) {
        self.lock().hubs[hub].slept = true;
    }

    /// To be said before it is killed.
    pub fn hub_ends(&self, hub: usize) {
        self.lock().hubs[hub].addr = None;
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

    /// One of the hubs that serve.
    pub fn somewhere(&self, random: &mut Random) -> Place {
        self.other_than(None, random)
    }

    /// The same, if any serves right now.
    pub fn anywhere(&self, random: &mut Random) -> Option<Place> {
        let serving: Vec<Place> = self.lock().others(None).collect();
        (!serving.is_empty()).then(|| *random.choose(&serving))
    }

    /// A client did not hear from its hub: another one, or the same in a later life.
    pub fn elsewhere(&self, than: Place, error: &io::Error, random: &mut Random) -> Place {
        let is_mute = matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        );
        let life = self.lock().hubs[than.hub].clone();
        assert!(
            is_mute || life.slept || life.addr.is_none() || life.number > than.life,
            "the hub broke a connection, and nobody had killed it: {error}"
        );
        self.other_than(Some(than), random)
    }

    fn other_than(&self, place: Option<Place>, random: &mut Random) -> Place {
        let now = self.wait("no hub comes back", |now| {
            now.over || now.others(place).next().is_some()
        });
        let others: Vec<Place> = now.others(place).collect();
        assert!(
            !others.is_empty(),
            "the world ended while an answer was due"
        );
        *random.choose(&others)
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

impl Now {
    fn others(&self, than: Option<Place>) -> impl Iterator<Item = Place> {
        let serving = self.hubs.iter().enumerate().filter_map(|(hub, life)| {
            life.addr.map(|addr| Place {
                hub,
                life: life.number,
                addr,
            })
        });
        serving.filter(move |place| Some(*place) != than)
    }
}

/// Ends the world also when its owner fails, so that the others do not wait in vain.
pub struct EndsWith<'a>(pub &'a World);

impl Drop for EndsWith<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
