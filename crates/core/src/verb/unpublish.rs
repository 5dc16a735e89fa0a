//! A capability is disabled, or taken back: nothing is routed by it any more.

use super::Verb;
use super::grants::{grant, want_granted};
use super::release::check_here;
use super::tell_capabilities::tell;
use crate::capability::{Capability, CapabilityStatus, Policies};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::CapabilityId;
use crate::node::{Gateway, Node, next_rev};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpublish {
    pub capability: CapabilityId,
    pub by: String,
    /// Only until the same version is published again.
    pub disable: bool,
}

impl Verb for Unpublish {
    type Reply = Capability;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Gateway>("");
        want.private::<Policies>("");
        if let Some(known) = want.private::<Capability>(self.capability.to_string()) {
            let owner = &known.manifest.owner_node;
            want.private::<Node>(owner.to_string());
            want_granted(want, known.eligible_at(owner));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Capability, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let known = want.private::<Capability>(self.capability.to_string());
        let known = known.filter(|known| known.status != CapabilityStatus::Publishing);
        let mut capability = known.cloned().ok_or_else(|| Refusal::CapabilityNotFound {
            capability: self.capability.clone(),
        })?;
        check_here(&mut want, here, &capability.manifest.owner_node)?;
        let status = match self.disable {
            true if capability.status != CapabilityStatus::Retired => CapabilityStatus::Disabled,
            true | false => CapabilityStatus::Retired,
        };
        let mut changes = Changes::default();
        if capability.status == status {
            return Ok((capability, changes));
        }
        let before = capability.eligible_at(&here.node_id);
        grant(&mut want, &mut changes, &self.capability, (before, &[]));
        let mut policies = want.private::<Policies>("").cloned().unwrap_or_default();
        capability.status = status;
        capability.rev = next_rev(capability.rev, now);
        capability.index.eligible.clear();
        capability.index.policy_version = policies.next_capability(now);
        capability.index.updated_at = now;
        capability.index.rev = next_rev(capability.index.rev, now);
        changes.event(Event::CapabilityWithdrawn {
            capability: self.capability.clone(),
            status: status.to_string(),
            by: self.by.clone(),
        });
        changes.put(policies);
        changes.put(capability.clone());
        tell(slice, here, &capability, &mut changes, now);
        Ok((capability, changes))
    }
}
