//! Capabilities: published, refused, listed in the index, and what is routed by them.

use serde_json::{Value, json};

use super::findings::{Stop, Told};
use super::inbound::{step, task};
use super::log::is_ack;
use super::manifest::{announce, manifest, policy, publish, record};
use super::probe::Probe;
use super::wire::Answer;

pub async fn tell(probe: &Probe) -> Told {
    let here = probe.hire("asks").await?;
    far(probe, &here).await?;
    let owner = probe.hire("owner").await?;
    refused(probe, &owner).await?;
    published(probe, &here, &owner).await
}

async fn ask(probe: &Probe, here: &str, capability: &str) -> Result<Answer, Stop> {
    let mut payload = task(&probe.task_id(), "", here);
    payload["toAgents"] = json!([]);
    payload["requiredCapabilities"] = json!([capability]);
    probe.publish("task_create", here, payload, json!({})).await
}

/// One of the checker's node: its tasks go there, under the version of the index that it told last.
async fn far(probe: &Probe, here: &str) -> Told {
    let id = format!("cap.conformance.{}.far", probe.tag);
    let able = probe.name("able");
    probe.main.announce(&[&able]).await?;
    for rev in [1, 2] {
        announce(&probe.main, &id, &able, rev).await?;
        let answer = ask(probe, here, &id).await?;
        let event = match answer.status {
            201 => probe.published(&answer).await?,
            _ => Value::Null,
        };
        probe.findings.answered(
            "runtime.route.by_capability",
            answer.body["recipients"] == json!([able]),
            &answer,
            format!("{able}, who is in the index that {} told", probe.main),
        );
        if event.is_null() {
            break;
        }
        probe.findings.judge(
            "runtime.index.policy_version",
            event["trace"]["capabilityPolicyVersion"] == policy(rev),
            format!("the index as {}, then {}", policy(rev), answer.sent),
            &event,
            format!("trace.capabilityPolicyVersion {}", policy(rev)),
        );
        let reason = json!({ "reason": "overloaded" });
        probe
            .main
            .ack(&event, "failed_terminal", &able, reason)
            .await?;
    }
    Ok(())
}

/// What must not be published, one thing at a time.
async fn refused(probe: &Probe, owner: &str) -> Told {
    let nobody = probe.name("nobody");
    let missing = json!({ "name": "conformance-none", "version": "1.0.0", "path": "/skills/none" });
    for (clause, name, value) in [
        (
            "runtime.catalog.owner_active",
            "ownerAgentId",
            json!(nobody),
        ),
        (
            "runtime.catalog.executor_resolves",
            "executorSkillRef",
            missing,
        ),
        ("runtime.catalog.eta_bounds", "defaultEtaSeconds", json!(29)),
        (
            "runtime.catalog.eta_bounds",
            "defaultEtaSeconds",
            json!(86401),
        ),
    ] {
        let mut manifest = manifest(probe, &probe.capability_id("refused"), owner)?;
        manifest[name] = value;
        let answer = publish(probe, manifest).await?;
        let expected = format!("a refusal because of {name}");
        probe
            .findings
            .answered(clause, answer.is_refused(), &answer, expected);
    }
    for (name, eta) in [("soon", 30), ("late", 86400)] {
        let mut manifest = manifest(probe, &probe.capability_id(name), owner)?;
        manifest["defaultEtaSeconds"] = json!(eta);
        let answer = publish(probe, manifest).await?;
        let holds = (200..300).contains(&answer.status);
        probe
            .findings
            .answered("runtime.catalog.eta_bounds", holds, &answer, "201");
    }
    Ok(())
}

