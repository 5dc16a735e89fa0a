//! The director: goes through its states, with a log line where it leaves its rounds, and says whether work can be handed out at all.
//! That nobody gets new work during a pause is not decided here: no claim is given any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use switchboard_core::{Director as Told, TaskStatus, Timestamp};
use switchboard_wire::agentbus::message::DirectorStatus;
use switchboard_wire::agentbus::{DirectorState, UtcTime};
use switchboard_wire::redact;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::fsm::{Cause, Why, next};
use super::server::BusState;
use super::snapshot;
use crate::duty::Duty;
use crate::hub::Hub;

/// How often it looks at what people told it, and whether the ledger is written.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Director {
    now: Mutex<Now>,
    open: watch::Sender<bool>,
    bell: Notify,
    /// Looks that were begun, and the last one that was finished.
    begun: AtomicU64,
    finished: watch::Sender<u64>,
    interval: Duration,
    /// Of several coordinators one goes through the states; the others show them.
    pub duty: Arc<Duty>,
}

/// What the one that is the director notes for the others, and for its successor.
#[derive(Serialize, Deserialize)]
struct Noted {
    state: DirectorState,
    since: Timestamp,
    release: Option<String>,
}

struct Now {
    state: DirectorState,
    since: Timestamp,
    /// Something holds new work back.
    is_held: bool,
    why: Option<Why>,
    /// In the words of whoever ordered it.
    reason: Option<String>,
    /// The release that was last seen.
    release: Option<String>,
}

impl Director {
    pub fn new(hub: &Hub, interval: Duration) -> Self {
        Director {
            duty: Duty::new(hub, "director"),
            now: Mutex::new(Now {
                state: DirectorState::Boot,
                since: Timestamp::ZERO,
                is_held: true,
                why: None,
                reason: None,
                release: None,
            }),
            open: watch::Sender::new(false),
            bell: Notify::new(),
            begun: AtomicU64::new(0),
            finished: watch::Sender::new(0),
            interval,
        }
    }

    /// Whether work can be handed out; changes with every outage.
    pub fn open(&self) -> watch::Receiver<bool> {
        self.open.subscribe()
    }

    /// Somebody told it something.
    pub fn look(&self) {
        self.bell.notify_one();
    }

    /// The same, and waits until it has taken effect.
    pub async fn heed(&self) {
        let wanted = self.begun.load(Ordering::SeqCst) + 1;
        let mut finished = self.finished.subscribe();
        self.look();
        let heeded = finished.wait_for(|finished| *finished >= wanted);
        heeded.await.expect("the sender is this director's own");
    }

    pub fn status(&self, bus: &BusState) -> DirectorStatus {
        let now = self.now.lock();
        let why = now.why.map(Why::as_str);
        DirectorStatus {
            state: now.state,
            since: UtcTime(now.since.0),
            paused: now.is_held,
            reason: now.reason.clone().or_else(|| why.map(str::to_owned)),
            run_id: bus.run_id.clone(),
        }
    }

    /// Goes on where the director was, wherever that is; tells whether it is here.
    fn follow(&self, was_here: bool) -> bool {
        let standing = self.duty.standing();
        let noted = standing.note.filter(|_| !(was_here && standing.is_held));
        if let Some(noted) = noted.and_then(|note| serde_json::from_str::<Noted>(&note).ok()) {
            let mut now = self.now.lock();
            (now.state, now.since) = (noted.state, noted.since);
            now.release = noted.release;
        }
        standing.is_held
    }

    /// Tells the other coordinators, if there are any.
    fn note(&self) {
        if self.duty.standing().fence.is_none() {
            return;
        }
        let now = self.now.lock();
        let noted = Noted {
            state: now.state,
            since: now.since,
            release: now.release.clone(),
        };
        drop(now);
        self.duty
            .note(serde_json::to_string(&noted).unwrap_or_default());
    }

    /// Takes the step that this causes, if any; one line says so.
    fn step(&self, bus: &BusState, cause: Cause, figures: Figures) -> bool {
        let mut now = self.now.lock();
        let Some(to) = next(now.state, cause) else {
            return false;
        };
        let from = std::mem::replace(&mut now.state, to);
        let at = bus.hub.time();
        let lasted = if now.since == Timestamp::ZERO {
            Duration::ZERO
        } else {
            at.since(now.since)
        };
        now.since = at;
        now.why = match cause {
            Cause::Cool(why) => Some(why),
            _ => None,
        };
        let why = now.why.map_or("", Why::as_str);
        let because = now
            .why
            .map_or(String::new(), |why| format!(": {}", why.as_str()));
        macro_rules! say {
            ($level:ident) => {
                tracing::$level!(
                    director.from = %from,
                    director.to = %to,
                    director.run_id = %bus.run_id,
                    director.why = why,
                    lasted_ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
                    workers = figures.workers,
                    eligible = figures.eligible,
                    claimed = figures.claimed,
                    "the director goes from {from} to {to}{because}"
                )
            };
        }
        match cause {
            // Its rounds go on whether there is something to do or not.
            Cause::Done | Cause::Interval | Cause::Stop => say!(debug),
            Cause::Release | Cause::Cool(_) | Cause::Warm => say!(info),
        }
        true
    }
}

