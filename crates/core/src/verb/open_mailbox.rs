//! Somebody who is no agent reads its messages: its mailbox is there from then on.

use super::Verb;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenMailbox {
    /// One of the names that no agent has.
    pub of: AgentId,
}

impl Verb for OpenMailbox {
    type Reply = Agent;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.of);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Agent, Changes), Refusal> {
        let mut changes = Changes::default();
        if !self.of.is_no_agent() {
            return Err(Refusal::Invalid {
                field: "role",
                message: format!("{} is an agent's name; it must register", self.of),
            });
        }
        if let Some(known) = slice.agent(&self.of) {
            return Ok((known.clone(), changes));
        }
        let mailbox = Agent::newcomer(self.of.clone(), now);
        changes.put(mailbox.clone());
        Ok((mailbox, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    #[test]
    fn a_mailbox_is_opened_once_and_is_in_no_list() {
        let mut swarm = Swarm::new();
        let open = |of: &str| OpenMailbox { of: of.into() };
        assert!(swarm.ok(open("user")).is_gone());
        assert_eq!(swarm.ok(open("user")), *swarm.agent("user"));
        assert_eq!(word(&swarm.run(open("builder"))), "invalid");
    }
}
