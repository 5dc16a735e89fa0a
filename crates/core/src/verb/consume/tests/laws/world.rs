//! Nodes, what is under way between them, and what happens to them.

use std::time::Duration;

use super::super::super::super::{NoteReader, Publication, Publish, Reset, ResetCursor, Targets};
use super::super::{Consume, Consumed, Outcome};
use super::Draw;
use super::station::{Answer, Station};
use super::tried::Tried;
use crate::cursor::{CursorStatus, GapPolicy, Watermark};
use crate::id::{AgentId, NodeId};
use crate::limits;
use crate::message::DeliveryState;
use crate::order::Order;
use crate::outbox::{Commission, Outgoing};
use crate::task::Priority;
use crate::time::Timestamp;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Rounds in which everything must come to its end, once nothing breaks any more.
const ROUNDS: usize = 160;
const HOUR_MS: i64 = 3_600_000;

pub struct World {
    seed: u64,
    draw: Draw,
    now: Timestamp,
    pub stations: Vec<Station>,
    /// Pages that were sent and may still come, or come again.
    air: Vec<Flight>,
    /// All that was ever accepted, also what a node that was restored no longer knows of.
    ever: Vec<(usize, Publish)>,
    next: usize,
    with_restores: bool,
    with_holes: bool,
    /// Nothing happens for longer than leases last.
    with_pauses: bool,
    pub tried: Tried,
}

/// A page on its way.
#[derive(Clone)]
struct Flight {
    from: usize,
    to: usize,
    epoch: String,
    rows: Vec<Outgoing>,
    brought: Option<Brought>,
}

