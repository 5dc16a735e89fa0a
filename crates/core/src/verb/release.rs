//! A version of a capability is published: through ten gates, in two steps. What must be run is run in between, outside.
//!
//! Until the second step everything is as it was before; a gate that does not let it pass changes nothing but what is
//! noted of this version.

use super::distribute::{distribute, want_distributed};
use super::grants::{grant, want_granted};
use super::tell_capabilities::tell;
use super::{Sweep, Verb};
use crate::capability::{
    Capability, CapabilityStatus, GateOutcome, GateResult, Index, Manifest, Policies, PublishGate,
    Release, ReleaseState, Routing, all_gates, follows,
};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, CapabilityId, NodeId};
use crate::limits;
use crate::node::{Gateway, Node, next_rev};
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::route::{Whereabouts, gateway};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// Whether this version may be published at all, by the first four gates.
#[derive(Clone, Debug, PartialEq)]
pub struct BeginRelease {
    pub manifest: Manifest,
    /// Who else may do it, by the names that they have here.
    pub eligible: Vec<AgentId>,
    pub by: String,
    /// Tells it from other tries to publish the same.
    pub attempt: String,
    /// What its checksum and signature say.
    pub provenance: GateResult,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// It is in use as it is.
    Same(Box<Capability>),
    /// The other gates are next.
    Open(Box<Release>),
    Failed(Box<Release>),
}

impl Verb for BeginRelease {
    type Reply = Begun;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let manifest = &self.manifest;
        want.private::<Gateway>("");
        want.private::<Node>(manifest.owner_node.to_string());
        want.agent(&manifest.owner_agent);
        if let Some(known) = want.private::<Capability>(manifest.capability.to_string()) {
            want.private::<Node>(known.manifest.owner_node.to_string());
        }
        want.private::<Release>(Release::key_of(&manifest.capability, &manifest.version));
        want.privates::<Release>(&Release::versions_of(&manifest.capability));
        let limit = limits::CAPABILITIES_MAX;
        want.privates::<Capability>(&Capability::of_node(&manifest.owner_node, limit));
        Whereabouts::of(want, &self.eligible);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Begun, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let id = &self.manifest.capability;
        let known = want.private::<Capability>(id.to_string());
        self.check_place(&mut want, here, known)?;
        if let Some(known) = known
            && self.is_known(&mut want, known)?
        {
            return Ok((Begun::Same(Box::new(known.clone())), Changes::default()));
        }
        let mut changes = Changes::default();
        let release = Release {
            manifest: self.resolved(&mut want, here)?,
            state: ReleaseState::Publishing,
            gates: Vec::new(),
            at: now,
            by: self.by.clone(),
            attempt: self.attempt.clone(),
            until: Some(now + limits::PUBLISHING_WITHIN),
        };
        self.make_room(&mut want, known, &mut changes)?;
        let owner = &self.manifest.owner_agent;
        let is_there = slice.agent(owner).is_some_and(|agent| agent.is_live());
        let alive = match is_there {
            true => GateResult::passed(PublishGate::OwnerAlive, ""),
            false => {
                let why = format!("agent {owner} is not at this node, or is offline");
                GateResult::failed(PublishGate::OwnerAlive, why)
            }
        };
        let gates = vec![
            GateResult::passed(PublishGate::Authorisation, format!("by {}", self.by)),
            GateResult::passed(PublishGate::Schema, ""),
            self.provenance.clone(),
            alive,
        ];
        if gates.iter().any(is_failed) {
            let failed = fail(&mut changes, release, gates);
            return Ok((Begun::Failed(Box::new(failed)), changes));
        }
        let release = Release { gates, ..release };
        if known.is_none() {
            changes.put(publishing(&release, now));
        }
        changes.put(release.clone());
        Ok((Begun::Open(Box::new(release)), changes))
    }
}

impl BeginRelease {
    /// It is published where its owner is, and each id belongs to one node.
    fn check_place(
        &self,
        want: &mut Want<'_>,
        here: &Gateway,
        known: Option<&Capability>,
    ) -> Result<(), Refusal> {
        let owner = known.filter(|known| known.status != CapabilityStatus::Retired);
        let owner = owner.map(|known| &known.manifest.owner_node);
        for node in [Some(&self.manifest.owner_node), owner]
            .into_iter()
            .flatten()
        {
            check_here(want, here, node)?;
        }
        Ok(())
    }

    /// Whether it is in use just so. A version that was published stays what it was, and no lower one follows.
    fn is_known(&self, want: &mut Want<'_>, known: &Capability) -> Result<bool, Refusal> {
        let (id, version) = (&self.manifest.capability, &self.manifest.version);
        let is_other =
            |manifest: &Manifest| manifest.provenance.checksum != self.manifest.provenance.checksum;
        let before = want.private::<Release>(Release::key_of(id, version));
        let before = before.filter(|before| before.state == ReleaseState::Published);
        let is_in_use = known.status != CapabilityStatus::Publishing;
        let is_current = is_in_use && known.manifest.version == *version;
        if before.is_some_and(|before| is_other(&before.manifest))
            || is_current && is_other(&known.manifest)
        {
            return Err(Refusal::VersionExists {
                capability: id.clone(),
                version: version.clone(),
            });
        }
        if is_current && known.is_active() {
            return Ok(true);
        }
        let returns = is_current && known.status == CapabilityStatus::Disabled;
        if is_in_use && !returns && !follows(version, &known.manifest.version) {
            let last = &known.manifest.version;
            return Err(Refusal::Invalid {
                field: "version",
                message: format!("must be higher than {last}, which {id} had last"),
            });
        }
        Ok(false)
    }

