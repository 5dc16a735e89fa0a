//! Tasks of the checker that an agent of the hub does, as the hub tells it.

use serde_json::{Value, json};
use switchboard_wire::IsoTime;

use super::findings::{Stop, Told};
use super::log::{is_ack, is_of};
use super::probe::Probe;
use super::wire::Answer;
use crate::transport::now;

pub async fn tell(probe: &Probe) -> Told {
    let here = probe.hire("doer").await?;
    let asker = probe.name("asker");
    probe.main.announce(&[&asker]).await?;
    done(probe, &here, &asker).await?;
    failed(probe, &here, &asker).await
}

/// A task for one agent of the hub.
pub fn task(id: &str, to: &str, asker: &str) -> Value {
    json!({
        "taskId": id, "title": "check conformance", "description": "nothing is to be done", "toAgents": [to],
        "requiredCapabilities": [], "priority": "high", "requesterAgentId": asker, "responseRequired": true,
        "deadlineAt": IsoTime(now().0 + 3_600_000),
    })
}

/// An agent of the hub tells a step of a task.
pub async fn step(
    probe: &Probe,
    kind: &str,
    here: &str,
    task: &Value,
    payload: Value,
) -> Result<Answer, Stop> {
    let corr = json!({ "corrId": task["corrId"] });
    probe.publish(kind, here, payload, corr).await
}

/// How it is told to others.
async fn told(probe: &Probe, kind: &str, id: &str, said: &Answer) -> (Value, String) {
    let id = json!(id);
    let event = match said.status {
        201 => probe.find(|event| is_of(event, kind, "taskId", &id)).await,
        _ => None,
    };
    let shown = match &event {
        Some(event) => event.to_string(),
        None => format!("no {kind} in the outbox; the publication was answered with {said}"),
    };
    (event.unwrap_or_default(), shown)
}

fn has(payload: &Value, names: &[&str]) -> bool {
    let missing = |name: &&&str| payload.get(**name).is_none_or(Value::is_null);
    !names.iter().any(|name| missing(&name))
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.ends_with('Z') && text.parse::<IsoTime>().is_ok()
}

