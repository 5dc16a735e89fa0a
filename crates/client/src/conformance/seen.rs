//! What can be said of everything that the hub published during the run.

use std::collections::HashMap;

use serde_json::{Value, json};
use switchboard_wire::IsoTime;

use super::findings::Told;
use super::probe::Probe;

const TEXTS: [&str; 5] = ["eventId", "kind", "sourceNodeId", "sourceAgentId", "corrId"];

pub fn tell(probe: &Probe) -> Told {
    let all = probe.log.all();
    if all.is_empty() {
        return Ok(());
    }
    let (mut before, mut by_id): (u64, HashMap<String, Value>) = (0, HashMap::new());
    for event in &all {
        each(probe, event);
        let seq = event["seq"].as_u64().unwrap_or(0);
        judge(
            probe,
            "runtime.envelope.seq_monotonic",
            seq == before + 1 || (before == 0 && seq > 0),
            event,
            &format!("seq {}", before + 1),
        );
        before = seq;
        let id = event["eventId"].to_string();
        if let Some(first) = by_id.insert(id, event.clone()) {
            let is_again = event["trace"]["attempt"].as_u64() > first["trace"]["attempt"].as_u64()
                && event["payload"] == first["payload"];
            judge(
                probe,
                "runtime.envelope.event_id_unique",
                is_again,
                event,
                "another eventId, or a higher attempt of the same",
            );
        }
        match event["kind"].as_str() {
            Some("ack") => ack(probe, event),
            Some("signal") => signal(probe, event),
            _ => {}
        }
    }
    Ok(())
}

fn judge(probe: &Probe, clause: &'static str, holds: bool, event: &Value, expected: &str) {
    probe
        .findings
        .judge(clause, holds, "GET /runtime/v1/outbox", event, expected);
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.ends_with('Z') && text.parse::<IsoTime>().is_ok()
}

fn each(probe: &Probe, event: &Value) {
    let lacks = TEXTS.iter().find(|name| !is_text(&event[**name]));
    let is_whole = lacks.is_none_or(|name| *name == "corrId")
        && event["payload"].is_object()
        && event["seq"].is_u64();
    judge(
        probe,
        "runtime.envelope.required",
        is_whole,
        event,
        "every member of the envelope",
    );
    judge(
        probe,
        "runtime.envelope.corr_id_required",
        is_text(&event["corrId"]),
        event,
        "a corrId",
    );
    let is_theirs = event["sourceNodeId"] == *probe.main.hub();
    judge(
        probe,
        "runtime.envelope.source",
        is_theirs,
        event,
        "sourceNodeId of the outbox that it is in",
    );
    let at = |name: &str| {
        event[name]
            .as_str()
            .and_then(|text| text.parse::<IsoTime>().ok())
    };
    let is_timely = is_time(&event["createdAt"])
        && is_time(&event["expiresAt"])
        && at("createdAt") <= at("expiresAt");
    judge(
        probe,
        "runtime.envelope.times",
        is_timely,
        event,
        "createdAt and expiresAt as ISO instants in UTC",
    );
    let trace = &event["trace"];
    let versions = [
        ("routingPolicyVersion", "rpv_"),
        ("capabilityPolicyVersion", "cpv_"),
    ];
    let is_version = |(name, start): (&str, &str)| {
        trace[name]
            .as_str()
            .is_some_and(|version| version.starts_with(start))
    };
    // What went by a capability says by which version of the rules.
    let is_routed = event["kind"] == "task_create"
        && event["payload"]["requiredCapabilities"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
    let holds = trace["attempt"].as_u64() >= Some(1)
        && versions
            .into_iter()
            .all(|version| is_version(version) || (!is_routed && trace[version.0].is_null()));
    judge(
        probe,
        "runtime.envelope.trace",
        holds,
        event,
        "trace.attempt, and of what was routed by capability both policy versions",
    );
}

fn ack(probe: &Probe, event: &Value) {
    let payload = &event["payload"];
    let has_reference = is_text(&payload["refEventId"])
        && is_text(&payload["refKind"])
        && payload["refKind"] != "ack";
    judge(
        probe,
        "runtime.ack.reference",
        has_reference,
        event,
        "refEventId and refKind of an event that is answered",
    );
    let word = payload["ackType"].as_str().unwrap_or_default();
    let is_word = matches!(word, "accepted" | "processed" | "failed_terminal");
    judge(
        probe,
        "runtime.ack.type_enum",
        is_word,
        event,
        "accepted, processed or failed_terminal",
    );
    // Of what failed there may be no agent.
    let has_agent = word == "failed_terminal" || is_text(&payload["ackedByAgentId"]);
    let has_actor =
        payload["ackedByNodeId"] == *probe.main.hub() && has_agent && is_time(&payload["ackedAt"]);
    judge(
        probe,
        "runtime.ack.actor",
        has_actor,
        event,
        "ackedByNodeId of the outbox, ackedByAgentId and ackedAt",
    );
}

/// Records of the control plane are about things, and never what agents said.
fn signal(probe: &Probe, event: &Value) {
    let record = &event["payload"]["record"];
    let said = [
        "body",
        "subject",
        "description",
        "result",
        "resultSummary",
        "payload",
        "taskId",
    ];
    let found = said.into_iter().find(|name| !record[name].is_null());
    let expected = format!("a record without {}", found.unwrap_or("payloads"));
    judge(
        probe,
        "runtime.plane.control_metadata_only",
        found.is_none(),
        event,
        &expected,
    );
    let is_record = is_text(&event["payload"]["path"]) && event["payload"]["rev"].is_u64();
    judge(
        probe,
        "runtime.plane.control_metadata_only",
        is_record,
        event,
        &json!(["path", "rev", "record"]).to_string(),
    );
}
