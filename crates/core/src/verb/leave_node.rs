//! A node leaves, or is sent away: its tickets no longer count.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::NodeId;
use crate::node::{Left, Node};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveNode {
    pub node: NodeId,
    pub by: String,
}

impl Verb for LeaveNode {
    type Reply = Node;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Node>(self.node.to_string());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Node, Changes), Refusal> {
        let known = Want::new(slice).private::<Node>(self.node.to_string());
        let known = known.cloned().ok_or_else(|| Refusal::NodeNotFound {
            node: self.node.clone(),
        })?;
        let mut changes = Changes::default();
        if !known.is_joined() {
            return Ok((known, changes));
        }
        let left = Left {
            by: self.by.clone(),
            at: now,
        };
        let node = Node {
            left: Some(left),
            ..known
        };
        changes.event(Event::NodeLeft {
            node: node.node_id.clone(),
            by: self.by.clone(),
        });
        changes.put(node.clone());
        Ok((node, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, node, word};
    use super::super::{AskTicket, KeepNode};
    use super::*;

    fn leave(id: &str) -> LeaveNode {
        LeaveNode {
            node: id.into(),
            by: "ann".to_owned(),
        }
    }

    #[test]
    fn a_node_leaves_once_and_has_no_more_tickets() {
        let mut swarm = Swarm::new();
        assert_eq!(word(&swarm.run(leave("a"))), "node_not_found");
        swarm.ok(KeepNode { node: node("a") });
        let ask = |nonce: &str| AskTicket {
            node: "a".into(),
            nonce: nonce.to_owned(),
            valid_until: Timestamp(i64::MAX),
        };
        swarm.ok(ask("n1"));
        let left = swarm.ok(leave("a"));
        assert_eq!(swarm.said(), ["node_left"]);
        assert!(swarm.said[0].ends_credential());
        assert_eq!(swarm.ok(leave("a")), left, "it has left already");
        assert_eq!(swarm.said(), [""; 0]);
        assert_eq!(word(&swarm.run(ask("n2"))), "node_mismatch");
    }
}
