//! Another node was heard of: what it owns stays its own.

use super::Verb;
use crate::changes::Changes;
use crate::cursor::Neighbour;
use crate::id::NodeId;
use crate::limits;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HearNode {
    pub node: NodeId,
}

impl Verb for HearNode {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Node>(self.node.to_string());
        want.private::<Neighbour>(self.node.to_string());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut want = Want::new(slice);
        let node = want.private::<Node>(self.node.to_string());
        if !node.is_some_and(Node::is_joined) {
            return Err(Refusal::NodeNotFound {
                node: self.node.clone(),
            });
        }
        let mut changes = Changes::default();
        hear(&mut want, &mut changes, &self.node, now);
        Ok(((), changes))
    }
}

/// That it was heard of just before is known.
pub(super) fn hear(want: &mut Want<'_>, changes: &mut Changes, node: &NodeId, now: Timestamp) {
    let known = want.private::<Neighbour>(node.to_string()).cloned();
    let is_news = |known: &Neighbour| now >= known.heard_at + limits::HEARD_EVERY;
    match known {
        Some(known) if !is_news(&known) => {}
        Some(known) => changes.put(Neighbour {
            heard_at: now,
            ..known
        }),
        None => changes.put(Neighbour::new(node.clone(), now)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, joined, word};
    use super::*;
    use crate::record::Listed as _;

    #[test]
    fn a_node_that_is_heard_of_costs_a_write_now_and_then() {
        let mut swarm = Swarm::new();
        let hear = || HearNode { node: "b".into() };
        assert_eq!(word(&swarm.run(hear())), "node_not_found");
        joined(&mut swarm, "b");
        let heard = |swarm: &Swarm| {
            let known = swarm.records.values().find_map(Neighbour::of);
            known.map(|known| swarm.now.since(known.heard_at))
        };
        for (after, since) in [(0, 0), (29, 29), (1, 0), (30, 0)] {
            swarm.wait(Duration::from_secs(after));
            swarm.ok(hear());
            assert_eq!(heard(&swarm), Some(Duration::from_secs(since)));
        }
    }
}
