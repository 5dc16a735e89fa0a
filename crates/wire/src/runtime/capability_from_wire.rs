//! Capabilities as they come, checked: a manifest that somebody publishes, and the records of other nodes.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use switchboard_core::capability::{self, Index, Manifest, PREFIX, Provenance, Routing, SkillRef};
use switchboard_core::outbox::{Control, Route};
use switchboard_core::{AgentId, CapabilityId, NodeId, STEWARD, Timestamp, limits};

use super::from_wire::node_id;
use super::{
    CapabilityRecord, CapabilityStatus, IndexRecord, ProvenanceRecord, RoutingRecord,
    SkillRefRecord,
};
use crate::jetpack::from_wire::check::{self, agent_id};
use crate::redact;
use crate::signature::{from_hex, to_hex};
use crate::words::mirror;
use crate::{Malformed, canonical, parse};

/// What the envelope of a call may have beside a manifest.
const ENVELOPE: [&str; 7] = [
    "protocolVersion",
    "operation",
    "requestId",
    "agentId",
    "timestamp",
    "nonce",
    "signature",
];

/// A manifest that somebody publishes, and the agents that it names beside its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub manifest: Manifest,
    pub eligible: Vec<AgentId>,
    /// What its checksum and its signature are of.
    pub signed: String,
}

/// Reads a manifest. `here` is this node; what has its secrets written out is no manifest.
pub fn manifest(body: &[u8], here: &NodeId) -> Result<Given, Malformed> {
    let record: CapabilityRecord = parse(body)?;
    let mut whole: Value = parse(body)?;
    if let Some(members) = whole.as_object_mut() {
        members.retain(|name, _| !ENVELOPE.contains(&name.as_str()));
    }
    let signed = signed(&whole);
    if let Some(place) = secret(&without_provenance(whole)) {
        let message =
            "holds a secret; refer to it by its name, and give it to the agent that needs it";
        return Err(Malformed::field(place, message));
    }
    let (mut manifest, eligible) = read(&record, "", here)?;
    let checksum = checksum(&signed);
    match record.provenance {
        Some(provenance) => check_provenance(&provenance)?,
        None => manifest.provenance.checksum = checksum,
    }
    Ok(Given {
        manifest,
        eligible,
        signed,
    })
}

/// `sha256:` and hexadecimal.
pub fn checksum(signed: &str) -> String {
    let hash = digest::digest(&digest::SHA256, signed.as_bytes());
    format!("sha256:{}", to_hex(hash.as_ref()))
}

/// What the checksum and the signature of a manifest are of: itself with both empty, keys sorted, as compact JSON.
pub fn signed(manifest: &Value) -> String {
    let mut blank = manifest.clone();
    if let Some(members) = blank.as_object_mut() {
        let provenance = members.entry("provenance").or_insert_with(|| json!({}));
        provenance["manifestChecksum"] = json!("");
        provenance["manifestSignature"] = json!("");
    }
    canonical(&blank)
}

/// The signature as hexadecimal digits, as [`super::proof::is_signed`] takes it.
pub fn signature(text: &str) -> Option<String> {
    let coded = text.strip_prefix("ed25519:")?;
    STANDARD.decode(coded).ok().map(|bytes| to_hex(&bytes))
}

fn check_provenance(given: &ProvenanceRecord) -> Result<(), Malformed> {
    let digits = given.manifest_checksum.strip_prefix("sha256:");
    if digits
        .and_then(from_hex)
        .is_none_or(|hash| hash.len() != 32)
    {
        let message = "must be sha256: and 64 hexadecimal digits";
        return Err(Malformed::field("provenance.manifestChecksum", message));
    }
    if let Some(text) = &given.manifest_signature
        && signature(text).is_none_or(|digits| digits.len() != 128)
    {
        let message = "must be ed25519: and a signature of 64 bytes in Base64";
        return Err(Malformed::field("provenance.manifestSignature", message));
    }
    match &given.key_id {
        Some(key) => check::id("provenance.keyId", key).map(drop),
        None => Ok(()),
    }
}

fn without_provenance(mut whole: Value) -> Value {
    if let Some(members) = whole.as_object_mut() {
        members.remove("provenance");
    }
    whole
}