/// What a transition tells of the swarm.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    workers: usize,
    eligible: u64,
    claimed: u64,
}

/// What holds it back, and in whose words.
struct Orders {
    why: Option<(Why, Option<String>)>,
    release: Option<String>,
}

pub(super) async fn run(bus: Arc<BusState>) {
    let director = &bus.director;
    let mut round_at = Instant::now();
    let mut figures = Figures::default();
    let mut is_here = false;
    loop {
        if bus.stopping.is_cancelled() {
            director.open.send_replace(false);
            if is_here {
                director.step(&bus, Cause::Stop, figures);
            }
            director.finished.send_replace(u64::MAX);
            return;
        }
        let this_look = director.begun.fetch_add(1, Ordering::SeqCst) + 1;
        figures = look(&bus).await;
        let orders = orders(&bus).await;
        is_here = director.follow(is_here);
        let cause = steer(director, &orders, is_here);
        if let Some(cause) = cause {
            director.step(&bus, cause, figures);
        }
        director.open.send_if_modified(|open| {
            let is_open = !matches!(orders.why, Some((Why::Outage, _)));
            std::mem::replace(open, is_open) != is_open
        });
        director.finished.send_replace(this_look);
        let now = Instant::now();
        if now >= round_at {
            round_at = now + director.interval;
            if is_here {
                director.step(&bus, Cause::Interval, figures);
            } else if bus.board.is_watched() {
                snapshot::broadcast(&bus);
            }
        }
        while is_here && director.step(&bus, Cause::Done, figures) {
            if director.now.lock().state == DirectorState::Broadcast && bus.board.is_watched() {
                snapshot::broadcast(&bus);
            }
        }
        if is_here {
            director.note();
        }
        tokio::select! {
            () = director.duty.changed() => {}
            () = sleep_until(round_at.min(now + LOOK_EVERY)) => {}
            () = director.bell.notified() => {}
            () = bus.stopping.cancelled() => {}
        }
    }
}

/// What the orders cause in the present state, if the director is here.
fn steer(director: &Director, orders: &Orders, is_here: bool) -> Option<Cause> {
    let mut now = director.now.lock();
    now.is_held = orders.why.is_some();
    if !is_here {
        let (why, reason) = orders.why.clone().unzip();
        (now.why, now.reason) = (why, reason.flatten());
        if now.why.is_some() {
            // The director learns of it as this one does.
            now.state = DirectorState::Cooldown;
        }
        return None;
    }
    let is_new = now.release != orders.release;
    let was_known = now.release.is_some() || now.state != DirectorState::Boot;
    now.release.clone_from(&orders.release);
    match &orders.why {
        Some((why, reason)) => {
            now.reason.clone_from(reason);
            if now.state == DirectorState::Cooldown {
                now.why = Some(*why);
            }
            Some(Cause::Cool(*why))
        }
        None => {
            now.reason = None;
            match now.state {
                DirectorState::Cooldown => Some(Cause::Warm),
                DirectorState::Monitor if is_new && was_known => Some(Cause::Release),
                _ => None,
            }
        }
    }
}

async fn orders(bus: &BusState) -> Orders {
    let read = bus.hub.read(|reader| reader.private::<Told>(""));
    let told = match read.await {
        Ok(told) => told.unwrap_or_default(),
        Err(error) => {
            return Orders {
                why: Some((Why::Outage, Some(error.to_string()))),
                release: bus.director.now.lock().release.clone(),
            };
        }
    };
    let why = if let Some(trouble) = bus.hub.trouble() {
        Some((Why::Outage, Some(trouble)))
    } else {
        told.hold(bus.hub.time()).map(|hold| match hold.until {
            None => {
                let why = redact::text(&hold.why);
                let reason = format!("paused by {}: {why}", hold.by);
                (Why::Paused, Some(reason))
            }
            Some(until) => {
                let until = UtcTime::from(until);
                let why = redact::text(&hold.why);
                let reason = format!("until {until}, by {}: {why}", hold.by);
                (Why::Cooldown, Some(reason))
            }
        })
    };
    Orders {
        why,
        release: told.release.map(|release| release.id),
    }
}

async fn look(bus: &BusState) -> Figures {
    let head = bus.hub.read(|reader| reader.head()).await;
    let (eligible, claimed) = head.map_or((0, 0), |head| {
        let claimed = head.count(TaskStatus::Claimed) + head.count(TaskStatus::InProgress);
        (head.count(TaskStatus::Ready), claimed)
    });
    Figures {
        workers: bus.registry.workers(),
        eligible,
        claimed,
    }
}
