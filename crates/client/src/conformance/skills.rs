//! A skill that comes with a capability: who is to install it, and when that is done.

use serde_json::{Value, json};

use super::findings::{Stop, Told};
use super::gateway::Gateway;
use super::manifest::{manifest, publish};
use super::probe::Probe;
use crate::transport::now;

pub async fn tell(probe: &Probe) -> Told {
    let owner = probe.hire_another("skilled").await?;
    let id = probe.capability_id("skill");
    let manifest = manifest(probe, &id, &owner)?;
    let (right, wrong) = (probe.node("installs").await?, probe.node("pretends").await?);
    let (able, unable) = (probe.name("installs"), probe.name("pretends"));
    right.announce(&[&able]).await?;
    wrong.announce(&[&unable]).await?;
    let wanted = manifest["delegationSkillRef"].clone();
    let answer = publish(probe, manifest).await?.expect(201)?;
    let mut tasks = Vec::new();
    for agent in [&able, &unable] {
        let found = probe.find(|event| is_for(event, &id, agent)).await;
        let found = found.ok_or_else(|| {
            let came = format!("no task_create of taskType skill_distribution for {agent}");
            probe.findings.judge(
                "runtime.skill.task_created",
                false,
                &answer.sent,
                &came,
                "one for each active agent",
            );
            Stop::Unknown(came)
        })?;
        probe
            .findings
            .judge("runtime.skill.task_created", true, "", "", "");
        let said = &found["payload"];
        probe.findings.judge(
            "runtime.skill.payload",
            said["delegationSkillRef"]["name"] == wanted["name"]
                && said["delegationSkillRef"]["version"] == wanted["version"]
                && said["requiredBy"].is_string(),
            &answer.sent,
            &found,
            "capabilityId, delegationSkillRef with name and version, and requiredBy",
        );
        tasks.push(found);
    }
    let all = probe.log.all();
    let owners = all.iter().find(|event| is_for(event, &id, &owner));
    let shown = owners.map_or("none of them is for the owner".to_owned(), Value::to_string);
    let expected = format!("every active agent but {owner}");
    probe.findings.judge(
        "runtime.skill.targets",
        owners.is_none(),
        &answer.sent,
        shown,
        expected,
    );
    let version = json!("0.0.1");
    for (node, agent, task, is_right) in [
        (&right, &able, &tasks[0], true),
        (&wrong, &unable, &tasks[1], false),
    ] {
        let mut installed = json!({ "name": wanted["name"], "version": wanted["version"] });
        if !is_right {
            installed["version"] = version.clone();
        }
        complete(node, agent, task, &installed).await?;
        let look = async || probe.order(&task["eventId"]).await;
        let (is_done, order) = match is_right {
            true => {
                probe
                    .eventually(look, |order| order["state"] == "done")
                    .await?
            }
            false => {
                let order = look().await?;
                (order["state"] == "done", order)
            }
        };
        probe.findings.judge(
            "runtime.skill.confirmed",
            is_done == is_right,
            format!("task_complete with installed {installed}"),
            order,
            format!(
                "done only with the version that was asked for, {}",
                wanted["version"]
            ),
        );
    }
    Ok(())
}

fn is_for(event: &Value, capability: &str, agent: &str) -> bool {
    let payload = &event["payload"];
    let named = payload["toAgents"].as_array();
    event["kind"] == "task_create"
        && payload["taskType"] == "skill_distribution"
        && payload["capabilityId"] == capability
        && named.is_some_and(|named| named.iter().any(|one| one == agent))
}

async fn complete(node: &Gateway, agent: &str, task: &Value, installed: &Value) -> Told {
    node.ack(task, "accepted", agent, json!({})).await?;
    let corr = |event: &mut serde_json::Map<String, Value>| {
        event.insert("corrId".to_owned(), task["corrId"].clone());
    };
    let id = &task["payload"]["taskId"];
    let accept = json!({ "taskId": id, "acceptedByAgentId": agent, "etaSeconds": 600, "planSummary": "install it" });
    node.publish("task_accept", agent, accept, corr).await?;
    let complete = json!({
        "taskId": id, "completedByAgentId": agent, "resultSummary": "installed", "completedAt": now(),
        "installed": installed, "result": { "installed": installed },
    });
    node.publish("task_complete", agent, complete, corr)
        .await
        .map(drop)
}
