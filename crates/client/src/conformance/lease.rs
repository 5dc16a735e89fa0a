//! A reader that no longer asks, and what is kept for those that do.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::cursors::record;
use super::findings::{Stop, Told};
use super::probe::Probe;

/// Two clocks, and a look that may come a little later.
const SLACK: Duration = Duration::from_secs(2);

pub async fn tell(probe: &Probe) -> Told {
    let lease = probe.timings().cursor_lease;
    let (gone, behind) = (probe.node("gone").await?, probe.node("behind").await?);
    probe.has_time_for("the end of a lease", lease + SLACK)?;
    let here = probe.hire("chatter").await?;
    let reader = probe.name("hearer");
    probe.main.announce(&[&reader]).await?;
    let mut seqs = Vec::new();
    for _ in 0..3 {
        let payload = json!({ "toAgents": [reader], "subject": "conformance", "body": "b" });
        let answer = probe.publish("message", &here, payload, json!({})).await?;
        let event = probe.published(&answer.expect(201)?).await?;
        probe
            .main
            .ack(&event, "accepted", &reader, json!({}))
            .await?;
        seqs.push(event["seq"].as_u64().unwrap_or(0));
    }
    let [first, second, _] = seqs[..] else {
        return Ok(());
    };
    // One has read the first and goes away, the other has read the second and goes on asking.
    gone.read(first, None, 0).await?;
    let begun = Instant::now();
    let (mut kept, mut is_judged) = (Value::Null, false);
    while probe.has_time_for("compaction", SLACK).is_ok() {
        let answer = behind.read(second, None, 0).await?;
        let oldest = answer.body["oldestSeq"].as_u64();
        if answer.status != 200 || oldest > Some(first + 1) {
            kept = json!({ "status": answer.status, "oldestSeq": oldest });
            break;
        }
        if !is_judged && begun.elapsed() > lease + SLACK {
            lapsed(probe, &gone.id).await?;
            is_judged = true;
            if probe.settings.level < 2 {
                return Ok(());
            }
        }
        sleep((lease / 4).min(Duration::from_secs(1))).await;
    }
    if !is_judged {
        lapsed(probe, &gone.id).await?;
    }
    if kept.is_null() {
        return Err(Stop::unknown(
            "nothing was dropped from the outbox meanwhile",
        ));
    }
    let oldest = kept["oldestSeq"].as_u64();
    probe.findings.judge(
        "runtime.compaction.active_only",
        kept["status"] == 200 && oldest <= Some(second + 1),
        format!("{gone} at {first} no longer reads, {behind} at {second} does"),
        format!("{kept} to {behind}"),
        format!("what comes after {second} is kept"),
    );
    let answer = gone.read(first, None, 0).await?;
    probe.findings.answered(
        "runtime.compaction.active_only",
        answer.status == 410 && answer.code() == "cursor_expired",
        &answer,
        "410 cursor_expired with oldestSeq",
    );
    Ok(())
}

async fn lapsed(probe: &Probe, gone: &str) -> Told {
    let cursor = record(probe, gone, probe.main.hub()).await?;
    let lease = probe.timings().cursor_lease;
    probe.findings.judge(
        "runtime.cursor.lease",
        cursor["status"] != "active",
        format!("one call of {gone}, then none for {lease:?}"),
        &cursor,
        "a cursor that is no longer active",
    );
    Ok(())
}