async fn published(probe: &Probe, here: &str, owner: &str) -> Told {
    let findings = &probe.findings;
    let id = probe.capability_id("near");
    let sent = manifest(probe, &id, owner)?;
    let early = ask(probe, here, &id).await?;
    findings.answered(
        "runtime.index.activates_routing",
        early.status == 400 && early.code() == "no_route",
        &early,
        "400 no_route: it is in no index yet",
    );
    let answer = publish(probe, sent.clone()).await?;
    if !(200..300).contains(&answer.status) {
        let why = format!(
            "no capability could be published: {} was answered with {answer}",
            answer.sent
        );
        findings.answered("runtime.catalog.identity", false, &answer, "201");
        return Err(Stop::Unknown(why));
    }
    let catalog = record(probe, &format!("capabilities.catalog.{id}"), |one| {
        one["status"] == "active"
    })
    .await;
    let same = |names: &[&str]| names.iter().all(|name| catalog[*name] == sent[*name]);
    let is_said = |name: &str| !catalog[name].is_null();
    for (clause, holds, expected) in [
        (
            "runtime.catalog.identity",
            same(&["capabilityId", "name", "version"]) && catalog["status"] == "active",
            "capabilityId, name, version, and status active",
        ),
        (
            "runtime.catalog.owner",
            same(&["ownerAgentId", "ownerNodeId"]),
            "ownerAgentId and ownerNodeId",
        ),
        (
            "runtime.catalog.skill_refs",
            same(&["delegationSkillRef", "executorSkillRef"]),
            "both skills with name, version and path",
        ),
        (
            "runtime.catalog.contract_schema",
            same(&["contractSchemaRef"]),
            "contractSchemaRef",
        ),
        (
            "runtime.catalog.published",
            is_said("publishedAt") && is_said("publishedByAgentId"),
            "publishedAt and publishedByAgentId",
        ),
    ] {
        findings.judge(
            clause,
            holds,
            &answer.sent,
            &catalog,
            format!("a catalog record with {expected}"),
        );
    }
    let index = record(probe, &format!("capabilities.index.{id}"), has_agents).await;
    let version = index["policyVersion"].as_str().unwrap_or_default();
    findings.judge(
        "runtime.index.fields",
        index["capabilityId"] == *id
            && index["eligibleAgentIds"] == json!([owner])
            && version.starts_with("cpv_")
            && index["updatedAt"].is_string(),
        &answer.sent,
        &index,
        "an index record with capabilityId, eligibleAgentIds, policyVersion and updatedAt",
    );
    let late = ask(probe, here, &id).await?;
    findings.answered(
        "runtime.index.activates_routing",
        late.status == 201 && late.body["recipients"] == json!([owner]),
        &late,
        format!("201, to {owner}"),
    );
    executed(probe, owner, &id).await?;
    let soon = format!("capabilities.index.cap.conformance.{}.soon", probe.tag);
    let other = record(probe, &soon, has_agents).await;
    findings.judge(
        "runtime.index.policy_version",
        other["policyVersion"] != index["policyVersion"],
        "two changes of the index",
        json!([other, index]),
        "another policyVersion for each",
    );
    metadata(probe).await
}

fn has_agents(index: &Value) -> bool {
    let agents = index["eligibleAgentIds"].as_array();
    agents.is_some_and(|agents| !agents.is_empty())
}

/// A task from elsewhere is done where the owner is.
async fn executed(probe: &Probe, owner: &str, id: &str) -> Told {
    let asker = probe.name("asks-there");
    probe.main.announce(&[&asker]).await?;
    let mut payload = task(&probe.task_id(), "", &asker);
    payload["toAgents"] = json!([]);
    payload["requiredCapabilities"] = json!([id]);
    let sent = probe
        .main
        .publish("task_create", &asker, payload.clone(), |_| {})
        .await?;
    let ack = probe
        .find(|event| is_ack(event, "accepted", &sent["eventId"]))
        .await;
    let accept = json!({ "taskId": payload["taskId"], "acceptedByAgentId": owner, "etaSeconds": 600, "planSummary": "p" });
    let answer = step(probe, "task_accept", owner, &sent, accept).await?;
    probe.findings.judge(
        "runtime.plane.owner_executes",
        ack.is_some() && answer.status == 201,
        &sent,
        format!("{}; {answer}", ack.unwrap_or_default()),
        format!("an accepted ack, and {owner} may take it"),
    );
    Ok(())
}

/// What is told to a node that joins.
async fn metadata(probe: &Probe) -> Told {
    let path = "/runtime/v1/control";
    let answer = probe
        .main
        .call(reqwest::Method::GET, path, None)
        .await?
        .found()?;
    let text = answer.body.to_string();
    let said = [
        "nothing is to be done",
        "check conformance\"",
        "resultSummary",
    ];
    let found = said.into_iter().find(|said| text.contains(said));
    probe.findings.judge(
        "runtime.plane.control_metadata_only",
        answer.status == 200 && found.is_none(),
        &answer.sent,
        found.map_or(answer.to_string(), |found| {
            format!("a record with '{found}'")
        }),
        "records, and nothing of what was said in messages and tasks",
    );
    Ok(())
}
