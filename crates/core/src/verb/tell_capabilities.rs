//! The other nodes are told of this one's capabilities: as they change, and all of them once somebody has joined.

use super::Verb;
use crate::capability::Capability;
use crate::changes::Changes;
use crate::id::CorrId;
use crate::limits;
use crate::node::{Gateway, Node};
use crate::outbox::{Dispatch, News};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// All of them, as they are: who has heard it hears nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TellCapabilities;

impl Verb for TellCapabilities {
    type Reply = usize;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.privates::<Node>(&Node::all());
        if let Some(here) = want.private::<Gateway>("") {
            let limit = limits::CAPABILITIES_MAX;
            want.privates::<Capability>(&Capability::of_node(&here.node_id, limit));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(usize, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let mut changes = Changes::default();
        if want.privates::<Node>(&Node::all()).is_empty() {
            return Ok((0, changes));
        }
        let own = Capability::of_node(&here.node_id, limits::CAPABILITIES_MAX);
        for capability in want.privates::<Capability>(&own) {
            tell(slice, here, capability, &mut changes, now);
        }
        Ok((changes.dispatches.len(), changes))
    }
}

/// Its records, each under its number. The same record may be told twice within one instant, so its place in the outbox
/// tells the events apart.
pub(super) fn tell(
    slice: &Slice,
    here: &Gateway,
    capability: &Capability,
    changes: &mut Changes,
    now: Timestamp,
) {
    let id = capability.id();
    for (word, (rev, record)) in ["catalog", "index", "routing"]
        .into_iter()
        .zip(capability.records())
    {
        let place = slice.head.outbox + changes.dispatches.len() as u64;
        let salt = format!("{word}|{id}|{place}");
        let corr_id = CorrId::new(format!("corr_{word}_{id}"));
        let news = News::Signal { rev, record };
        let told = Dispatch::own(&here.node_id, &salt, corr_id, news, now);
        changes.dispatches.push(told);
    }
}
