//! What is known of the names in the directory: which to look at, whose turn it is, which are finished with.
//!
//! Pure bookkeeping; time comes in as an argument. Requests of one agent go in the order of their writing, those of
//! several agents side by side, in turns.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use switchboard_core::AgentId;
use tokio::time::Instant;

use super::drawer::{Identity, Origin};
use super::job::{Item, Verdict};

/// Names that are known at a time. The rest waits in the directory.
pub const KNOWN_MAX: usize = 100_000;
/// Requests that are worked on at a time.
pub const IN_WORK_MAX: usize = 64;
/// Requests that may wait for something to come, beside those.
pub const WAITING_MAX: usize = 1024;
/// What is not whole JSON and has not changed for this long is not going to be.
const WHOLE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
const STUCK_FOR: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Book {
    known: HashMap<OsString, Entry>,
    to_look: VecDeque<OsString>,
    later: BTreeSet<(Instant, OsString)>,
    lanes: HashMap<AgentId, Lane>,
    /// Agents with a request whose turn it is.
    turns: VecDeque<AgentId>,
    /// Nobody's.
    strays: VecDeque<Item>,
    in_work: usize,
    waiting: usize,
    sweep: u64,
}

struct Entry {
    origin: Origin,
    state: State,
    /// The name was met again elsewhere while its file was dealt with.
    again: bool,
    half: Option<(Identity, Instant)>,
    /// Answered, and could not be moved.
    finished: Option<Identity>,
    /// The last sweep that met it.
    sweep: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    ToLook,
    /// In a lane, or in work.
    Active,
    Later(Instant),
    Finished,
}

#[derive(Default)]
struct Lane {
    waiting: BTreeMap<(i128, OsString), Item>,
    in_work: bool,
}

/// What a look at a file showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    Gone,
    /// It is being written to, or is not whole JSON yet; how long ago it was written.
    Half(Identity, Duration),
    Request {
        identity: Identity,
        agent: AgentId,
        waits: bool,
    },
    Bad(Identity),
    Failed,
}

impl Book {
    /// A name was met in the course of a sweep; whether it is news.
    pub fn meets(&mut self, origin: Origin, name: &OsStr, ino: u64) -> bool {
        let Some(entry) = self.known.get_mut(name) else {
            return true;
        };
        entry.sweep = self.sweep;
        entry.again |= entry.origin != origin;
        match (entry.state, entry.finished) {
            (State::Finished, Some(finished)) => finished.ino != ino,
            (State::ToLook | State::Active | State::Later(_) | State::Finished, _) => false,
        }
    }

    /// Names that may still be added.
    pub fn room(&self) -> usize {
        KNOWN_MAX.saturating_sub(self.known.len())
    }

    /// A name is to be looked at; past what can be known it is left for a later sweep.
    pub fn look_at(&mut self, origin: Origin, name: &OsStr) {
        let Some(entry) = self.known.get_mut(name) else {
            if self.room() > 0 {
                let entry = Entry {
                    origin,
                    state: State::ToLook,
                    again: false,
                    half: None,
                    finished: None,
                    sweep: self.sweep,
                };
                self.known.insert(name.to_owned(), entry);
                self.to_look.push_back(name.to_owned());
            }
            return;
        };
        match entry.state {
            State::ToLook => entry.again |= entry.origin != origin,
            State::Active => entry.again = true,
            State::Later(until) => {
                entry.again |= entry.origin != origin;
                self.later.remove(&(until, name.to_owned()));
                self.will_look(name);
            }
            State::Finished => self.will_look(name),
        }
    }

    fn will_look(&mut self, name: &OsStr) {
        if let Some(entry) = self.known.get_mut(name) {
            entry.state = State::ToLook;
            self.to_look.push_back(name.to_owned());
        }
    }

    pub fn has_to_look(&self) -> bool {
        !self.to_look.is_empty()
    }

    pub fn next_to_look(&mut self, most: usize) -> Vec<(Origin, OsString)> {
        let most = most.min(self.to_look.len());
        let names: Vec<OsString> = self.to_look.drain(..most).collect();
        names
            .into_iter()
            .filter_map(|name| Some((self.known.get(&name)?.origin, name)))
            .collect()
    }

