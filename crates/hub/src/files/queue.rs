//! What is known of the names in the directory: which to look at, whose turn it is, which are finished with.
//!
//! Pure bookkeeping; time comes in as an argument. Requests of one agent go in the order of their writing, those of
//! several agents side by side, in turns.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use switchboard_core::AgentId;
use tokio::time::Instant;

use super::job::{Item, Verdict};
use super::request_file::Origin;
use crate::spool::Identity;

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
pub struct Queue {
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
pub enum Turn {
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

impl Queue {
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

    pub fn looked(&mut self, name: OsString, look: Turn, now: Instant) {
        let Some(entry) = self.known.get_mut(&name) else {
            return;
        };
        let (identity, agent, waits) = match look {
            Turn::Gone => return self.leaves(name),
            Turn::Failed => return self.later(name, now + STUCK_FOR),
            Turn::Half(identity, age) => {
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
            Turn::Bad(identity) => (identity, None, false),
            Turn::Request {
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
            Verdict::Changed => self.later(name, now + LOOK_AGAIN_AFTER),
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
mod tests;
