//! Agents that were written by hand.

use super::{AgentWritten, Step, Steps};
use crate::agent::{Agent, Doing, Presence};
use crate::changes::Changes;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::verb::{Deregister, Heartbeat, Register, ReportedTask, speaker};
use crate::want::Want;

pub(super) fn steps(
    steps: &mut Steps,
    id: &AgentId,
    was: Option<&Agent>,
    is: Option<&Agent>,
    how: AgentWritten,
) {
    let was = was.filter(|was| !was.is_gone());
    let sign_off = || Deregister { agent: id.clone() };
    match (was, is) {
        (None, None) => {}
        (Some(_), None) => steps.push(Box::new(sign_off())),
        (None, Some(is)) => {
            steps.push(Box::new(register(is)));
            if !is.is_live() {
                steps.push(Box::new(sign_off()));
            }
        }
        (Some(_), Some(is)) if !is.is_live() && how != AgentWritten::Changed => {
            steps.push(Box::new(sign_off()));
        }
        (Some(was), Some(is)) => {
            let another = how == AgentWritten::Inserted && !is_same_process(was, is);
            if another {
                steps.push(Box::new(sign_off()));
                steps.push(Box::new(register(is)));
                return;
            }
            if says_otherwise(was, is) {
                steps.push(Box::new(Describe { is: is.clone() }));
            }
            match &is.presence {
                Presence::Live(doing) if how != AgentWritten::Changed => {
                    steps.push(Box::new(beat(is, *doing)));
                }
                Presence::Live(doing) if was.presence != is.presence && was.is_live() => {
                    steps.push(Box::new(beat(is, *doing)));
                }
                Presence::Gone { .. } if was.is_live() => steps.push(Box::new(sign_off())),
                Presence::Live(_) | Presence::Silent { .. } | Presence::Gone { .. } => {}
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

/// An agent says something new about itself.
struct Describe {
    is: Agent,
}

impl Step for Describe {
    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.is.id);
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<Changes, Refusal> {
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
