//! Agents that were written by hand.

use super::{AgentWritten, Step, Steps};
use crate::agent::{Agent, Doing, Presence};
use crate::changes::Changes;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::verb::{Deregister, Heartbeat, Register, ReportedTask, Verb, speaker};
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
            steps.push(Box::new(register(is)));
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
                steps.push(Box::new(register(is)));
                return;
            }
            if says_otherwise(was, is) {
                steps.push(Box::new(Describe { is: is.clone() }));
            }
            if how != AgentWritten::Changed || does_otherwise(was, is) {
                steps.push(Box::new(Appear {
                    beat: beat(is, doing),
                    register: register(is),
                }));
            }
        }
    }
}

fn register(is: &Agent) -> Register {
    Register {
        agent: is.id.clone(),
        name: is.name.clone(),
        kind: is.kind,
        skills: is.skills.clone(),
        capabilities: is.capabilities.clone(),
        machine: is.machine.clone(),
    }
}

fn beat(is: &Agent, doing: Doing) -> Heartbeat {
    let task = is.current.as_ref().map(|current| ReportedTask {
        id: current.task.clone(),
        percent: current.percent,
        phase: current.phase,
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
        || was.machine != is.machine
}

fn does_otherwise(was: &Agent, is: &Agent) -> bool {
    let at_work = |agent: &Agent| {
        let current = agent.current.as_ref();
        current.map(|current| (current.task.clone(), current.percent, current.phase))
    };
    was.presence != is.presence || at_work(was) != at_work(is)
}

/// What the hand saw of an agent may be older than what its notes before this one came to.
fn is_here(slice: &Slice, id: &AgentId) -> bool {
    slice.agent(id).is_some_and(|agent| !agent.is_gone())
}

/// Leaves, unless it has left already.
struct SignOff(Deregister);

impl Step for SignOff {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.0, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        if !is_here(slice, &self.0.agent) {
            return Ok(Changes::default());
        }
        Verb::decide(&self.0, slice, now).map(|((), changes)| changes)
    }
}

/// A sign of life, also of one that has signed off.
struct Appear {
    beat: Heartbeat,
    register: Register,
}

impl Step for Appear {
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        Verb::asks(&self.beat, want, now);
        Verb::asks(&self.register, want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<Changes, Refusal> {
        if is_here(slice, &self.beat.agent) {
            return Verb::decide(&self.beat, slice, now).map(|(_, changes)| changes);
        }
        Verb::decide(&self.register, slice, now).map(|(_, changes)| changes)
    }
}

/// An agent says something new about itself.
struct Describe {
    is: Agent,
}

impl Step for Describe {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.is.id);
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<Changes, Refusal> {
        if !is_here(slice, &self.is.id) {
            return Ok(Changes::default());
        }
        let mut agent = speaker(slice, &self.is.id)?.clone();
        agent.name.clone_from(&self.is.name);
        agent.kind = self.is.kind;
        agent.skills = self.is.skills.clone();
        agent.capabilities = self.is.capabilities.clone();
        agent.machine.clone_from(&self.is.machine);
        Ok(Changes {
            agents: vec![agent],
            ..Changes::default()
        })
    }
}
