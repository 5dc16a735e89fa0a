//! REGISTER: an agent announces itself.

use super::Verb;
use super::ending::GiveBack;
use crate::agent::{Agent, AgentKind, Capabilities, Doing, Machine, Presence};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    pub agent: AgentId,
    pub name: String,
    pub kind: AgentKind,
    pub skills: Skills,
    pub capabilities: Capabilities,
    pub machine: Option<Machine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub registered_at: Timestamp,
    /// The same process again: it keeps its tasks, leases and epochs.
    pub resumed: bool,
}

/// What becomes of the tasks of an id that a new process takes over.
const LOST: GiveBack = GiveBack {
    crashed: true,
    why: "its agent was replaced by a new process",
};

impl Verb for Register {
    type Reply = Registered;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let floor = want.slice().head.floor;
        let Some(known) = want.agent(&self.agent) else {
            return;
        };
        if self.takes_over(known, floor, now) {
            for id in &known.holds {
                if let Some(task) = want.task(id) {
                    LOST.asks(want, task);
                }
            }
            let _ = want.leases_of_agent(&known.id);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Registered, Changes), Refusal> {
        let mut changes = Changes::default();
        let known = slice.agent(&self.agent);
        let resumed = known.is_some_and(|known| !known.is_gone() && self.is_same_process(known));
        let mut agent = match known {
            None => self.newcomer(now),
            Some(known) if resumed || known.is_gone() => known.clone(),
            Some(known) if self.takes_over(known, slice.head.floor, now) => {
                let mut agent = known.clone();
                for task in known.holds.iter().filter_map(|id| slice.task(id)) {
                    LOST.apply(slice, &mut changes, task, &mut agent, now);
                }
                for lease in Want::new(slice).leases_of_agent(&known.id) {
                    if !changes.ended_leases.contains(&lease.path) {
                        changes.ended_leases.push(lease.path.clone());
                        changes.event(Event::LeaseReleased {
                            path: lease.path.to_string(),
                            agent: lease.agent.clone(),
                        });
                    }
                }
                agent
            }
            Some(known) => {
                return Err(Refusal::AgentAlreadyRegistered {
                    agent: self.agent.clone(),
                    seen_at: known.seen_at,
                });
            }
        };
        self.describe(&mut agent);
        agent.registered_at = now;
        agent.seen_at = now;
        agent.last_active_at = now;
        if !resumed {
            agent.commands.clear();
            agent.metrics = None;
        }
        agent.presence = Presence::Live(if agent.holds.is_empty() {
            Doing::Idle
        } else {
            Doing::Busy
        });
        changes.agents.push(agent);
        changes.event(Event::AgentRegistered {
            agent: self.agent.clone(),
            resumed,
        });
        Ok((
            Registered {
                registered_at: now,
                resumed,
            },
            changes,
        ))
    }
}

impl Register {
    /// Whether the id is free for a new process because the old one has been silent too long.
    fn takes_over(&self, known: &Agent, floor: Timestamp, now: Timestamp) -> bool {
        !known.is_gone()
            && !self.is_same_process(known)
            && (!known.is_live() || known.is_silent(floor, now))
    }

    fn is_same_process(&self, known: &Agent) -> bool {
        match (&self.machine, &known.machine) {
            (Some(here), Some(there)) => here.id == there.id && here.pid == there.pid,
            (Some(_) | None, _) => false,
        }
    }

    fn describe(&self, agent: &mut Agent) {
        agent.name.clone_from(&self.name);
        agent.kind = self.kind;
        agent.skills = self.skills.clone();
        agent.capabilities = self.capabilities.clone();
        agent.machine.clone_from(&self.machine);
    }

    fn newcomer(&self, now: Timestamp) -> Agent {
        Agent::newcomer(self.agent.clone(), now)
    }
}
