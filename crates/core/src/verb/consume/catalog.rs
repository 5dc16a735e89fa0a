//! What another node says of its capabilities: versions, who is given their tasks, which nodes they go to.
//!
//! Each has one writer, the node that owns it. Where two nodes claim the same, it is that of the one whose id sorts first.

use super::super::grants::{grant, want_granted};
use super::Consume;
use crate::capability::{Capability, CapabilityStatus, Index, Manifest, Routing};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, CapabilityId};
use crate::incident::Alarm;
use crate::limits;
use crate::node::Gateway;
use crate::outbox::Control;
use crate::record::RecordRange;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

impl Consume {
    pub(super) fn ask_catalog(&self, want: &mut Want<'_>, record: &Control) {
        let Some(id) = capability_of(record) else {
            return;
        };
        let own = want.private::<Gateway>("").map(|own| &own.node_id);
        let known = want.private::<Capability>(id.to_string());
        if let (Some(known), Some(here)) = (known, own) {
            want_granted(want, known.eligible_at(here));
        }
        if let (Control::Index { index, .. }, Some(here)) = (record, own) {
            let routes = index.eligible.iter().filter(|route| route.node == *here);
            for route in routes {
                want_granted(want, &route.agents);
            }
        }
        if let Control::Catalog { .. } = record {
            self.claimed_twice(id).asks(want);
            want.privates::<Capability>(&self.all_of_source());
        }
    }

    pub(super) fn note_capability(
        &self,
        slice: &Slice,
        rev: u64,
        record: &Control,
        changes: &mut Changes,
        now: Timestamp,
    ) {
        let mut want = Want::new(slice);
        let Some(id) = capability_of(record) else {
            return;
        };
        let known = want.private::<Capability>(id.to_string());
        let is_theirs = |known: &&Capability| known.manifest.owner_node == self.source;
        match record {
            Control::Catalog {
                manifest,
                status,
                published_at,
            } if manifest.owner_node == self.source => {
                let version = (&**manifest, *status, *published_at, rev);
                self.note_version(slice, version, known, changes, now);
            }
            Control::Index { index, .. } => {
                let known = known
                    .filter(is_theirs)
                    .filter(|known| known.index.rev < rev);
                if let Some(known) = known {
                    let index = Index {
                        rev,
                        ..index.clone()
                    };
                    let after = Capability {
                        index,
                        ..known.clone()
                    };
                    self.replace(&mut want, Some(known), after, changes);
                }
            }
            Control::Routing { routing, .. } => {
                let known = known
                    .filter(is_theirs)
                    .filter(|known| known.routing.rev < rev);
                if let Some(known) = known {
                    let routing = Routing {
                        rev,
                        owner: self.source.clone(),
                        acting: known.routing.acting.clone(),
                        ..routing.clone()
                    };
                    changes.put(Capability {
                        routing,
                        ..known.clone()
                    });
                }
            }
            Control::Catalog { .. }
            | Control::Agent { .. }
            | Control::Node(_)
            | Control::Other { .. } => {}
        }
    }

    fn note_version(
        &self,
        slice: &Slice,
        (manifest, status, published_at, rev): (&Manifest, CapabilityStatus, Timestamp, u64),
        known: Option<&Capability>,
        changes: &mut Changes,
        now: Timestamp,
    ) {
        let mut want = Want::new(slice);
        let same = known.filter(|known| known.manifest.owner_node == self.source);
        if same.is_some_and(|known| known.rev >= rev) {
            return;
        }
        let other = known.filter(|known| known.manifest.owner_node != self.source);
        let other = other.filter(|known| known.status != CapabilityStatus::Retired);
        if let Some(other) = other {
            if status != CapabilityStatus::Retired {
                self.claimed_twice(&manifest.capability)
                    .raise(slice, changes, now);
            }
            if status == CapabilityStatus::Retired || other.manifest.owner_node < self.source {
                return;
            }
        }
        let limit = limits::CAPABILITIES_MAX;
        if same.is_none() && want.privates::<Capability>(&self.all_of_source()).len() >= limit {
            return;
        }
        let is_news = !same
            .is_some_and(|known| known.is_active() && known.manifest.version == manifest.version);
        if status == CapabilityStatus::Active && is_news {
            changes.event(Event::CapabilityPublished {
                capability: manifest.capability.clone(),
                version: manifest.version.clone(),
                node: self.source.clone(),
            });
        }
        let routing = Routing {
            owner: self.source.clone(),
            fallback: Vec::new(),
            policy_version: String::new(),
            rev: 0,
            acting: self.source.clone(),
        };
        let after = Capability {
            manifest: manifest.clone(),
            status,
            published_at,
            rev,
            index: same.map_or_else(Index::default, |known| known.index.clone()),
            routing: same.map_or(routing, |known| known.routing.clone()),
        };
        self.replace(&mut want, known, after, changes);
    }

    /// Those of this node's agents that may do it have it as a skill, while it is in use.
    fn replace(
        &self,
        want: &mut Want<'_>,
        before: Option<&Capability>,
        after: Capability,
        changes: &mut Changes,
    ) {
        if let Some(own) = want.private::<Gateway>("") {
            let here = &own.node_id;
            let granted = before.map_or(&[][..], |before| before.granted_at(here));
            let sets: (&[AgentId], &[AgentId]) = (granted, after.granted_at(here));
            grant(want, changes, after.id(), sets);
        }
        changes.put(after);
    }

    fn all_of_source(&self) -> RecordRange {
        Capability::of_node(&self.source, limits::CAPABILITIES_MAX)
    }

    fn claimed_twice(&self, id: &CapabilityId) -> Alarm {
        let what = format!("it claims the capability {id}, which is another node's, too");
        Alarm {
            subject: format!("{} {id}", self.source),
            ..self.alarm("capability_id_clash", &what)
        }
    }
}

fn capability_of(record: &Control) -> Option<&CapabilityId> {
    match record {
        Control::Catalog { manifest, .. } => Some(&manifest.capability),
        Control::Index { capability, .. } | Control::Routing { capability, .. } => Some(capability),
        Control::Agent { .. } | Control::Node(_) | Control::Other { .. } => None,
    }
}