/// Where a secret is written out, if one is.
fn secret(whole: &Value) -> Option<String> {
    let members = whole.as_object()?.iter();
    let mut found = members.filter(|(name, member)| {
        let mut alone = json!({ name.as_str(): member });
        redact::value(&mut alone)
    });
    found.next().map(|(name, _)| name.clone())
}

pub fn capability_id(field: &str, text: &str) -> Result<CapabilityId, Malformed> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let begins =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let rest = text.strip_prefix(PREFIX);
    if text.len() <= limits::CAPABILITY_ID_BYTES_MAX
        && rest.is_some_and(|rest| begins(rest) && rest.bytes().all(fits))
    {
        return Ok(CapabilityId::from(text));
    }
    let max = limits::CAPABILITY_ID_BYTES_MAX;
    let message = format!(
        "must be cap. and lower-case letters, digits, '.', '_' and '-', at most {max} bytes"
    );
    Err(Malformed::field(field, message))
}

/// What a record says of a version, and whom it names beside its owner. `at` is the path to it.
pub(super) fn read(
    record: &CapabilityRecord,
    at: &str,
    here: &NodeId,
) -> Result<(Manifest, Vec<AgentId>), Malformed> {
    let place = |name: &str| format!("{at}{name}");
    check::filled(&place("name"), &record.name, limits::NAME_BYTES_MAX)?;
    if !capability::is_version(&record.version) {
        let message = "must be a version as semver has it, such as 1.3.0";
        return Err(Malformed::field(place("version"), message));
    }
    let (min, max) = (
        limits::CAPABILITY_ETA_SECONDS_MIN,
        limits::CAPABILITY_ETA_SECONDS_MAX,
    );
    if !(min..=max).contains(&record.default_eta_seconds) {
        let message = format!("must be {min} to {max}");
        return Err(Malformed::field(place("defaultEtaSeconds"), message));
    }
    let contract_ref = record.contract_schema_ref.clone();
    if let Some(text) = &contract_ref {
        let field = place("contractSchemaRef");
        check::id(&field, text)?;
        if !text.starts_with(SCHEMA) {
            return Err(Malformed::field(field, format!("must begin with {SCHEMA}")));
        }
    }
    let schema = &record.contract_schema;
    let most = limits::CONTRACT_SCHEMA_BYTES_MAX;
    check::text(&place("contractSchema"), schema.get(), most)?;
    let fallback = &record.fallback_node_ids;
    let (named, most) = (&record.eligible_agent_ids, limits::ELIGIBLE_MAX - 1);
    let nodes = check::each(
        &place("fallbackNodeIds"),
        fallback,
        limits::FALLBACK_NODES_MAX,
        |place, id| node_id(place, id),
    )?;
    let eligible = check::each(&place("eligibleAgentIds"), named, most, |place, id| {
        agent_id(place, id)
    })?;
    let owner_node = record.owner_node_id.as_deref();
    let owner_node = owner_node.map(|id| node_id(&place("ownerNodeId"), id));
    let by = record.published_by_agent_id.as_deref().unwrap_or(STEWARD);
    let provenance = record.provenance.clone();
    let manifest = Manifest {
        capability: capability_id(&place("capabilityId"), &record.capability_id)?,
        name: record.name.clone(),
        version: record.version.clone(),
        owner_agent: agent_id(&place("ownerAgentId"), &record.owner_agent_id)?,
        owner_node: owner_node.unwrap_or_else(|| Ok(here.clone()))?,
        delegation: skill(&place("delegationSkillRef"), &record.delegation_skill_ref)?,
        executor: skill(&place("executorSkillRef"), &record.executor_skill_ref)?,
        contract_ref,
        contract_schema: (!schema.is_null()).then(|| schema.get().into()),
        eta_seconds: record.default_eta_seconds,
        eligible: Vec::new(),
        fallback_nodes: nodes,
        provenance: Provenance {
            checksum: provenance
                .as_ref()
                .map(|one| one.manifest_checksum.clone())
                .unwrap_or_default(),
            signature: provenance
                .as_ref()
                .and_then(|one| one.manifest_signature.clone()),
            key_id: provenance.and_then(|one| one.key_id),
        },
        published_by: AgentId::from(check::id(&place("publishedByAgentId"), by)?),
    };
    Ok((manifest, eligible))
}

/// What a reference to a schema begins with.
pub const SCHEMA: &str = "schema://";