    pub fn looked(&mut self, name: OsString, look: Look, now: Instant) {
        let Some(entry) = self.known.get_mut(&name) else {
            return;
        };
        let (identity, agent, waits) = match look {
            Look::Gone => return self.leaves(name),
            Look::Failed => return self.later(name, now + STUCK_FOR),
            Look::Half(identity, age) => {
                let since = match entry.half {
                    Some((before, since)) if before == identity => since,
                    Some(_) | None => now,
                };
                entry.half = Some((identity, since));
                if age.max(now - since) < WHOLE_WITHIN {
                    return self.later(name, now + LOOK_AGAIN_AFTER);
                }
                (identity, None, false)
            }
            Look::Bad(identity) => (identity, None, false),
            Look::Request {
                identity,
                agent,
                waits,
            } => (identity, Some(agent), waits),
        };
        if entry.finished == Some(identity) {
            entry.state = State::Finished;
            return;
        }
        entry.finished = None;
        entry.state = State::Active;
        let origin = entry.origin;
        self.queue(Item {
            name,
            identity,
            origin,
            agent,
            waits,
        });
    }

    fn queue(&mut self, item: Item) {
        let Some(agent) = item.agent.clone() else {
            self.strays.push_back(item);
            return;
        };
        let lane = self.lanes.entry(agent.clone()).or_default();
        if lane.waiting.is_empty() && !lane.in_work {
            self.turns.push_back(agent);
        }
        let place = (item.identity.mtime_ns, item.name.clone());
        lane.waiting.insert(place, item);
    }

