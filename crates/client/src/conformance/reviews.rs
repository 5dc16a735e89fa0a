//! What becomes a review: tasks that fail, results that break their contract, and routes that lead nowhere.

use serde_json::{Value, json};

use super::findings::{Stop, Told};
use super::inbound::{step, task};
use super::log::is_ack;
use super::manifest::{manifest, publish};
use super::probe::Probe;
use super::wire::Answer;
use crate::transport::now;

/// So often in ten minutes is repeatedly.
const REPEATEDLY: usize = 3;

pub async fn tell(probe: &Probe) -> Told {
    let asker = probe.name("reviewed");
    probe.main.announce(&[&asker]).await?;
    let owner = probe.hire("fails").await?;
    failed(probe, &asker, &owner).await?;
    broken(probe, &asker, &owner).await?;
    nowhere(probe).await
}

/// A capability of the hub with one agent.
pub async fn capability(probe: &Probe, name: &str, owner: &str) -> Result<(String, Answer), Stop> {
    let id = probe.capability_id(name);
    let answer = publish(probe, manifest(probe, &id, owner)?)
        .await?
        .expect(201)?;
    Ok((id, answer))
}

/// A task of it that its owner has taken.
pub async fn taken(
    probe: &Probe,
    asker: &str,
    owner: &str,
    capability: &str,
    eta: Value,
) -> Result<Value, Stop> {
    let mut payload = task(&probe.task_id(), "", asker);
    payload["toAgents"] = json!([]);
    payload["requiredCapabilities"] = json!([capability]);
    let sent = probe
        .main
        .publish("task_create", asker, payload, |_| {})
        .await?;
    let accepted = probe
        .find(|event| is_ack(event, "accepted", &sent["eventId"]))
        .await;
    if accepted.is_none() {
        return Err(Stop::Unknown(format!(
            "a task by capability was not accepted: {sent}"
        )));
    }
    let accept = json!({ "taskId": sent["payload"]["taskId"], "acceptedByAgentId": owner, "etaAt": eta, "planSummary": "p" });
    step(probe, "task_accept", owner, &sent, accept)
        .await?
        .expect(201)?;
    Ok(sent)
}

/// The open reviews of a capability.
pub async fn reviews(probe: &Probe, capability: &str) -> Result<Value, Stop> {
    let answer = probe.get("/runtime/v1/reviews").await?.expect(200)?;
    let all = answer.body["reviews"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    Ok(all
        .into_iter()
        .filter(|one| one["capabilityId"] == capability)
        .collect())
}

fn of_class(all: &Value, class: &str) -> Value {
    let all = all.as_array().cloned().unwrap_or_default();
    let mut found = all.into_iter().filter(|one| one["failureClass"] == class);
    found.next().unwrap_or_default()
}

async fn failed(probe: &Probe, asker: &str, owner: &str) -> Told {
    let (id, _) = capability(probe, "failing", owner).await?;
    let eta = json!(switchboard_wire::IsoTime(now().0 + 600_000));
    let mut corrs = Vec::new();
    for _ in 0..2 {
        let sent = taken(probe, asker, owner, &id, eta.clone()).await?;
        let failed = json!({
            "taskId": sent["payload"]["taskId"], "failedByAgentId": owner, "failureClass": "dependency_missing",
            "errorSummary": "nothing to do it with", "failedAt": now(),
        });
        step(probe, "task_failed", owner, &sent, failed)
            .await?
            .expect(201)?;
        corrs.push(sent["corrId"].clone());
    }
    let look = async || reviews(probe, &id).await;
    let has_both = |all: &Value| {
        of_class(all, "dependency_missing")["sampleCorrIds"]
            .as_array()
            .is_some_and(|list| list.len() > 1)
    };
    let (_, all) = probe.eventually(look, has_both).await?;
    let review = of_class(&all, "dependency_missing");
    let sent = format!("two tasks of {id} that failed");
    probe.findings.judge(
        "runtime.review.task_failed",
        !review.is_null(),
        &sent,
        &all,
        "a review of class dependency_missing",
    );
    if review.is_null() {
        return Ok(());
    }
    let is_said = |name: &str| review[name].as_str().is_some_and(|text| !text.is_empty());
    let (_, version) = probe.settings.skill.clone().unwrap_or_default();
    probe.findings.judge(
        "runtime.review.identity",
        is_said("reviewId")
            && review["delegationSkillVersion"] == version
            && review["executorSkillVersion"] == version,
        &sent,
        &review,
        "reviewId, capabilityId and the versions of both skills",
    );
    let list = review["sampleCorrIds"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let is_one = all.as_array().is_some_and(|all| all.len() == 1);
    probe.findings.judge(
        "runtime.review.evidence",
        is_said("createdAt") && is_one && corrs.iter().all(|corr| list.contains(corr)),
        &sent,
        &all,
        format!("one review with createdAt and sampleCorrIds {corrs:?}"),
    );
    Ok(())
}

/// A result that is not what the contract says.
async fn broken(probe: &Probe, asker: &str, owner: &str) -> Told {
    let (id, _) = capability(probe, "breaking", owner).await?;
    let eta = json!(switchboard_wire::IsoTime(now().0 + 600_000));
    let sent = taken(probe, asker, owner, &id, eta).await?;
    let complete = json!({
        "taskId": sent["payload"]["taskId"], "completedByAgentId": owner, "resultSummary": "done", "completedAt": now(),
        "result": { "output": { "verdict": 7 } },
    });
    let answer = step(probe, "task_complete", owner, &sent, complete).await?;
    let look = async || reviews(probe, &id).await;
    let is_it = |all: &Value| !of_class(all, "contract_violation").is_null();
    let (holds, all) = probe.eventually(look, is_it).await?;
    let done = probe.log.all().into_iter().find(|event| {
        event["kind"] == "task_complete" && event["payload"]["taskId"] == sent["payload"]["taskId"]
    });
    probe.findings.judge(
        "runtime.review.schema_failed",
        holds && done.is_none(),
        &answer.sent,
        format!("{answer}; reviews {all}; {}", done.unwrap_or_default()),
        "a review of class contract_violation, and no task_complete",
    );
    Ok(())
}

/// A capability whose only agent is gone.
async fn nowhere(probe: &Probe) -> Told {
    let here = probe.hire_another("lost").await?;
    let owner = probe.hire_another("goes").await?;
    let (id, _) = capability(probe, "unreached", &owner).await?;
    probe.dismiss(&owner).await?;
    let mut answers = Vec::new();
    for _ in 0..REPEATEDLY {
        let mut payload = task(&probe.task_id(), "", &here);
        payload["toAgents"] = json!([]);
        payload["requiredCapabilities"] = json!([id]);
        answers.push(
            probe
                .publish("task_create", &here, payload, json!({}))
                .await?
                .to_string(),
        );
    }
    let look = async || reviews(probe, &id).await;
    let is_there = |all: &Value| all.as_array().is_some_and(|all| !all.is_empty());
    let (holds, all) = probe.eventually(look, is_there).await?;
    probe.findings.judge(
        "runtime.review.route_failing",
        holds,
        format!("{REPEATEDLY} tasks of {id}, whose only agent is gone"),
        format!("{}; reviews {all}", answers.join("; ")),
        "no_route each time, and a review",
    );
    Ok(())
}