    /// The manifest with its agents by the node that they are at.
    fn resolved(&self, want: &mut Want<'_>, here: &Gateway) -> Result<Manifest, Refusal> {
        let mut names = vec![self.manifest.owner_agent.clone()];
        names.extend(self.eligible.iter().cloned());
        let mut found = Whereabouts::of(want, &names);
        let owner = &self.manifest.owner_agent;
        found.nobody.retain(|one| one != owner);
        if let Some(nobody) = found.nobody.first() {
            return Err(Refusal::Invalid {
                field: "eligible_agent_ids",
                message: format!("{nobody} is no agent of this node or of a joined one"),
            });
        }
        Ok(Manifest {
            eligible: found.routes(&here.node_id),
            ..self.manifest.clone()
        })
    }

    fn make_room(
        &self,
        want: &mut Want<'_>,
        known: Option<&Capability>,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        let limit = limits::CAPABILITIES_MAX;
        let all = Capability::of_node(&self.manifest.owner_node, limit);
        if known.is_none() && want.privates::<Capability>(&all).len() >= limit {
            return Err(Refusal::TooMany {
                what: "capabilities of one node",
                limit,
            });
        }
        let key = Release::key_of(&self.manifest.capability, &self.manifest.version);
        let versions = want.privates::<Release>(&Release::versions_of(&self.manifest.capability));
        let is_new = want.private::<Release>(key).is_none();
        if is_new && versions.len() >= limits::CAPABILITY_VERSIONS_MAX {
            let version = |release: &&Release| release.manifest.version.clone();
            let current = known.map(|known| &known.manifest.version);
            let mut old = versions.iter().rev().copied();
            let oldest = old.find(|one| Some(&one.manifest.version) != current);
            if let Some(oldest) = oldest.as_ref().map(version) {
                let key = Release::key_of(&self.manifest.capability, &oldest);
                changes.remove::<Record>(Release::at(key));
            }
        }
        Ok(())
    }
}

/// What the other gates said; if all let it pass, it is in use from here on.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishRelease {
    pub capability: CapabilityId,
    pub version: String,
    pub attempt: String,
    /// What results are checked against, also where the manifest only refers to it.
    pub contract_schema: Option<Box<str>>,
    pub gates: Vec<GateResult>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub release: Release,
    /// What is in use now, if it let it pass.
    pub capability: Option<Box<Capability>>,
}

impl Verb for FinishRelease {
    type Reply = Finished;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.private::<Gateway>("");
        want.private::<Policies>("");
        let known = want.private::<Capability>(self.capability.to_string());
        let here = known.map(|known| known.eligible_at(&known.manifest.owner_node));
        want_granted(want, here.unwrap_or_default());
        let key = Release::key_of(&self.capability, &self.version);
        let Some(release) = want.private::<Release>(key) else {
            return;
        };
        let manifest = &release.manifest;
        for route in &manifest.eligible {
            if route.node == manifest.owner_node {
                want_granted(want, &route.agents);
            }
        }
        want_distributed(want, manifest, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Finished, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let key = Release::key_of(&self.capability, &self.version);
        let open = want.private::<Release>(key).filter(|release| {
            release.state == ReleaseState::Publishing && release.attempt == self.attempt
        });
        let mut release = open.cloned().ok_or_else(|| Refusal::VersionExists {
            capability: self.capability.clone(),
            version: self.version.clone(),
        })?;
        release
            .manifest
            .contract_schema
            .clone_from(&self.contract_schema);
        let known = want.private::<Capability>(self.capability.to_string());
        let mut changes = Changes::default();
        let mut gates = std::mem::take(&mut release.gates);
        gates.extend(self.gates.iter().cloned());
        let owner = want.agent(&release.manifest.owner_agent);
        let is_there = owner.is_some_and(|agent| agent.is_live());
        if !gates.iter().any(is_failed) {
            let who = match release
                .manifest
                .eligible
                .iter()
                .map(|one| one.agents.len())
                .sum()
            {
                1_usize => "1 agent".to_owned(),
                many => format!("{many} agents"),
            };
            gates.push(GateResult::passed(PublishGate::IndexActivation, who));
            gates.push(match is_there {
                true => GateResult::passed(PublishGate::PostCheck, "its tasks find its owner"),
                false => GateResult::failed(PublishGate::PostCheck, "its owner has gone meanwhile"),
            });
        }
        if gates.iter().any(is_failed) {
            let release = fail(&mut changes, release, gates);
            roll_back(known, &mut changes);
            let finished = Finished {
                release,
                capability: None,
            };
            return Ok((finished, changes));
        }
        release = Release {
            state: ReleaseState::Published,
            gates: all_gates(gates),
            at: now,
            until: None,
            ..release
        };
        let capability = activate(&mut want, &mut changes, known, &release.manifest, now);
        changes.event(Event::CapabilityPublished {
            capability: self.capability.clone(),
            version: self.version.clone(),
            node: here.node_id.clone(),
        });
        changes.put(release.clone());
        changes.put(capability.clone());
        tell(slice, here, &capability, &mut changes, now);
        distribute(slice, here, &capability.manifest, &mut changes, now);
        let finished = Finished {
            release,
            capability: Some(Box::new(capability)),
        };
        Ok((finished, changes))
    }
}

