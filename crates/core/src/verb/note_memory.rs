//! An agent wants something to be remembered.

use super::{Verb, sign_of_life, speaker};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// The text is clean: whoever calls took out what is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteMemory {
    pub agent: AgentId,
    pub event_type: String,
    pub text: String,
}

impl Verb for NoteMemory {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        for (field, text, bytes_max) in [
            ("event_type", &self.event_type, limits::NAME_BYTES_MAX),
            ("event", &self.text, limits::MEMORY_NOTE_BYTES_MAX),
        ] {
            if text.len() > bytes_max {
                return Err(Refusal::Invalid {
                    field,
                    message: format!("is longer than {bytes_max} bytes"),
                });
            }
        }
        let mut changes = Changes::default();
        sign_of_life(agent, &mut changes, now);
        changes.event(Event::MemoryNoted {
            agent: self.agent.clone(),
            event_type: self.event_type.clone(),
            text: self.text.clone(),
        });
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, word};
    use super::*;

    fn noted(text: String) -> NoteMemory {
        NoteMemory {
            agent: "A".into(),
            event_type: "task_result.v1".to_owned(),
            text,
        }
    }

    #[test]
    fn only_those_who_are_signed_on_are_noted_and_it_is_a_sign_of_life() {
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            let said = swarm.run(noted("the build needs clang".to_owned()));
            match standing {
                Standing::Live | Standing::Stopping => {
                    assert_eq!(swarm.said(), ["memory_noted"]);
                }
                Standing::Silent => assert_eq!(swarm.said(), ["agent_returned", "memory_noted"]),
                Standing::Unknown | Standing::Gone => {
                    assert_eq!(word(&said), "agent_not_registered", "{standing:?}");
                }
            }
        }
    }

    #[test]
    fn a_note_is_bounded() {
        let most = limits::MEMORY_NOTE_BYTES_MAX;
        for (bytes, fits) in [(most - 1, true), (most, true), (most + 1, false)] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            assert_eq!(swarm.run(noted("x".repeat(bytes))).is_ok(), fits, "{bytes}");
        }
    }
}
