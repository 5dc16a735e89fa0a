//! A new generation of an agent's signing key; the ones before stop working.

use super::Verb;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotateKey {
    pub agent: AgentId,
}

impl Verb for RotateKey {
    type Reply = u32;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(u32, Changes), Refusal> {
        super::check_unreserved(&self.agent)?;
        // An agent may get its key before it first registers.
        let known = slice.agent(&self.agent).cloned();
        let mut agent = known.unwrap_or_else(|| {
            Agent::without_row(&self.agent, slice.former_agent(&self.agent), now)
        });
        agent.key_generation += 1;
        let generation = agent.key_generation;
        let mut changes = Changes::default();
        changes.put(agent);
        changes.event(Event::AgentKeyRotated {
            agent: self.agent.clone(),
            generation,
        });
        Ok((generation, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, word};
    use super::*;

    #[test]
    fn a_reserved_id_gets_no_key() {
        for agent in ["steward", "switchboard", "STEWARD", "\u{feff}switchboard"] {
            let outcome = Swarm::with_agent(Standing::Live).run(RotateKey {
                agent: agent.into(),
            });
            assert_eq!(word(&outcome), "invalid", "{agent}");
        }
    }

    #[test]
    fn each_rotation_is_a_generation_whatever_the_agent_does() {
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            let before = swarm
                .agents
                .values()
                .next()
                .map(|agent| agent.presence.clone());
            for generation in 1..4 {
                assert_eq!(swarm.ok(RotateKey { agent: "A".into() }), generation);
                assert_eq!(swarm.agent("A").key_generation, generation);
            }
            if let Some(before) = before {
                assert_eq!(swarm.agent("A").presence, before, "{standing:?}");
            }
        }
    }
}