/// The capability as it is with this version, and its skill for those who do it.
fn activate(
    want: &mut Want<'_>,
    changes: &mut Changes,
    known: Option<&Capability>,
    manifest: &Manifest,
    now: Timestamp,
) -> Capability {
    let here = &manifest.owner_node;
    let mut policies = want.private::<Policies>("").cloned().unwrap_or_default();
    let known = known.filter(|known| known.manifest.owner_node == *here);
    let is_routed = known.is_some_and(|known| {
        known.routing.fallback == manifest.fallback_nodes
            && !known.routing.policy_version.is_empty()
    });
    let capability = Capability {
        manifest: manifest.clone(),
        status: CapabilityStatus::Active,
        published_at: now,
        rev: next_rev(known.map_or(0, |known| known.rev), now),
        index: Index {
            eligible: manifest.eligible.clone(),
            policy_version: policies.next_capability(now),
            updated_at: now,
            rev: next_rev(known.map_or(0, |known| known.index.rev), now),
        },
        routing: match known.filter(|_| is_routed) {
            Some(known) => known.routing.clone(),
            None => Routing {
                owner: here.clone(),
                fallback: manifest.fallback_nodes.clone(),
                policy_version: policies.next_routing(now),
                rev: next_rev(known.map_or(0, |known| known.routing.rev), now),
                acting: here.clone(),
            },
        },
    };
    let before = known.map_or(&[][..], |known| known.granted_at(here));
    let sets = (before, capability.eligible_at(here));
    grant(want, changes, capability.id(), sets);
    changes.put(policies);
    capability
}

/// A publication that nobody goes on with has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndReleases;

impl Verb for EndReleases {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for release in want.due_privates::<Release>(now, limits::CARETAKER_STEP) {
            want.private::<Capability>(release.manifest.capability.to_string());
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let due = want.due_privates::<Release>(now, limits::CARETAKER_STEP);
        let mut changes = Changes::default();
        for release in &due {
            let mut gates = release.gates.clone();
            let next = PublishGate::ALL.iter().find(|gate| {
                let mut said = gates.iter();
                !said.any(|one| one.gate == **gate)
            });
            if let Some(next) = next {
                gates.push(GateResult::failed(*next, "nobody said in time how it went"));
            }
            fail(&mut changes, (*release).clone(), gates);
            let id = release.manifest.capability.to_string();
            roll_back(want.private::<Capability>(id), &mut changes);
        }
        let done = due.len();
        let more = done == limits::CARETAKER_STEP;
        Ok((Sweep { done, more }, changes))
    }
}

pub(super) fn check_here(
    want: &mut Want<'_>,
    here: &Gateway,
    node: &NodeId,
) -> Result<(), Refusal> {
    if *node == here.node_id {
        return Ok(());
    }
    let known = want.private::<Node>(node.to_string());
    Err(Refusal::WrongNode {
        node: node.clone(),
        endpoint: known.and_then(|known| known.endpoint.clone()),
    })
}

fn is_failed(gate: &GateResult) -> bool {
    gate.outcome == GateOutcome::Failed
}

fn fail(changes: &mut Changes, release: Release, gates: Vec<GateResult>) -> Release {
    if let Some(failed) = gates.iter().find(|gate| is_failed(gate)) {
        changes.event(Event::CapabilityRejected {
            capability: release.manifest.capability.clone(),
            version: release.manifest.version.clone(),
            gate: failed.gate.to_string(),
            why: failed.note.clone(),
        });
    }
    let failed = Release {
        state: ReleaseState::Failed,
        gates: all_gates(gates),
        until: None,
        ..release
    };
    changes.put(failed.clone());
    failed
}

/// What was there for a first version alone goes with it.
fn roll_back(known: Option<&Capability>, changes: &mut Changes) {
    if let Some(known) = known.filter(|known| known.status == CapabilityStatus::Publishing) {
        changes.remove::<Record>(Capability::at(known.id().to_string()));
    }
}

/// A capability of which there is no version yet: it routes nothing.
fn publishing(release: &Release, now: Timestamp) -> Capability {
    let owner = &release.manifest.owner_node;
    Capability {
        manifest: release.manifest.clone(),
        status: CapabilityStatus::Publishing,
        published_at: now,
        rev: 0,
        index: Index::default(),
        routing: Routing {
            owner: owner.clone(),
            fallback: Vec::new(),
            policy_version: String::new(),
            rev: 0,
            acting: owner.clone(),
        },
    }
}

#[cfg(test)]
pub(super) mod tests;
