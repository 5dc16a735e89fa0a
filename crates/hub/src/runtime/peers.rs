//! The other nodes as they are called, each with the connections and the ticket that it has.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::NodeId;
use switchboard_core::node::Node;

use super::{Peer, Trouble};
use crate::hub::Hub;

/// At most one for each node that is joined.
#[derive(Default)]
pub struct Peers(Mutex<HashMap<NodeId, (Node, Arc<Peer>)>>);

impl Peers {
    /// The same one for as long as the row says the same.
    pub fn of(&self, hub: &Hub, node: &Node) -> Result<Arc<Peer>, Trouble> {
        let mut known = self.0.lock();
        if let Some((row, peer)) = known.get(&node.node_id)
            && row == node
        {
            return Ok(Arc::clone(peer));
        }
        let peer = Arc::new(Peer::new(hub, node)?);
        known.insert(node.node_id.clone(), (node.clone(), Arc::clone(&peer)));
        Ok(peer)
    }

    /// It is no longer joined.
    pub fn forget(&self, node: &NodeId) {
        self.0.lock().remove(node);
    }
}
