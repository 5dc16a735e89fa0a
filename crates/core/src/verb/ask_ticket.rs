//! A node that is joined asks for a ticket. What it signed counts once.

use super::Verb;
use crate::changes::Changes;
use crate::id::NodeId;
use crate::node::{self, Node};
use crate::refusal::{NotAdmitted, Refusal};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskTicket {
    pub node: NodeId,
    pub nonce: String,
    /// For so long its signature could come again.
    pub valid_until: Timestamp,
}

impl Verb for AskTicket {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Node>(self.node.to_string());
        want.nonce_was_seen(&node::nonce(&self.node, &self.nonce, self.valid_until));
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut want = Want::new(slice);
        let known = want.private::<Node>(self.node.to_string());
        if known.is_none_or(|known| !known.is_joined()) {
            return Err(NotAdmitted::Mismatch(self.node.clone()).into());
        }
        let mut changes = Changes::default();
        let nonce = node::nonce(&self.node, &self.nonce, self.valid_until);
        node::spend(&nonce, &mut want, &mut changes)?;
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeepNode;
    use super::super::testing::{Swarm, node, word};
    use super::*;

    #[test]
    fn a_joined_node_gets_a_ticket_for_each_nonce_once() {
        let mut swarm = Swarm::new();
        let ask = |node: &str, nonce: &str| AskTicket {
            node: node.into(),
            nonce: nonce.to_owned(),
            valid_until: Timestamp(i64::MAX),
        };
        assert_eq!(word(&swarm.run(ask("a", "n"))), "node_mismatch");
        swarm.ok(KeepNode { node: node("a") });
        swarm.ok(KeepNode { node: node("b") });
        for (node, nonce, outcome) in [
            ("a", "n", "ok"),
            ("a", "n", "replay_detected"),
            ("b", "n", "ok"),
            ("a", "m", "ok"),
        ] {
            let asked = swarm.run(ask(node, nonce));
            assert_eq!(word(&asked), outcome, "{node} {nonce}");
        }
    }
}
