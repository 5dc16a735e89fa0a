//! Another node asked for what comes after a number of this node's outbox: all up to there is durable with it.

use std::time::Duration;

use super::Verb;
use super::hear_node::hear;
use crate::changes::Changes;
use crate::cursor::{Neighbour, Subscriber};
use crate::id::NodeId;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteReader {
    pub node: NodeId,
    pub after: u64,
    /// So long what it has not read is kept for it.
    pub lease_for: Duration,
}

impl Verb for NoteReader {
    type Reply = Subscriber;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Node>(self.node.to_string());
        want.private::<Subscriber>(self.node.to_string());
        want.private::<Neighbour>(self.node.to_string());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Subscriber, Changes), Refusal> {
        let mut want = Want::new(slice);
        if !want
            .private::<Node>(self.node.to_string())
            .is_some_and(Node::is_joined)
        {
            return Err(Refusal::NodeNotFound {
                node: self.node.clone(),
            });
        }
        // What is not there nobody has read: it was another outbox.
        if self.after > slice.head.outbox {
            return Err(Refusal::Invalid {
                field: "after",
                message: format!("this outbox ends at {}", slice.head.outbox),
            });
        }
        let mut changes = Changes::default();
        hear(&mut want, &mut changes, &self.node, now);
        let known = want.private::<Subscriber>(self.node.to_string());
        // A node that has nothing new to say costs a write only when its lease is half over.
        let half = now + self.lease_for / 2;
        if let Some(known) = known
            && known.last_seq == self.after
            && known.lease_until > half
        {
            return Ok((known.clone(), changes));
        }
        let subscriber = Subscriber {
            node: self.node.clone(),
            last_seq: self.after,
            lease_until: now + self.lease_for,
            updated_at: now,
        };
        changes.put(subscriber.clone());
        Ok((subscriber, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, joined, word};
    use super::*;
    use crate::limits::CURSOR_LEASE_FOR;

    fn asks(after: u64) -> NoteReader {
        NoteReader {
            node: "far".into(),
            after,
            lease_for: CURSOR_LEASE_FOR,
        }
    }

    #[test]
    fn asking_renews_a_lease_that_is_half_over_or_moves_the_place() {
        let mut swarm = Swarm::new();
        assert_eq!(word(&swarm.run(asks(0))), "node_not_found");
        joined(&mut swarm, "far");
        let first = swarm.ok(asks(0));
        assert_eq!(swarm.ok(asks(0)), first, "nothing is new");
        assert_eq!(word(&swarm.run(asks(1))), "invalid", "it is empty");
        swarm.head.outbox = 3;
        let moved = swarm.ok(asks(3));
        assert_eq!(moved.last_seq, 3);
        swarm.now = swarm.now + CURSOR_LEASE_FOR / 2;
        let renewed = swarm.ok(asks(3));
        assert!(renewed.lease_until > moved.lease_until);
        assert!(renewed.is_active(swarm.now));
        assert!(!renewed.is_active(swarm.now + CURSOR_LEASE_FOR));
    }
}
