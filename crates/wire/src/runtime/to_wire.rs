//! Nodes as others see them.

use switchboard_core::node as core;

use super::{Node, NodeHealth, NodeRecord, NodeStatus, OwnNode, Reach, Tier};
use crate::words::mirror;

/// `is_cut`: neither has an address, and nothing of it was ever read.
pub fn node(row: &core::Node, is_cut: bool) -> Node {
    Node {
        node_id: row.node_id.to_string(),
        status: match row.left {
            None => NodeStatus::Joined,
            Some(_) => NodeStatus::Left,
        },
        endpoint: row.endpoint.clone(),
        reach: match row.reach() {
            core::Reach::Pull => Reach::Pull,
            core::Reach::Push if is_cut => Reach::Unreachable,
            core::Reach::Push => Reach::Push,
        },
        tier: row.tier.into(),
        protocol_version: row.protocol_version.clone(),
        public_key: row.public_key.clone(),
        certificate: row.certificate.clone(),
        joined_at: row.joined_at.into(),
        left_at: row.left.as_ref().map(|left| left.at.into()),
        invited_by: row.invited_by.clone(),
        vouched_by: row.vouched_by.as_ref().map(ToString::to_string),
    }
}

/// The same in a record of the control plane.
pub fn record(row: &core::Node, status: NodeHealth) -> NodeRecord {
    NodeRecord {
        node_id: row.node_id.to_string(),
        tier: row.tier.into(),
        endpoint: row.endpoint.clone(),
        certificate: row.certificate.clone(),
        status,
        protocol_version: row.protocol_version.clone(),
        public_key: row.public_key.clone(),
        vouched_by: row.vouched_by.as_ref().map(ToString::to_string),
    }
}

/// The key itself is not shown, but what belongs to it.
pub fn own(row: &core::Gateway, public_key: String) -> OwnNode {
    OwnNode {
        node_id: row.node_id.to_string(),
        epoch: row.route_epoch.clone(),
        endpoint: row.endpoint.clone(),
        tier: row.tier.into(),
        protocol_version: core::PROTOCOL_VERSION.to_owned(),
        public_key,
        created_at: row.created_at.into(),
    }
}

mirror!(Tier, core::Tier {
    Backbone = Backbone, Edge = Edge,
});