/// What a node says of its outbox when it brings its events itself.
#[derive(Clone)]
struct Brought {
    oldest: u64,
    latest: u64,
    after: Option<u64>,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut draw = Draw(seed);
        let count = 2 + draw.below(4);
        let names = &NAMES[..count];
        let mut stations: Vec<Station> = Vec::new();
        for name in names {
            let others: Vec<&str> = names.iter().copied().filter(|one| one != name).collect();
            // Of one name there is somebody at each of the first two.
            let twin = (stations.len() < 2).then(|| "twin".to_owned());
            let agents = [format!("{name}1"), format!("{name}2")];
            let agents: Vec<String> = agents.into_iter().chain(twin).collect();
            let mut station = Station::new(name, &others, &agents);
            station.ahead_ms = match draw.below(3) {
                0 => draw.below(2 * 3_600_000) as i64 - HOUR_MS,
                _ => 0,
            };
            station.gap.policy = draw.one(GapPolicy::ALL).unwrap_or(GapPolicy::Halt);
            stations.push(station);
        }
        // Two that nobody reaches do not reach each other.
        stations[0].is_reached = draw.percent(60);
        stations[1].is_reached = !stations[0].is_reached || draw.percent(80);
        let now = stations[0].swarm.now;
        let [with_restores, with_holes, with_pauses] =
            [25, 20, 30].map(|percent| draw.percent(percent));
        let mut world = World {
            seed,
            draw,
            now,
            stations,
            air: Vec::new(),
            ever: Vec::new(),
            next: 0,
            with_restores,
            with_holes,
            with_pauses,
            tried: Tried::default(),
        };
        world.pass(Duration::ZERO);
        for _ in 0..3 {
            world.round();
        }
        world
    }

    pub fn station(&self, id: &NodeId) -> &Station {
        let mut stations = self.stations.iter();
        let found = stations.find(|one| one.id == *id);
        found.expect("orders go to nodes that are joined")
    }

    /// Things happen, and some go wrong.
    pub fn run(&mut self) {
        for _ in 0..60 + self.draw.below(80) {
            let span = match self.draw.below(40) {
                0 if self.with_pauses => self.draw.seconds(7200),
                1..4 => self.draw.seconds(60),
                _ => self.draw.seconds(6),
            };
            self.pass(span);
            let at = self.draw.below(self.stations.len());
            if self.stations[at].away_until.is_none() {
                self.act(at);
            }
        }
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        for station in &mut self.stations {
            station.set_clock(self.now);
            if station.away_until.is_some_and(|until| until <= self.now) {
                station.start();
            }
        }
    }

    fn act(&mut self, at: usize) {
        match self.draw.below(100) {
            0..12 => self.say(at),
            12..20 => self.give(at),
            20..24 => self.publish_again(at),
            24..58 => self.exchange_with_any(at),
            58..68 => self.land(),
            68..86 => self.stations[at].work(&mut self.draw),
            86..92 => {
                self.stations[at].sweep();
                if self.with_holes && self.draw.percent(15) {
                    let last = self.stations[at].swarm.head.outbox;
                    self.stations[at].hidden.insert(last);
                }
            }
            92..94 => self.look_after(at),
            94..96 => {
                let longest = if self.with_pauses { 1200 } else { 200 };
                let until = self.now + self.draw.seconds(longest);
                self.stations[at].away_until = Some(until);
            }
            96..98 => self.stations[at].save(),
            _ if self.with_restores => {
                let with_new_epoch = self.draw.percent(40);
                let done = self.stations[at].restore(with_new_epoch, self.now);
                self.tried.restored += usize::from(done);
            }
            _ => {}
        }
    }

    fn targets(&mut self) -> Vec<AgentId> {
        let mut known = vec![AgentId::from("nobody"), "twin".into(), "twin@b".into()];
        for station in &self.stations {
            known.extend(["1", "2"].map(|n| AgentId::from(format!("{}{n}", station.id))));
        }
        let count = 1 + self.draw.below(3);
        let targets = (0..count).filter_map(|_| self.draw.one(&known));
        targets.collect()
    }

    fn say(&mut self, at: usize) {
        let to = match self.draw.percent(20) {
            true => Targets::All,
            false => Targets::Named(self.targets()),
        };
        let what = Publication::Message {
            to,
            payload: format!("\"{}\"", self.next).into(),
            priority: Priority::Medium,
            expects_reply: self.draw.percent(30),
        };
        self.publish(at, what);
    }

    fn give(&mut self, at: usize) {
        let (to, required) = match self.draw.percent(25) {
            true => (Vec::new(), vec!["rust".to_owned()]),
            false => (self.targets(), Vec::new()),
        };
        let deadline = self.draw.percent(20);
        let within = Duration::from_secs(60) + self.draw.seconds(7200);
        let what = Publication::Task(Box::new(Commission {
            task: format!("T{}", self.next).into(),
            title: "do it".to_owned(),
            description: None,
            to,
            required,
            priority: Priority::Medium,
            requester: format!("{}1", self.stations[at].id).into(),
            response_required: self.draw.percent(70),
            deadline_at: deadline.then(|| self.stations[at].swarm.now + within),
            installs: None,
        }));
        self.publish(at, what);
    }

    fn publish(&mut self, at: usize, what: Publication) {
        let Some(from) = self.stations[at].speaker(&mut self.draw) else {
            return;
        };
        self.next += 1;
        let spans = [
            None,
            None,
            Some(Duration::from_secs(45)),
            Some(Duration::from_secs(900)),
        ];
        let publish = Publish {
            event: format!("evt_{}", self.next).into(),
            from,
            corr_id: format!("corr_{}", self.next).into(),
            expires_in: self.draw.one(&spans).flatten(),
            what,
            sum: self.next as u64,
        };
        if self.stations[at].publish(&publish).is_some() {
            self.tried.published += 1;
            self.ever.push((at, publish));
        }
    }

    /// Whoever did not hear the answer asks again; of a node that was restored it may be the first time.
    fn publish_again(&mut self, at: usize) {
        let of = self.ever.iter().filter(|(by, _)| *by == at);
        let of: Vec<Publish> = of.map(|(_, publish)| publish.clone()).collect();
        if let Some(publish) = self.draw.one(&of) {
            self.stations[at].publish(&publish);
        }
    }

    /// This node is brought what another one has published.
    fn exchange_with_any(&mut self, at: usize) {
        let other = self.draw.below(self.stations.len());
        if other == at || self.stations[other].away_until.is_some() {
            return;
        }
        if self.draw.percent(10) {
            self.tried.lost += 1;
            return;
        }
        let limit = [2, 3, 8, limits::OUTBOX_PAGE_MAX][self.draw.below(4)];
        let Some(flight) = self.depart(other, at, limit) else {
            return;
        };
        if self.draw.percent(35) {
            // It comes later, perhaps together with what is sent after it, or never.
            self.air.push(flight);
            let reader = self.stations[at].id.clone();
            self.stations[other].places.remove(&reader);
            return;
        }
        let whole = flight.rows.len();
        let cut = match self.draw.percent(15) {
            true => self.draw.below(whole + 1),
            false => whole,
        };
        let last_seq = self.arrive(&flight, cut);
        if self.draw.percent(20) {
            self.tried.repeated += 1;
            self.air.push(flight.clone());
        }
        self.hears(&flight, last_seq.filter(|_| cut == whole));
    }

    /// Something that was under way comes, and may come again.
    fn land(&mut self) {
        if self.air.is_empty() {
            return;
        }
        let at = self.draw.below(self.air.len());
        let flight = match self.draw.percent(30) {
            true => self.air[at].clone(),
            false => self.air.swap_remove(at),
        };
        if self.stations[flight.to].away_until.is_none() {
            self.arrive(&flight, flight.rows.len());
        }
    }

    /// What a source has for a reader that is reached, or that reaches it.
    fn depart(&mut self, from: usize, to: usize, limit: usize) -> Option<Flight> {
        match (self.stations[from].is_reached, self.stations[to].is_reached) {
            (true, _) => self.pull(from, to, limit),
            (false, true) => self.bring(from, to, limit),
            (false, false) => None,
        }
    }

    fn pull(&mut self, from: usize, to: usize, limit: usize) -> Option<Flight> {
        let (source, reader) = (self.stations[from].id.clone(), self.stations[to].id.clone());
        let cursor = self.stations[to].cursor(&source);
        if matches!(cursor.status, CursorStatus::Halted | CursorStatus::Expired) {
            return None;
        }
        let answer =
            self.stations[from].page(Some(cursor.last_seq), cursor.last_event.as_ref(), limit);
        let epoch = self.stations[from].epoch();
        let rows = match answer {
            Answer::Page(rows) => rows,
            Answer::Mismatch => return self.reset(to, source, Reset::Mismatch),
            Answer::Expired { oldest } => return self.reset(to, source, Reset::Expired { oldest }),
        };
        self.note(from, &reader, cursor.last_seq);
        if cursor.epoch.is_some_and(|known| known != epoch) {
            return self.reset(to, source, Reset::Mismatch);
        }
        let brought = None;
        Some(Flight {
            from,
            to,
            epoch,
            rows,
            brought,
        })
    }

    fn bring(&mut self, from: usize, to: usize, limit: usize) -> Option<Flight> {
        let station = &self.stations[from];
        let place = station.places.get(&self.stations[to].id).copied();
        let before = place.map(|place| place.saturating_sub(1));
        let mut rows = match station.page(before, None, limit) {
            Answer::Page(rows) => rows,
            Answer::Mismatch | Answer::Expired { .. } => match station.page(None, None, limit) {
                Answer::Page(rows) => rows,
                Answer::Mismatch | Answer::Expired { .. } => Vec::new(),
            },
        };
        if rows
            .last()
            .is_none_or(|last| place.is_none_or(|place| last.seq <= place))
        {
            rows.clear();
        }
        let latest = station.swarm.head.outbox;
        if let Some(place) = place
            && rows.is_empty()
            && place <= latest
        {
            let reader = self.stations[to].id.clone();
            self.note(from, &reader, place);
            return None;
        }
        let watermark = station.rows::<Watermark>().next().map_or(0, |one| one.seq);
        let brought = Some(Brought {
            oldest: watermark + 1,
            latest,
            after: place,
        });
        let epoch = station.epoch();
        Some(Flight {
            from,
            to,
            epoch,
            rows,
            brought,
        })
    }

    /// Takes in the first events of a page. Tells how far its source is read by now.
    fn arrive(&mut self, flight: &Flight, upto: usize) -> Option<u64> {
        let source = self.stations[flight.from].id.clone();
        let station = &self.stations[flight.to];
        if let Some(brought) = &flight.brought {
            let last_seq = station.cursor(&source).last_seq;
            let knows = brought.after == Some(last_seq);
            let oldest = brought.oldest;
            if knows && brought.latest < last_seq {
                self.reset(flight.to, source.clone(), Reset::Mismatch);
            } else if oldest > last_seq + 1 {
                self.reset(flight.to, source.clone(), Reset::Expired { oldest });
            }
        }
        let station = &mut self.stations[flight.to];
        let rows = &flight.rows[..upto];
        let verbs = rows.iter().map(|row| Consume {
            source: source.clone(),
            epoch: flight.epoch.clone(),
            seq: row.seq,
            event: row.event.clone(),
            payload: "{}".into(),
            installed: None,
            gap: station.gap,
            fence: None,
        });
        let verbs: Vec<Consume> = verbs.collect();
        // A page is one commit, or each event is one of its own where others write as well.
        let at_once = [1, verbs.len().max(1)][self.draw.below(2)];
        for piece in verbs.chunks(at_once) {
            let goes_on =
                |taken: &Consumed| matches!(taken.outcome, Outcome::Taken | Outcome::Seen);
            station.swarm.batch(piece.iter().cloned(), goes_on);
        }
        self.tried.resent += rows.iter().filter(|row| row.event.attempt > 1).count();
        Some(self.stations[flight.to].cursor(&source).last_seq)
    }

    /// The source hears how far it is read; `None` if the answer is lost.
    fn hears(&mut self, flight: &Flight, last_seq: Option<u64>) {
        let Some(brought) = &flight.brought else {
            return;
        };
        let reader = self.stations[flight.to].id.clone();
        let places = &mut self.stations[flight.from].places;
        match last_seq {
            None => drop(places.remove(&reader)),
            Some(last_seq) => {
                places.insert(reader.clone(), last_seq);
                if last_seq <= brought.latest {
                    self.note(flight.from, &reader, last_seq);
                }
            }
        }
    }

    fn note(&mut self, source: usize, reader: &NodeId, after: u64) {
        self.stations[source].swarm.ok(NoteReader {
            node: reader.clone(),
            after,
            lease_for: limits::CURSOR_LEASE_FOR,
        });
    }

    fn reset(&mut self, at: usize, source: NodeId, to: Reset) -> Option<Flight> {
        self.stations[at].swarm.ok(ResetCursor { source, to });
        None
    }

    /// A person lets cursors that stopped go on: behind what is missing for good, else from the oldest event.
    fn look_after(&mut self, at: usize) {
        for other in 0..self.stations.len() {
            let source = self.stations[other].id.clone();
            let cursor = self.stations[at].cursor(&source);
            if !matches!(cursor.status, CursorStatus::Halted | CursorStatus::Expired) {
                continue;
            }
            let next = cursor.last_seq + 1;
            let is_hidden = self.stations[other].hidden.contains(&next);
            let after = if is_hidden { next } else { 0 };
            self.reset(at, source, Reset::After(after));
        }
    }

    /// Nothing breaks any more, and everything comes to its end.
    pub fn recover(&mut self) {
        for station in &mut self.stations {
            if station.away_until.is_some() {
                station.start();
            }
        }
        for round in 0..ROUNDS {
            let span = match round {
                0..40 => Duration::from_secs(30),
                40..80 => Duration::from_secs(600),
                _ => Duration::from_secs(3600),
            };
            self.pass(span);
            self.round();
            if self.is_settled() {
                return;
            }
        }
        let open: Vec<_> = self.stations.iter().flat_map(open_orders).collect();
        let tasks = self
            .stations
            .iter()
            .flat_map(|one| one.swarm.tasks.values());
        let tasks: Vec<_> = tasks.filter(|task| !task.status().is_final()).collect();
        panic!("seed {}: these never end: {open:#?} {tasks:#?}", self.seed);
    }

    fn round(&mut self) {
        for at in 0..self.stations.len() {
            self.look_after(at);
            self.stations[at].sweep();
            self.stations[at].work_off(&mut self.draw);
        }
        let count = self.stations.len();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            // Of one that brings its events the first page asks for the place.
            for _ in 0..3 {
                let Some(flight) = self.depart(from, to, limits::OUTBOX_PAGE_MAX) else {
                    break;
                };
                let last_seq = self.arrive(&flight, flight.rows.len());
                self.hears(&flight, last_seq);
            }
        }
    }

    fn is_settled(&self) -> bool {
        let is_done = |station: &Station| {
            let mut tasks = station.swarm.tasks.values();
            let mut mail = station.swarm.deliveries.values();
            tasks.all(|task| task.status().is_final())
                && mail.all(|one| one.state != DeliveryState::Queued)
                && open_orders(station).next().is_none()
        };
        self.stations.iter().all(is_done) && self.pairs().all(|(from, to)| self.is_read(from, to))
    }

    /// Those of which the second one reads the first.
    fn pairs(&self) -> impl Iterator<Item = (&Station, &Station)> {
        let of = |from| self.stations.iter().map(move |to| (from, to));
        let pairs = self.stations.iter().flat_map(of);
        pairs.filter(|(from, to)| from.id != to.id && (from.is_reached || to.is_reached))
    }

    fn is_read(&self, from: &Station, to: &Station) -> bool {
        let cursor = to.cursor(&from.id);
        let read = cursor.last_seq.max(*from.hidden.last().unwrap_or(&0));
        read >= from.swarm.head.outbox && cursor.status == CursorStatus::Active
    }

    /// Nodes that have nothing to say publish nothing, and keep nothing that all have read.
    pub fn is_silent(&mut self) {
        let heads = |world: &World| -> Vec<u64> {
            let stations = world.stations.iter();
            stations.map(|one| one.swarm.head.outbox).collect()
        };
        let mut before = Vec::new();
        for round in 0..8 {
            self.pass(limits::SILENT_AFTER / 3);
            self.round();
            // Until everybody has heard who is there again.
            if round == 2 {
                before = heads(self);
            }
        }
        assert_eq!(
            heads(self),
            before,
            "seed {}: they go on talking",
            self.seed
        );
        for station in &self.stations {
            let is_read_by_all = self.pairs().filter(|(from, _)| from.id == station.id);
            let readers = is_read_by_all.count();
            if readers == self.stations.len() - 1 {
                let kept = station.rows::<Outgoing>().count();
                assert_eq!(
                    kept, 0,
                    "seed {}: {} keeps what all have",
                    self.seed, station.id
                );
            }
            self.tried.see(station);
        }
    }
}

/// Orders that somebody must look at again. Whose outcome is overdue was told to a person.
fn open_orders(station: &Station) -> impl Iterator<Item = &Order> {
    let open = station
        .rows::<Order>()
        .filter(|order| order.ended_at.is_none());
    open.filter(|order| {
        let mut told = station.alarms("outcome_overdue");
        !told.any(|subject| subject == order.event.as_str())
    })
}
