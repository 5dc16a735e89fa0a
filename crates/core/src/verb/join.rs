//! An agent signs on at a door: a new one, one that comes back, or one that is there already by another door.
//!
//! What the door asks of it is its [`Policy`](crate::doors::Policy).

use std::time::Duration;

use super::ending::GiveBack;
use super::grants::{want_granted, with_granted};
use super::hand::{is_of_one_stream, queue_again, want_unacknowledged};
use super::{Verb, wake};
use crate::agent::{Agent, AgentKind, Capabilities, Machine};
use crate::changes::Changes;
use crate::doors::{Door, Proof, SkillsSaid};
use crate::event::Event;
use crate::id::{AgentId, TaskId};
use crate::limits;
use crate::refusal::Refusal;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::talk::{Holders, ROLE_SKILL};
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub agent: AgentId,
    pub door: Door,
    pub skills: Skills,
    /// What else it says of itself, where the door has words for it.
    pub about: Option<About>,
    /// The little that a door without words for the rest is told.
    pub able: Option<Able>,
    /// A new process goes on with what the old one held.
    pub resume: bool,
    /// Where the door has it told: silent for longer, it is taken for dead.
    pub silent_after: Option<Duration>,
    /// Its connection, by a name that no other one has.
    pub stream: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct About {
    pub name: String,
    pub kind: AgentKind,
    pub capabilities: Capabilities,
    pub machine: Option<Machine>,
}

/// What it was said to be able to at other doors stays, unless it says otherwise here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Able {
    pub max_task_minutes: Option<u32>,
    /// Where it says nothing at any door.
    pub default_minutes: u32,
    pub can_access_browser: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// It was here before and keeps its tasks and leases; all but a new process that resumes also its epochs.
    pub resumed: bool,
    pub agent: Box<Agent>,
    /// The tasks it holds, oldest claim first.
    pub holds: Vec<Task>,
    /// What a new process goes on with, each under its new epoch.
    pub handed_over: Vec<(TaskId, u64)>,
}

/// What becomes of the tasks of an id that a new process takes over.
const LOST: GiveBack = GiveBack {
    crashed: true,
    why: "its agent was replaced by a new process",
};

/// Whom a sign-on finds under its id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nobody,
    Itself,
    /// Another process, silent for too long.
    Stale,
    /// Another process that is alive.
    Another,
}

impl Verb for Join {
    type Reply = Joined;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let floor = want.slice().head.floor;
        for role in self.roles() {
            want.private::<Holders>(role.to_owned());
        }
        want_granted(want, std::slice::from_ref(&self.agent));
        let Some(known) = want.agent(&self.agent) else {
            return;
        };
        match self.finds(known, floor, now) {
            Found::Stale => LOST.asks_all(want, known),
            Found::Itself => {
                for id in &known.holds {
                    if let Some(task) = want.task(id).filter(|_| self.resume) {
                        want.lane_of(task);
                    }
                }
            }
            Found::Nobody | Found::Another => {}
        }
        if self.stream.is_some() {
            want_unacknowledged(want, known);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Joined, Changes), Refusal> {
        super::check_unreserved(&self.agent)?;
        let (policy, mut changes) = (self.door.policy(), Changes::default());
        let known = slice.agent(&self.agent);
        let found = known.map_or(Found::Nobody, |known| {
            self.finds(known, slice.head.floor, now)
        });
        let mut agent = match known {
            None => Agent::without_row(&self.agent, slice.former_agent(&self.agent), now),
            Some(known) => known.clone(),
        };
        match (found, known) {
            (Found::Another, _) => {
                return Err(Refusal::AgentAlreadyRegistered {
                    agent: self.agent.clone(),
                    seen_at: agent.seen_at,
                    holds: agent.holds,
                });
            }
            (Found::Stale, Some(known)) => {
                let released = |path, agent| Event::LeaseReleased { path, agent };
                LOST.apply_all(slice, &mut changes, known, &mut agent, released, now);
            }
            (Found::Stale | Found::Nobody | Found::Itself, _) => {}
        }
        let resumed = found == Found::Itself;
        if !resumed {
            agent.doors.clear();
            agent.commands.clear();
            agent.metrics = None;
        }
        let goes_on = resumed && policy.proof == Proof::Door;
        let is_news = !goes_on || !agent.doors.contains(&self.door);
        self.describe(&mut agent, policy.skills);
        agent.skills = with_granted(&mut Want::new(slice), &self.agent, &agent.skills);
        agent.open_door(self.door, policy.silence.limit(self.silent_after));
        if !goes_on {
            agent.registered_at = now;
            agent.last_active_at = now;
            agent.seen_at = now;
            agent.appear();
        } else {
            wake(&mut agent, &mut changes, now);
        }
        if let Some(stream) = &self.stream {
            agent.stream.name = Some(stream.clone());
            // Whatever became of the stream before, this one has taken its place.
            queue_again(slice, &mut changes, &mut agent, is_of_one_stream, now);
        }
        if is_news {
            changes.event(Event::AgentRegistered {
                agent: self.agent.clone(),
                resumed,
            });
        }
        self.hold_roles(slice, &mut changes);
        let held = agent.holds.iter().filter_map(|id| slice.task(id).cloned());
        let mut joined = Joined {
            resumed,
            holds: held.collect(),
            handed_over: Vec::new(),
            agent: Box::new(agent.clone()),
        };
        for task in joined.holds.iter_mut().filter(|_| self.resume) {
            let (resumed, event) = task.clone().resume(&agent.id, now);
            joined.handed_over.push((task.id.clone(), resumed.epoch));
            *task = resumed.clone();
            changes.task((resumed, event));
        }
        changes.put(agent);
        Ok((joined, changes))
    }
}

