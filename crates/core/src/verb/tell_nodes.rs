//! Somebody has joined who cannot ask this node: it is told once more which nodes are known here first hand.

use super::Verb;
use crate::changes::Changes;
use crate::node::{Gateway, Node};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TellNodes;

impl Verb for TellNodes {
    /// How many there are.
    type Reply = usize;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Gateway>("");
        want.privates::<Node>(&Node::all());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(usize, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let mut changes = Changes::default();
        let known = want.privates::<Node>(&Node::all()).into_iter();
        for node in known.filter(|node| node.vouched_by.is_none()) {
            node.clone().tell(&here.node_id, &mut changes, now);
        }
        Ok((changes.dispatches.len(), changes))
    }
}
