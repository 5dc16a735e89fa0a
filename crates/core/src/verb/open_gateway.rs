//! A hub that starts says which node its ledger is; the first one makes it so.

use super::Verb;
use crate::changes::Changes;
use crate::id::NodeId;
use crate::iso::Printed;
use crate::node::{Gateway, Node, NodeKey, Tier, Timings, next_rev};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGateway {
    /// What the settings call it, if they do.
    pub node_id: Option<NodeId>,
    /// What it is called otherwise, if it has no id yet.
    pub fresh_id: NodeId,
    /// Its key, if it has none yet.
    pub fresh_key: NodeKey,
    /// Of the key that it has, if it has one.
    pub public_key: Option<String>,
    pub endpoint: Option<String>,
    pub tier: Tier,
    pub timings: Timings,
}

impl Verb for OpenGateway {
    type Reply = Gateway;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Gateway>("");
        want.privates::<Node>(&Node::all());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Gateway, Changes), Refusal> {
        let known = Want::new(slice).private::<Gateway>("");
        if let (Some(known), Some(wanted)) = (known, &self.node_id)
            && known.node_id != *wanted
        {
            return Err(Refusal::Invalid {
                field: "runtime.node_id",
                message: format!(
                    "runtime.node_id is {wanted}, but this ledger is node {}, and stays it; remove the setting, or set it to that",
                    known.node_id
                ),
            });
        }
        let mut gateway = known.cloned().unwrap_or_else(|| Gateway {
            node_id: self.node_id.as_ref().unwrap_or(&self.fresh_id).clone(),
            route_epoch: format!("route-epoch-{}", Printed::new(now).as_str()),
            created_at: now,
            endpoint: None,
            tier: self.tier,
            key: self.fresh_key.clone(),
            timings: self.timings,
            moved_after: None,
        });
        gateway.endpoint.clone_from(&self.endpoint);
        gateway.tier = self.tier;
        gateway.timings = self.timings;
        let mut changes = Changes::default();
        // Those who know it by another address are told.
        let has_moved = known.is_some_and(|known| known.endpoint != gateway.endpoint)
            && gateway.endpoint.is_some();
        if has_moved
            && let Some(public_key) = &self.public_key
            && !Want::new(slice).privates::<Node>(&Node::all()).is_empty()
        {
            gateway.moved_after = Some(slice.head.outbox);
            let node = Node {
                rev: next_rev(0, now),
                ..gateway.as_node(public_key)
            };
            changes.dispatches.push(node.signal(&gateway.node_id, now));
        }
        if known != Some(&gateway) {
            changes.put(gateway.clone());
        }
        Ok((gateway, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, node, word};
    use super::super::{KeepNode, NoteReader};
    use super::*;
    use crate::outbox::{Control, News, Outgoing};
    use crate::record::Listed as _;

    fn open(node_id: Option<&str>, fresh: &str) -> OpenGateway {
        OpenGateway {
            node_id: node_id.map(Into::into),
            fresh_id: fresh.into(),
            fresh_key: NodeKey(format!("key of {fresh}")),
            public_key: None,
            endpoint: None,
            tier: Tier::Backbone,
            timings: Timings::default(),
        }
    }

    #[test]
    fn a_ledger_is_made_a_node_once_and_follows_the_settings_that_may_change() {
        let mut swarm = Swarm::new();
        let first = swarm.ok(open(None, "n1"));
        assert_eq!(first.node_id.as_str(), "n1");
        assert_eq!(first.route_epoch, "route-epoch-2025-10-09T08:53:20.000Z");
        assert!(!format!("{first:?}").contains("key of"));
        swarm.wait(Duration::from_secs(1));
        assert_eq!(swarm.ok(open(None, "n2")), first);
        assert_eq!(swarm.ok(open(Some("n1"), "n2")), first);
        let moved = OpenGateway {
            endpoint: Some("https://a.example".to_owned()),
            tier: Tier::Edge,
            ..open(None, "n2")
        };
        let moved = swarm.ok(moved);
        assert_eq!(moved.endpoint.as_deref(), Some("https://a.example"));
        assert_eq!(moved.tier, Tier::Edge);
        assert_eq!(moved.key, first.key);
        assert_eq!(moved.route_epoch, first.route_epoch);
        assert_eq!(swarm.ok(open(None, "n2")), first, "as the settings say");
    }

    #[test]
    fn whoever_knows_it_by_another_address_is_told_where_it_is() {
        let mut swarm = Swarm::new();
        swarm.ok(open(Some("n1"), "n1"));
        let at = |endpoint: Option<&str>| OpenGateway {
            endpoint: endpoint.map(str::to_owned),
            public_key: Some("key".to_owned()),
            ..open(None, "n2")
        };
        let told = |swarm: &Swarm| {
            let rows = swarm.records.values().filter_map(Outgoing::of);
            let nodes = rows.filter_map(|row| match &row.event.news {
                News::Signal {
                    record: Control::Node(node),
                    ..
                } if node.node_id.as_str() == "n1" => Some((row.seq, node.endpoint.clone()?)),
                _ => None,
            });
            nodes.collect::<Vec<_>>()
        };
        let alone = swarm.ok(at(Some("https://a.example")));
        assert_eq!((told(&swarm), alone.moved_after), (vec![], None));
        swarm.ok(KeepNode { node: node("far") });
        let last = swarm.head.outbox;
        let moved = swarm.ok(at(Some("https://b.example")));
        let expected = (last + 1, "https://b.example".to_owned());
        assert_eq!(told(&swarm), std::slice::from_ref(&expected));
        assert_eq!(moved.moved_after, Some(last));
        assert_eq!(swarm.ok(at(Some("https://b.example"))), moved);
        swarm.ok(at(None));
        assert_eq!(told(&swarm), [expected], "it brings its events from now on");
        let reads = |after| NoteReader {
            node: "far".into(),
            after,
            lease_for: Duration::from_secs(300),
        };
        assert!(!moved.is_found_by(None));
        assert!(!moved.is_found_by(Some(&swarm.ok(reads(last)))));
        assert!(moved.is_found_by(Some(&swarm.ok(reads(last + 1)))));
    }

    #[test]
    fn the_settings_name_a_node_only_before_it_has_an_id() {
        let mut swarm = Swarm::new();
        assert_eq!(swarm.ok(open(Some("a"), "n1")).node_id.as_str(), "a");
        let other = swarm.run(open(Some("b"), "n1"));
        assert_eq!(word(&other), "invalid");
        let told = other.unwrap_err().to_string();
        assert!(told.contains("is b") && told.contains("node a"), "{told}");
    }
}