impl Join {
    /// An agent that says nothing of itself.
    pub fn by(door: Door, agent: impl Into<AgentId>) -> Join {
        Join {
            agent: agent.into(),
            door,
            skills: Skills::default(),
            about: None,
            able: None,
            resume: false,
            silent_after: None,
            stream: None,
        }
    }

    fn finds(&self, known: &Agent, floor: Timestamp, now: Timestamp) -> Found {
        if known.is_gone() {
            return Found::Nobody;
        }
        // Alive by other doors: the same agent with one more.
        let joins = || known.is_live() && !known.doors.contains(&self.door);
        // It left by a door that keeps it.
        let is_away = known.doors.is_empty();
        match self.door.policy().proof {
            Proof::Door => Found::Itself,
            Proof::Process if self.resume || self.is_same_process(known) || joins() || is_away => {
                Found::Itself
            }
            Proof::Process if !known.is_live() || known.is_silent(floor, now) => Found::Stale,
            Proof::Process => Found::Another,
        }
    }

    /// The roles that its skills name.
    fn roles(&self) -> impl Iterator<Item = &str> {
        let skills = self.skills.iter();
        let roles = skills.filter_map(|skill| skill.strip_prefix(ROLE_SKILL));
        roles.take(limits::ROLES_PER_AGENT_MAX)
    }

    fn hold_roles(&self, slice: &Slice, changes: &mut Changes) {
        for role in self.roles() {
            let known = Want::new(slice).private::<Holders>(role.to_owned());
            let mut agents = known.map_or_else(Vec::new, |row| row.agents.clone());
            if agents.contains(&self.agent) {
                continue;
            }
            if agents.len() >= limits::ROLE_HOLDERS_MAX {
                agents.remove(0);
            }
            agents.push(self.agent.clone());
            let role = role.to_owned();
            changes.put(Holders { role, agents });
        }
    }

    fn is_same_process(&self, known: &Agent) -> bool {
        let here = self.about.as_ref().and_then(|about| about.machine.as_ref());
        match (here, &known.machine) {
            (Some(here), Some(there)) => here.id == there.id && here.pid == there.pid,
            (Some(_) | None, _) => false,
        }
    }

    fn describe(&self, agent: &mut Agent, said: SkillsSaid) {
        let is_elsewhere = agent.doors.iter().any(|open| *open != self.door);
        agent.skills = match said {
            SkillsSaid::Add if is_elsewhere => agent.skills.with(&self.skills),
            SkillsSaid::Add | SkillsSaid::Replace => self.skills.clone(),
        };
        if let Some(about) = self.about.clone() {
            agent.name = about.name;
            agent.kind = about.kind;
            agent.capabilities = about.capabilities;
            agent.machine = about.machine;
        }
        if let Some(able) = self.able {
            let can = &mut agent.capabilities;
            let otherwise = match is_elsewhere {
                true => can.max_task_minutes,
                false => able.default_minutes,
            };
            can.max_task_minutes = able.max_task_minutes.unwrap_or(otherwise);
            can.can_access_browser =
                able.can_access_browser || (is_elsewhere && can.can_access_browser);
        }
    }
}

#[cfg(test)]
mod tests;
