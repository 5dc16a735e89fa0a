//! The node whose invitation was followed is kept.

use super::Verb;
use crate::changes::Changes;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepNode {
    pub node: Node,
}

impl Verb for KeepNode {
    type Reply = Node;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        self.node.asks(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Node, Changes), Refusal> {
        let mut changes = Changes::default();
        let mut want = Want::new(slice);
        let node = self.node.clone().join(&mut want, &mut changes, now)?;
        Ok((node, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, node, open_gateway, word};
    use super::*;
    use crate::limits;

    fn keep(id: &str) -> KeepNode {
        KeepNode { node: node(id) }
    }

    #[test]
    fn a_node_is_kept_once_and_what_it_says_of_itself_may_change() {
        let mut swarm = Swarm::new();
        swarm.ok(open_gateway("home"));
        let first = swarm.ok(keep("a"));
        assert_eq!(swarm.said(), ["node_joined"]);
        swarm.wait(Duration::from_secs(1));
        assert_eq!(swarm.ok(keep("a")), first);
        let mut moved = keep("a");
        moved.node.endpoint = Some("https://b.example".to_owned());
        let moved = swarm.ok(moved);
        assert_eq!(moved.joined_at, first.joined_at);
        assert_eq!(moved.endpoint.as_deref(), Some("https://b.example"));
        assert_eq!(swarm.said(), [""; 0]);
    }

    #[test]
    fn neither_ourselves_nor_anothers_id_nor_another_protocol_is_kept() {
        let mut swarm = Swarm::new();
        swarm.ok(open_gateway("home"));
        swarm.ok(keep("a"));
        assert_eq!(word(&swarm.run(keep("home"))), "node_mismatch");
        let mut forged = keep("a");
        forged.node.public_key = "another key".to_owned();
        assert_eq!(word(&swarm.run(forged)), "node_mismatch");
        let mut foreign = keep("b");
        foreign.node.protocol_version = "10.0".to_owned();
        assert_eq!(word(&swarm.run(foreign)), "other_protocol");
    }

    #[test]
    fn so_many_are_kept() {
        let mut swarm = Swarm::new();
        swarm.ok(open_gateway("home"));
        for number in 1..limits::NODES_MAX {
            swarm.ok(keep(&format!("n{number}")));
        }
        assert_eq!(word(&swarm.run(keep("the last"))), "ok");
        assert_eq!(word(&swarm.run(keep("one more"))), "too_many");
    }
}
