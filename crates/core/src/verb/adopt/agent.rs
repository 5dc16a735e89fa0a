//! Agents that were written by hand.

use super::{AgentWritten, HandStep, Steps};
use crate::agent::{Agent, Doing, Presence};
use crate::changes::Changes;
use crate::doors::Door;
use crate::id::{AgentId, TaskId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Phase;
use crate::time::Timestamp;
use crate::verb::grants::{want_granted, with_granted};
use crate::verb::{About, Deregister, Heartbeat, Join, ReportedTask, Verb};
use crate::want::Want;

pub(super) fn steps(
    steps: &mut Steps,
    id: &AgentId,
    was: Option<&Agent>,
    is: Option<&Agent>,
    how: AgentWritten,
) {
    let was = was.filter(|was| !was.is_gone());
    let sign_off = || SignOff(Deregister { agent: id.clone() });
    match (was, is) {
        (None, None) => {}
        (Some(_), None) => steps.push(Box::new(sign_off())),
        // Whoever has signed off comes back by saying that it is there, not by any word about it.
        (None, Some(is)) if how != AgentWritten::Inserted && !is.is_live() => {}
        (None, Some(is)) => {
            steps.push(Box::new(Register::of(is, how)));
            if !is.is_live() {
                steps.push(Box::new(sign_off()));
            }
        }
        (Some(was), Some(is)) => {
            let Presence::Live(doing) = is.presence else {
                if is.is_gone() {
                    steps.push(Box::new(sign_off()));
                } else if says_otherwise(was, is) {
                    steps.push(Box::new(Describe { is: is.clone() }));
                }
                return;
            };
            if how == AgentWritten::Inserted && !is_same_process(was, is) {
                steps.push(Box::new(sign_off()));
                steps.push(Box::new(Register::of(is, how)));
                return;
            }
            if says_otherwise(was, is) {
                steps.push(Box::new(Describe { is: is.clone() }));
            }
            if how != AgentWritten::Changed || does_otherwise(was, is) {
                // A row that is inserted anew is idle unless it says otherwise.
                let is_default = how == AgentWritten::Inserted && doing == Doing::Idle;
                steps.push(Box::new(Appear {
                    beat: beat(was, is, doing),
                    register: register(is),
                    says: was.presence != is.presence && !is_default,
                    counts: how != AgentWritten::Changed,
                }));
            }
        }
    }
}

fn register(is: &Agent) -> Join {
    Join {
        skills: is.skills.clone(),
        about: Some(About {
            name: is.name.clone(),
            kind: is.kind,
            capabilities: is.capabilities.clone(),
            machine: is.machine.clone(),
        }),
        ..Join::by(Door::BY_HAND, is.id.clone())
    }
}

fn beat(was: &Agent, is: &Agent, doing: Doing) -> Heartbeat {
    let current = is.current.as_ref().filter(|_| at_work(was) != at_work(is));
    let task = current.map(|current| ReportedTask {
        id: current.task.clone(),
        percent: current.percent,
        phase: current.phase,
        note: None,
    });
    Heartbeat {
        agent: is.id.clone(),
        doing,
        task,
        metrics: None,
    }
}

/// A program that says nothing of its process is taken for the one that was there.
fn is_same_process(was: &Agent, is: &Agent) -> bool {
    match (&was.machine, &is.machine) {
        (Some(was), Some(is)) => was.id == is.id && was.pid == is.pid,
        (_, None) => true,
        (None, Some(_)) => false,
    }
}

fn says_otherwise(was: &Agent, is: &Agent) -> bool {
    was.name != is.name
        || was.kind != is.kind
        || was.skills != is.skills
        || was.capabilities != is.capabilities
        || (is.machine.is_some() && was.machine != is.machine)
}

fn does_otherwise(was: &Agent, is: &Agent) -> bool {
    was.presence != is.presence || at_work(was) != at_work(is)
}

fn at_work(agent: &Agent) -> Option<(&TaskId, Option<u8>, Option<Phase>)> {
    let current = agent.current.as_ref();
    current.map(|current| (&current.task, current.percent, current.phase))
}

/// What the hand saw of an agent may be older than what its notes before this one came to.
fn here<'a>(slice: &'a Slice, id: &AgentId) -> Option<&'a Agent> {
    slice.agent(id).filter(|agent| !agent.is_gone())
}

/// Joins, since the instant that a new row says.
struct Register {
    join: Join,
    since: Option<Timestamp>,
}

impl Register {
    fn of(is: &Agent, how: AgentWritten) -> Register {
        Register {
            join: register(is),
            since: (how == AgentWritten::Inserted).then_some(is.registered_at),
        }
    }
}

impl HandStep for Register {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.join, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        let (_, mut changes) = Verb::decide(&self.join, slice, now)?;
        if let Some(since) = self.since.filter(|at| (1..=now.0).contains(&at.0)) {
            let agents = changes.rows_mut::<Agent>();
            agents.for_each(|agent| agent.registered_at = since);
        }
        Ok(changes)
    }
}

/// Leaves, unless it has left already.
struct SignOff(Deregister);

impl HandStep for SignOff {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.0, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        if here(slice, &self.0.agent).is_none() {
            return Ok(Changes::default());
        }
        Verb::decide(&self.0, slice, now).map(|((), changes)| changes)
    }
}

/// A sign of life, also of one that has signed off.
struct Appear {
    beat: Heartbeat,
    register: Join,
    /// The word for what it does is its own, not the one that it found in the row.
    says: bool,
    /// Or only news of what it does, which is a sign of life, too.
    counts: bool,
}

impl HandStep for Appear {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.beat, want, now);
        Verb::asks(&self.register, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        if let Some(here) = here(slice, &self.beat.agent) {
            let mut beat = self.beat.clone();
            if let Presence::Live(doing) = here.presence
                && !self.says
            {
                beat.doing = doing;
            }
            let (_, mut changes) = Verb::decide(&beat, slice, now)?;
            if !self.counts {
                for agent in changes.rows_mut::<Agent>() {
                    agent.heartbeats = here.heartbeats;
                }
                changes
                    .pulses
                    .iter_mut()
                    .for_each(|pulse| pulse.heartbeat = false);
            }
            return Ok(changes);
        }
        Verb::decide(&self.register, slice, now).map(|(_, changes)| changes)
    }
}

/// An agent says something new about itself.
struct Describe {
    is: Agent,
}

impl HandStep for Describe {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want_granted(want, std::slice::from_ref(&self.is.id));
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<Changes, Refusal> {
        let Some(known) = here(slice, &self.is.id) else {
            return Ok(Changes::default());
        };
        let mut agent = known.clone();
        agent.name.clone_from(&self.is.name);
        agent.kind = self.is.kind;
        agent.skills = with_granted(&mut Want::new(slice), &self.is.id, &self.is.skills);
        agent.capabilities = self.is.capabilities.clone();
        if self.is.machine.is_some() {
            agent.machine.clone_from(&self.is.machine);
        }
        let mut changes = Changes::default();
        changes.put(agent);
        Ok(changes)
    }
}