async fn done(probe: &Probe, here: &str, asker: &str) -> Told {
    let findings = &probe.findings;
    let id = probe.task_id();
    let payload = task(&id, here, asker);
    let sent = probe
        .main
        .publish("task_create", asker, payload, |_| {})
        .await?;
    let event = &sent["eventId"];
    let ack = probe.find(|one| is_ack(one, "accepted", event)).await;
    findings.judge(
        "runtime.ack.eta",
        ack.as_ref()
            .is_some_and(|ack| is_time(&ack["payload"]["etaAt"])),
        &sent,
        ack.as_ref().map_or("no ack".to_owned(), Value::to_string),
        "an accepted ack of the task, with etaAt",
    );
    if let Ok(other) = probe.hire_another("bystander").await {
        let payload = json!({ "taskId": id, "acceptedByAgentId": other, "etaSeconds": 60, "planSummary": "mine" });
        let answer = step(probe, "task_accept", &other, &sent, payload).await?;
        findings.answered(
            "runtime.route.explicit_targets",
            answer.is_refused(),
            &answer,
            format!("a refusal: the task is for {here}"),
        );
    }
    let eta = IsoTime(now().0 + 600_000);
    let payload = json!({ "taskId": id, "acceptedByAgentId": here, "planSummary": "look at it" });
    let answer = step(probe, "task_accept", here, &sent, payload.clone()).await?;
    findings.answered(
        "runtime.task_accept.eta_required",
        answer.is_refused(),
        &answer,
        "a refusal: neither etaAt nor etaSeconds",
    );
    let mut payload = payload;
    payload["etaAt"] = json!(eta);
    let answer = step(probe, "task_accept", here, &sent, payload).await?;
    let (accept, shown) = told(probe, "task_accept", &id, &answer).await;
    let said = &accept["payload"];
    findings.judge(
        "runtime.task_accept.fields",
        has(said, &["taskId", "planSummary"]) && said["acceptedByAgentId"] == here,
        &answer.sent,
        shown,
        "taskId, acceptedByAgentId and planSummary",
    );
    findings.judge(
        "runtime.task_accept.eta_required",
        is_time(&said["etaAt"]) || said["etaSeconds"].is_u64(),
        &answer.sent,
        &accept,
        "etaAt or etaSeconds",
    );
    for progress in [101, 60] {
        let payload = json!({ "taskId": id, "status": "in_progress", "progress": progress, "note": "half-way" });
        let answer = step(probe, "task_update", here, &sent, payload).await?;
        if progress > 100 {
            findings.answered(
                "runtime.task_update.fields",
                answer.is_refused(),
                &answer,
                "a refusal: progress is 0 to 100",
            );
            continue;
        }
        let (update, shown) = told(probe, "task_update", &id, &answer).await;
        let said = &update["payload"];
        findings.judge(
            "runtime.task_update.fields",
            said["status"] == "in_progress"
                && said["progress"] == progress
                && said["note"] == "half-way",
            &answer.sent,
            shown,
            "taskId, status, progress and note, as they were said",
        );
    }
    let payload = json!({
        "taskId": id, "completedByAgentId": here, "resultSummary": "all is well",
        "resultRef": "artifact://conformance/report", "completedAt": now(),
    });
    let answer = step(probe, "task_complete", here, &sent, payload).await?;
    let (complete, shown) = told(probe, "task_complete", &id, &answer).await;
    let said = &complete["payload"];
    findings.judge(
        "runtime.task_complete.fields",
        said["completedByAgentId"] == here
            && said["resultSummary"] == "all is well"
            && said["resultRef"] == "artifact://conformance/report"
            && is_time(&said["completedAt"]),
        &answer.sent,
        shown,
        "taskId, completedByAgentId, resultSummary, resultRef and completedAt",
    );
    let processed = probe.find(|one| is_ack(one, "processed", event)).await;
    let seq = |event: &Value| event["seq"].as_u64();
    findings.judge(
        "runtime.ack.processed_terminal",
        processed
            .as_ref()
            .is_some_and(|ack| seq(ack) > seq(&complete)),
        &sent,
        json!([complete, processed]),
        "a processed ack after the task_complete",
    );
    in_order(probe, &id, &accept);
    for event in [&accept, &complete] {
        findings.judge(
            "runtime.envelope.corr_id_carried",
            event.is_null() || event["corrId"] == sent["corrId"],
            &sent,
            event,
            "the corrId of the task",
        );
    }
    if !complete.is_null() {
        probe
            .main
            .ack(&complete, "accepted", asker, json!({}))
            .await?;
    }
    Ok(())
}

/// Nothing is told of a task before it was accepted.
fn in_order(probe: &Probe, id: &str, accept: &Value) {
    let all = probe.log.all();
    let steps = all.iter().filter(|event| {
        ["task_update", "task_complete", "task_failed"]
            .iter()
            .any(|kind| is_of(event, kind, "taskId", &json!(id)))
    });
    let begun = accept["seq"].as_u64();
    let early: Vec<&Value> = steps
        .filter(|event| begun.is_none() || event["seq"].as_u64() < begun)
        .collect();
    probe.findings.judge(
        "runtime.task_accept.before_execution",
        begun.is_some() && early.is_empty(),
        format!("task {id}"),
        json!([accept, early]),
        "task_accept before any other step",
    );
}

async fn failed(probe: &Probe, here: &str, asker: &str) -> Told {
    let id = probe.task_id();
    let payload = task(&id, here, asker);
    let sent = probe
        .main
        .publish("task_create", asker, payload, |_| {})
        .await?;
    let payload = json!({ "taskId": id, "acceptedByAgentId": here, "etaSeconds": 60, "planSummary": "try it" });
    step(probe, "task_accept", here, &sent, payload).await?;
    let payload = json!({
        "taskId": id, "failedByAgentId": here, "failureClass": "dependency_missing",
        "errorSummary": "there is nothing to do it with", "failedAt": now(),
    });
    let answer = step(probe, "task_failed", here, &sent, payload).await?;
    let (failed, shown) = told(probe, "task_failed", &id, &answer).await;
    let said = &failed["payload"];
    probe.findings.judge(
        "runtime.task_failed.fields",
        said["failedByAgentId"] == here
            && said["failureClass"] == "dependency_missing"
            && said["errorSummary"] == "there is nothing to do it with"
            && is_time(&said["failedAt"]),
        &answer.sent,
        shown,
        "taskId, failedByAgentId, failureClass, errorSummary and failedAt",
    );
    if !failed.is_null() {
        probe
            .main
            .ack(&failed, "accepted", asker, json!({}))
            .await?;
    }
    Ok(())
}
