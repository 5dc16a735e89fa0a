//! An index grants a capability to agents of this node, or takes it back: a skill beside those they say they have.

use crate::capability::Granted;
use crate::changes::Changes;
use crate::id::{AgentId, CapabilityId};
use crate::limits;
use crate::skills::Skills;
use crate::want::Want;

pub(super) fn want_granted(want: &mut Want<'_>, agents: &[AgentId]) {
    for agent in agents {
        want.agent(agent);
        want.private::<Granted>(agent.to_string());
    }
}

/// From those who had it to those who have it now.
pub(super) fn grant(
    want: &mut Want<'_>,
    changes: &mut Changes,
    capability: &CapabilityId,
    (before, after): (&[AgentId], &[AgentId]),
) {
    for agent in before.iter().filter(|agent| !after.contains(agent)) {
        change(want, changes, agent, |skills| {
            skills.retain(|skill| skill != capability);
        });
    }
    for agent in after {
        change(want, changes, agent, |skills| {
            if !skills.contains(capability) && skills.len() < limits::GRANTS_MAX {
                skills.push(capability.clone());
            }
        });
    }
}

fn change(
    want: &mut Want<'_>,
    changes: &mut Changes,
    agent: &AgentId,
    edit: impl FnOnce(&mut Vec<CapabilityId>),
) {
    let known = want.private::<Granted>(agent.to_string());
    let before = known.map_or_else(Vec::new, |known| known.skills.clone());
    let mut skills = before.clone();
    edit(&mut skills);
    if skills == before {
        return;
    }
    if let Some(row) = want.agent(agent).filter(|row| !row.is_gone()) {
        let mut row = row.clone();
        row.skills = Skills::new(row.skills.own()).with(&words(&skills));
        changes.put(row);
    }
    let agent = agent.clone();
    changes.put(Granted { agent, skills });
}

fn words(skills: &[CapabilityId]) -> Skills {
    Skills::new(skills.iter().map(CapabilityId::as_str))
}

/// What an agent says it can, with what it was granted; nobody grants itself anything.
pub(super) fn with_granted(want: &mut Want<'_>, agent: &AgentId, said: &Skills) -> Skills {
    let own = Skills::new(said.own());
    match want.private::<Granted>(agent.to_string()) {
        Some(granted) => own.with(&words(&granted.skills)),
        None => own,
    }
}