pub(super) fn skill(field: &str, given: &SkillRefRecord) -> Result<SkillRef, Malformed> {
    let name = format!("{field}.name");
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    check::filled(&name, &given.name, limits::ID_BYTES_MAX)?;
    if given.name.starts_with('.') || !given.name.bytes().all(fits) {
        let message = "must be letters, digits, '.', '_' and '-', and not begin with '.'";
        return Err(Malformed::field(name, message));
    }
    if !capability::is_version(&given.version) {
        let message = "must be a version as semver has it, such as 1.3.0";
        return Err(Malformed::field(format!("{field}.version"), message));
    }
    check::text(
        &format!("{field}.path"),
        &given.path,
        limits::PATH_BYTES_MAX,
    )?;
    Ok(SkillRef {
        name: given.name.clone(),
        version: given.version.clone(),
        path: given.path.clone(),
    })
}

/// A record of another node, if its path is one of these.
pub(super) fn control(
    path: &str,
    record: &crate::Json,
    rev: u64,
    source: &NodeId,
) -> Option<Result<Control, Malformed>> {
    let (word, id) = path.strip_prefix("capabilities.")?.split_once('.')?;
    let wrong =
        |error: serde_json::Error| Malformed::field(RECORD, crate::in_words(&error.to_string()));
    Some(match word {
        "catalog" => record
            .read()
            .map_err(wrong)
            .and_then(|one| catalog(&one, id, source)),
        "index" => record
            .read()
            .map_err(wrong)
            .and_then(|one| index(&one, id, rev, source)),
        "routing" => record
            .read()
            .map_err(wrong)
            .and_then(|one| routing(&one, id, rev)),
        _ => return None,
    })
}

const RECORD: &str = "payload.record";

fn catalog(record: &CapabilityRecord, id: &str, source: &NodeId) -> Result<Control, Malformed> {
    let (manifest, _) = read(record, "payload.record.", source)?;
    if manifest.capability.as_str() != id {
        let message = format!("must be {id}, as in the path");
        return Err(Malformed::field("payload.record.capabilityId", message));
    }
    let status = record.status.unwrap_or(CapabilityStatus::Active);
    Ok(Control::Catalog {
        manifest: Box::new(manifest),
        status: status.into(),
        published_at: Timestamp(record.published_at.map_or(0, |at| at.0)),
    })
}

fn index(record: &IndexRecord, id: &str, rev: u64, source: &NodeId) -> Result<Control, Malformed> {
    let most = limits::ELIGIBLE_MAX;
    let field = "payload.record.eligibleAgentIds";
    let named = check::each(field, &record.eligible_agent_ids, most, |place, id| {
        agent_id(place, id)
    })?;
    let mut eligible = Vec::new();
    let field = "payload.record.eligibleByNode";
    for (node, agents) in record.eligible_by_node.iter().take(limits::NODES_MAX) {
        let agents = check::each(field, agents, most, |place, id| agent_id(place, id))?;
        let node = node_id(field, node)?;
        eligible.push(Route { node, agents });
    }
    if eligible.is_empty() && !named.is_empty() {
        let node = source.clone();
        eligible.push(Route {
            node,
            agents: named,
        });
    }
    Ok(Control::Index {
        capability: capability_id("payload.path", id)?,
        index: Index {
            eligible,
            policy_version: version("payload.record.policyVersion", &record.policy_version)?,
            updated_at: Timestamp(record.updated_at.0),
            rev,
        },
    })
}

fn routing(record: &RoutingRecord, id: &str, rev: u64) -> Result<Control, Malformed> {
    let field = "payload.record.fallbackNodeIds";
    let most = limits::FALLBACK_NODES_MAX;
    let owner = node_id("payload.record.ownerNodeId", &record.owner_node_id)?;
    Ok(Control::Routing {
        capability: capability_id("payload.path", id)?,
        routing: Routing {
            acting: owner.clone(),
            owner,
            fallback: check::each(field, &record.fallback_node_ids, most, |place, id| {
                node_id(place, id)
            })?,
            policy_version: version("payload.record.policyVersion", &record.policy_version)?,
            rev,
        },
    })
}

pub(super) fn version(field: &str, text: &str) -> Result<String, Malformed> {
    check::text(field, text, limits::ID_BYTES_MAX).map(|()| text.to_owned())
}

mirror!(CapabilityStatus, capability::CapabilityStatus {
    Publishing = Publishing, Active = Active, Disabled = Disabled, Retired = Retired,
});