    /// The next request to work on, if there is a place for it.
    pub fn next(&mut self) -> Option<Item> {
        if self.in_work >= IN_WORK_MAX {
            return None;
        }
        if let Some(stray) = self.strays.pop_front() {
            self.in_work += 1;
            return Some(stray);
        }
        let agent = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&agent)?;
        let (_, mut item) = lane.waiting.pop_first()?;
        item.waits &= self.waiting < WAITING_MAX;
        if item.waits {
            // It holds up nobody, not even its own agent.
            self.waiting += 1;
            self.takes_turn(agent);
        } else {
            self.in_work += 1;
            lane.in_work = true;
        }
        Some(item)
    }

    /// An agent whose lane is free stands in line again, if it has something there.
    fn takes_turn(&mut self, agent: AgentId) {
        match self.lanes.get(&agent) {
            Some(lane) if lane.in_work => {}
            Some(lane) if lane.waiting.is_empty() => {
                self.lanes.remove(&agent);
            }
            Some(_) => self.turns.push_back(agent),
            None => {}
        }
    }

    /// A request left work.
    pub fn worked(&mut self, item: Item, verdict: Verdict, now: Instant) {
        if item.waits {
            self.waiting -= 1;
        } else {
            self.in_work -= 1;
        }
        if let Some(agent) = item.agent.filter(|_| !item.waits) {
            if let Some(lane) = self.lanes.get_mut(&agent) {
                lane.in_work = false;
            }
            self.takes_turn(agent);
        }
        let name = item.name;
        let Some(entry) = self.known.get_mut(&name) else {
            return;
        };
        match verdict {
            Verdict::Away => self.leaves(name),
            Verdict::Unmovable => {
                entry.finished = Some(item.identity);
                if std::mem::take(&mut entry.again) {
                    self.will_look(&name);
                } else {
                    entry.state = State::Finished;
                }
            }
            Verdict::Another => {
                entry.origin = Origin::Taken;
                entry.again = true;
                self.will_look(&name);
            }
            Verdict::Changed => self.will_look(&name),
            Verdict::Stuck => self.later(name, now + STUCK_FOR),
        }
    }

    /// The file of this name is gone; there may be the next one.
    fn leaves(&mut self, name: OsString) {
        match self.known.get_mut(&name) {
            Some(entry) if entry.again => {
                entry.again = false;
                entry.half = None;
                entry.origin = Origin::Requests;
                self.will_look(&name);
            }
            Some(_) | None => {
                self.known.remove(&name);
            }
        }
    }

    fn later(&mut self, name: OsString, at: Instant) {
        if let Some(entry) = self.known.get_mut(&name) {
            entry.state = State::Later(at);
            self.later.insert((at, name));
        }
    }

    /// When the first of those that were put off is due.
    pub fn next_later(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    pub fn wake(&mut self, now: Instant) {
        while self.next_later().is_some_and(|at| at <= now) {
            if let Some((_, name)) = self.later.pop_first() {
                self.will_look(&name);
            }
        }
    }

    /// A sweep came to the end of the directory: what it did not meet and nobody works on is forgotten.
    pub fn swept(&mut self) {
        let sweep = self.sweep;
        self.sweep += 1;
        self.known
            .retain(|_, entry| entry.state != State::Finished || entry.sweep == sweep);
    }

    /// Requests that are known and not finished with.
    pub fn open(&self) -> usize {
        let lanes: usize = self.lanes.values().map(|lane| lane.waiting.len()).sum();
        let queued = self.to_look.len() + self.later.len() + self.strays.len() + lanes;
        queued + self.in_work + self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(mtime_ns: i128) -> Identity {
        Identity {
            ino: mtime_ns as u64,
            mtime_ns,
            size: 1,
        }
    }

    /// A book that has seen these requests: name, agent, time of writing.
    fn book(requests: &[(&str, &str, i128)]) -> Book {
        let mut book = Book::default();
        for (name, agent, at) in requests {
            see(&mut book, name, agent, *at, false);
        }
        book
    }

    fn see(book: &mut Book, name: &str, agent: &str, at: i128, waits: bool) {
        book.look_at(Origin::Requests, name.as_ref());
        let looks = book.next_to_look(1);
        assert_eq!(looks, [(Origin::Requests, name.into())]);
        let look = Look::Request {
            identity: identity(at),
            agent: agent.into(),
            waits,
        };
        book.looked(name.into(), look, Instant::now());
    }

    fn next(book: &mut Book) -> Option<String> {
        let item = book.next()?;
        Some(item.name.to_string_lossy().into_owned())
    }

    fn item(name: &str, agent: &str, at: i128) -> Item {
        Item {
            name: name.into(),
            identity: identity(at),
            origin: Origin::Requests,
            agent: Some(agent.into()),
            waits: false,
        }
    }

    #[test]
    fn one_agents_requests_go_in_the_order_of_writing_and_then_of_their_names() {
        let mut book = book(&[("b", "x", 2), ("c", "x", 1), ("a", "x", 2), ("d", "y", 9)]);
        let now = Instant::now();
        assert_eq!(next(&mut book).as_deref(), Some("c"));
        assert_eq!(next(&mut book).as_deref(), Some("d"), "others do not wait");
        assert_eq!(next(&mut book), None);
        book.worked(item("c", "x", 1), Verdict::Away, now);
        assert_eq!(next(&mut book).as_deref(), Some("a"));
        book.worked(item("a", "x", 2), Verdict::Away, now);
        assert_eq!(next(&mut book).as_deref(), Some("b"));
        book.worked(item("b", "x", 2), Verdict::Away, now);
        book.worked(item("d", "y", 9), Verdict::Away, now);
        assert_eq!(book.open(), 0);
        assert!(book.known.is_empty() && book.lanes.is_empty());
    }

    #[test]
    fn so_many_are_in_work_at_a_time_and_no_more() {
        let mut book = Book::default();
        for number in 0..=IN_WORK_MAX {
            see(
                &mut book,
                &format!("r{number}"),
                &format!("a{number}"),
                1,
                false,
            );
        }
        for _ in 0..IN_WORK_MAX {
            assert!(next(&mut book).is_some());
        }
        assert_eq!(next(&mut book), None);
        book.worked(item("r0", "a0", 1), Verdict::Away, Instant::now());
        assert!(next(&mut book).is_some());
    }

    #[test]
    fn a_request_that_waits_holds_up_nobody_and_past_the_bound_none_waits() {
        let mut book = Book::default();
        for number in 0..WAITING_MAX {
            see(&mut book, &format!("w{number}"), "a", number as i128, true);
        }
        see(&mut book, "heartbeat", "a", WAITING_MAX as i128, false);
        for _ in 0..WAITING_MAX {
            assert!(book.next().unwrap().waits);
        }
        assert_eq!(next(&mut book).as_deref(), Some("heartbeat"));
        see(&mut book, "more", "b", 1, true);
        assert!(!book.next().unwrap().waits);
    }

    #[test]
    fn what_is_not_whole_is_given_time_from_its_last_change() {
        let mut book = Book::default();
        let start = Instant::now();
        let fresh = Duration::ZERO;
        book.look_at(Origin::Requests, "h".as_ref());
        for (after, at) in [(0, 1), (1900, 2), (3800, 2)] {
            book.wake(start + Duration::from_millis(after));
            assert_eq!(book.next_to_look(9).len(), 1, "{after}");
            let now = start + Duration::from_millis(after);
            book.looked("h".into(), Look::Half(identity(at), fresh), now);
            assert_eq!(next(&mut book), None);
        }
        let late = start + Duration::from_millis(3900);
        book.wake(late);
        book.next_to_look(9);
        book.looked("h".into(), Look::Half(identity(2), fresh), late);
        assert_eq!(next(&mut book).as_deref(), Some("h"), "to be rejected");
        book.look_at(Origin::Requests, "old".as_ref());
        book.next_to_look(9);
        book.looked("old".into(), Look::Half(identity(1), WHOLE_WITHIN), start);
        assert_eq!(next(&mut book).as_deref(), Some("old"));
    }

    #[test]
    fn the_next_file_of_a_name_is_seen_to_after_the_one_before() {
        let mut book = book(&[("n", "a", 1)]);
        assert!(next(&mut book).is_some());
        book.look_at(Origin::Requests, "n".as_ref());
        assert!(!book.has_to_look());
        book.worked(item("n", "a", 1), Verdict::Away, Instant::now());
        assert_eq!(book.next_to_look(9), [(Origin::Requests, "n".into())]);
        book.looked("n".into(), Look::Gone, Instant::now());
        assert!(book.known.is_empty());
    }

    #[test]
    fn one_that_lies_among_the_taken_comes_before_the_next_of_its_name() {
        let mut book = book(&[("n", "a", 1)]);
        assert!(next(&mut book).is_some());
        book.worked(item("n", "a", 1), Verdict::Another, Instant::now());
        assert_eq!(book.next_to_look(9), [(Origin::Taken, "n".into())]);
        book.looked("n".into(), Look::Gone, Instant::now());
        assert_eq!(book.next_to_look(9), [(Origin::Requests, "n".into())]);
    }

    #[test]
    fn what_cannot_be_moved_is_not_looked_at_again_until_it_is_another() {
        let mut book = book(&[("n", "a", 1)]);
        assert!(next(&mut book).is_some());
        book.worked(item("n", "a", 1), Verdict::Unmovable, Instant::now());
        assert_eq!(book.open(), 0);
        assert!(!book.meets(Origin::Requests, "n".as_ref(), 1));
        assert!(book.meets(Origin::Requests, "n".as_ref(), 2));
        // Something was heard of it, but it is the same.
        book.look_at(Origin::Requests, "n".as_ref());
        assert_eq!(book.next_to_look(9).len(), 1);
        book.looked("n".into(), Look::Bad(identity(1)), Instant::now());
        assert_eq!(next(&mut book), None);
        book.swept();
        assert_eq!(book.known.len(), 1);
        book.swept();
        assert!(book.known.is_empty(), "it was not met any more");
    }

    #[test]
    fn so_many_names_are_known_and_the_rest_waits_in_the_directory() {
        let mut book = Book::default();
        for number in 0..KNOWN_MAX {
            book.look_at(Origin::Requests, number.to_string().as_ref());
        }
        assert_eq!(book.room(), 0);
        book.look_at(Origin::Requests, "more".as_ref());
        assert_eq!(book.open(), KNOWN_MAX);
        let first = book.next_to_look(1).remove(0).1;
        book.looked(first, Look::Gone, Instant::now());
        assert_eq!(book.room(), 1);
    }
}
