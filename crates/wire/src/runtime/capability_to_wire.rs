//! Capabilities and reviews as they are shown, and told to other nodes.

use switchboard_core::capability::{
    Capability, CapabilityStatus, GateResult, Index, Manifest, Release, Routing, SkillRef,
};
use switchboard_core::skill_review::SkillReview;
use switchboard_core::{AgentId, CapabilityId, Timestamp};

use super::{
    CapabilityDetails, CapabilityRecord, GateRecord, IndexRecord, ProvenanceRecord, ReleaseRecord,
    ReviewRecord, RoutingRecord, SkillRefRecord,
};
use crate::{IsoTime, Json};

pub fn details(capability: &Capability) -> CapabilityDetails {
    let id = capability.id();
    CapabilityDetails {
        catalog: catalog(
            &capability.manifest,
            capability.status,
            capability.published_at,
        ),
        index: index(id, &capability.index),
        routing: routing(id, &capability.routing),
        acting_node_id: capability.routing.acting.to_string(),
    }
}

pub fn catalog(
    manifest: &Manifest,
    status: CapabilityStatus,
    published_at: Timestamp,
) -> CapabilityRecord {
    let provenance = &manifest.provenance;
    let schema = manifest.contract_schema.as_deref();
    CapabilityRecord {
        capability_id: manifest.capability.to_string(),
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        status: Some(status.into()),
        owner_agent_id: manifest.owner_agent.to_string(),
        owner_node_id: Some(manifest.owner_node.to_string()),
        delegation_skill_ref: skill(&manifest.delegation),
        executor_skill_ref: skill(&manifest.executor),
        contract_schema_ref: manifest.contract_ref.clone(),
        contract_schema: schema.map(Json::stored).unwrap_or_default(),
        default_eta_seconds: manifest.eta_seconds,
        // The index says who may do it, the routing which nodes stand in.
        eligible_agent_ids: Vec::new(),
        fallback_node_ids: Vec::new(),
        published_at: Some(iso(published_at)),
        published_by_agent_id: Some(manifest.published_by.to_string()),
        provenance: (!provenance.checksum.is_empty()).then(|| ProvenanceRecord {
            manifest_checksum: provenance.checksum.clone(),
            manifest_signature: provenance.signature.clone(),
            key_id: provenance.key_id.clone(),
        }),
    }
}

pub fn skill(skill: &SkillRef) -> SkillRefRecord {
    SkillRefRecord {
        name: skill.name.clone(),
        version: skill.version.clone(),
        path: skill.path.clone(),
    }
}

pub fn index(id: &CapabilityId, index: &Index) -> IndexRecord {
    let names = |agents: &[AgentId]| agents.iter().map(ToString::to_string).collect();
    let routes = index.eligible.iter();
    IndexRecord {
        capability_id: id.to_string(),
        eligible_agent_ids: routes
            .clone()
            .flat_map(|route| route.agents.iter().map(ToString::to_string))
            .collect(),
        policy_version: index.policy_version.clone(),
        updated_at: iso(index.updated_at),
        eligible_by_node: routes
            .map(|route| (route.node.to_string(), names(&route.agents)))
            .collect(),
    }
}

pub fn routing(id: &CapabilityId, routing: &Routing) -> RoutingRecord {
    RoutingRecord {
        owner_node_id: routing.owner.to_string(),
        fallback_node_ids: routing.fallback.iter().map(ToString::to_string).collect(),
        requires_capabilities: vec![id.to_string()],
        policy_version: routing.policy_version.clone(),
    }
}

pub fn gate(gate: &GateResult) -> GateRecord {
    GateRecord {
        gate: gate.gate.to_string(),
        outcome: gate.outcome.to_string(),
        note: gate.note.clone(),
    }
}

pub fn release(release: &Release) -> ReleaseRecord {
    ReleaseRecord {
        version: release.manifest.version.clone(),
        state: release.state.to_string(),
        at: iso(release.at),
        by: release.by.clone(),
        gates: release.gates.iter().map(gate).collect(),
    }
}

pub fn review(review: &SkillReview) -> ReviewRecord {
    let resolved = review.resolved.as_ref();
    ReviewRecord {
        review_id: review.id.clone(),
        capability_id: review.capability.to_string(),
        delegation_skill_version: review.delegation_version.clone(),
        executor_skill_version: review.executor_version.clone(),
        failure_class: review.class.to_string(),
        sample_corr_ids: review.corr_ids.iter().map(ToString::to_string).collect(),
        created_at: iso(review.created_at),
        count: review.count,
        last_at: iso(review.last_at),
        resolved_at: resolved.map(|end| iso(end.at)),
        resolved_by: resolved.map(|end| end.by.clone()),
        note: resolved.map(|end| end.why.clone()),
    }
}

fn iso(at: Timestamp) -> IsoTime {
    IsoTime(at.0)
}
