//! Capabilities that the checker publishes, at the hub and at a node of its own.

use serde_json::{Value, json};
use switchboard_wire::{Fingerprint, canonical};

use super::findings::Stop;
use super::gateway::{Gateway, merge};
use super::probe::Probe;
use super::wire::Answer;
use crate::transport::now;

pub const PATH: &str = "/runtime/v1/capabilities";

/// What the hub is asked to publish: version 1.0.0 of something that one of its agents does.
pub fn manifest(probe: &Probe, id: &str, owner: &str) -> Result<Value, Stop> {
    let Some((skill, version)) = &probe.settings.skill else {
        let why = "a capability names a skill that is installed at its node: name one with --skill";
        return Err(Stop::unknown(why));
    };
    let of =
        |name: &str| json!({ "name": name, "version": version, "path": format!("/skills/{name}") });
    Ok(json!({
        "capabilityId": id, "name": "a check of conformance", "version": "1.0.0", "ownerAgentId": owner,
        "ownerNodeId": probe.main.hub(), "delegationSkillRef": of(skill), "executorSkillRef": of(skill),
        "contractSchemaRef": format!("schema://conformance/{id}/1.0.0"), "contractSchema": contract(),
        "defaultEtaSeconds": 900, "publishedByAgentId": owner,
    }))
}

/// What its results are to be.
fn contract() -> Value {
    json!({ "type": "object", "required": ["verdict"], "properties": { "verdict": { "type": "string" } } })
}

/// Publishes a manifest, with its checksum: of its canonical form in which checksum and signature are blank.
pub async fn publish(probe: &Probe, mut manifest: Value) -> Result<Answer, Stop> {
    manifest["provenance"] = json!({ "manifestChecksum": "", "manifestSignature": "" });
    let text = canonical(&manifest);
    manifest["provenance"] =
        json!({ "manifestChecksum": Fingerprint::of(text.as_bytes()).to_string() });
    probe.post(PATH, &manifest).await?.found()
}

/// The first such record that the hub told under this path; null if there is none in time.
pub async fn record(probe: &Probe, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let is_it = |event: &Value| {
        let payload = &event["payload"];
        event["kind"] == "signal" && payload["path"] == path && is(&payload["record"])
    };
    let found = probe.find(is_it).await;
    found.map_or(Value::Null, |event| event["payload"]["record"].clone())
}

/// A capability of the checker's own node, as the document has its records.
pub async fn announce(node: &Gateway, id: &str, owner: &str, rev: u64) -> Result<(), Stop> {
    let at = now();
    let skill = json!({ "name": "conformance", "version": "1.0.0", "path": "/skills/conformance" });
    let catalog = json!({
        "capabilityId": id, "name": "a check of conformance", "version": "1.0.0", "status": "active",
        "ownerAgentId": owner, "ownerNodeId": node.id, "delegationSkillRef": skill, "executorSkillRef": skill,
        "contractSchemaRef": format!("schema://conformance/{id}/1.0.0"), "defaultEtaSeconds": 900,
        "publishedAt": at, "publishedByAgentId": owner,
    });
    let index = json!({
        "capabilityId": id, "eligibleAgentIds": [owner], "policyVersion": policy(rev), "updatedAt": at,
    });
    let routing = json!({
        "ownerNodeId": node.id, "fallbackNodeIds": [], "requiresCapabilities": [id],
        "policyVersion": format!("rpv_2026_01_01_{rev}"),
    });
    for (list, record) in [("catalog", catalog), ("routing", routing), ("index", index)] {
        let mut payload = json!({ "path": format!("capabilities.{list}.{id}"), "rev": rev });
        merge(&mut payload, json!({ "record": record }));
        node.publish("signal", owner, payload, |_| {}).await?;
    }
    Ok(())
}

/// The n-th change of a day.
pub fn policy(n: u64) -> String {
    format!("cpv_2026_01_01_{n}")
}
