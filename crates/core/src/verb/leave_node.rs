//! A node leaves, or is sent away: its tickets no longer count.

use super::Verb;
use crate::changes::Changes;
use crate::cursor::Neighbour;
use crate::event::Event;
use crate::id::NodeId;
use crate::node::{Gateway, Left, Node};
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
        want.private::<Gateway>("");
        want.private::<Neighbour>(self.node.to_string());
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
        let node = gone(known, &self.by, slice, &mut changes, now);
        Ok((node, changes))
    }
}

/// It is no longer joined, and what is known of it goes.
pub(super) fn gone(
    node: Node,
    by: &str,
    slice: &Slice,
    changes: &mut Changes,
    now: Timestamp,
) -> Node {
    let mut want = Want::new(slice);
    let node = Node {
        left: Some(Left {
            by: by.to_owned(),
            at: now,
        }),
        ..node
    };
    changes.event(Event::NodeLeft {
        node: node.node_id.clone(),
        by: by.to_owned(),
    });
    let known = want.private::<Neighbour>(node.node_id.to_string()).cloned();
    let known = known.unwrap_or_else(|| Neighbour::new(node.node_id.clone(), now));
    changes.put(Neighbour {
        is_gone: true,
        ..known
    });
    let own = want.private::<Gateway>("");
    match own.filter(|_| node.vouched_by.is_none()) {
        Some(own) => node.tell(&own.node_id, changes, now),
        None => {
            changes.put(node.clone());
            node
        }
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
