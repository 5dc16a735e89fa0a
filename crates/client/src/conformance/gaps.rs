//! A missing event: it is waited for, and then something is done about it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::cursors::filler;
use super::findings::{Stop, Told};
use super::gateway::Gateway;
use super::probe::Probe;

/// The hub is asked this often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SLACK: Duration = Duration::from_secs(4);

pub async fn tell(probe: &Probe) -> Told {
    let timeout = probe.timings().gap_timeout;
    let (gap, filled) = (probe.node("gap").await?, probe.node("filled").await?);
    let events = filler(&gap, &[1, 2, 3]);
    let with_gap = [events[0].clone(), events[2].clone()];
    // The hub cannot have begun to wait before.
    let begun = Instant::now();
    let (taken, answer) = gap.push(&with_gap).await?;
    judge_blocked(probe, &gap, taken, &answer.body)?;
    fill(probe, &filled).await?;
    probe.has_time_for("the end of a gap", timeout + SLACK)?;
    sleep_until(begun + timeout.mul_f64(0.6)).await;
    let (taken, answer) = gap.push(&with_gap).await?;
    // What is answered later may be over already.
    if begun.elapsed() < timeout {
        judge_blocked(probe, &gap, taken, &answer.body)?;
    }
    let (after, answer) = end(&gap, &with_gap, begun + timeout + SLACK).await?;
    let elapsed = begun.elapsed();
    let is_over = after > 1 || answer["status"] == "halted";
    probe.findings.judge(
        "runtime.default.gap_timeout",
        is_over && elapsed >= timeout.mul_f64(0.9),
        format!("events 1 and 3 of {gap}"),
        format!("{answer} after {elapsed:.1?}"),
        format!("the gap ends after {timeout:?}"),
    );
    let is_applied = match probe.settings.gap_policy.as_str() {
        "halt" => after == 1 && answer["status"] == "halted",
        _ => after == 3 && answer["status"] == "active",
    };
    probe.findings.judge(
        "runtime.cursor.gap_policy",
        is_applied,
        format!("events 1 and 3 of {gap}"),
        &answer,
        format!("what the policy '{}' says", probe.settings.gap_policy),
    );
    incident(probe, &gap, &filled).await
}

fn judge_blocked(probe: &Probe, gap: &Gateway, taken: u64, answer: &Value) -> Told {
    let is_blocked = probe.findings.judge(
        "runtime.cursor.gap_blocks",
        taken == 1 && answer["status"] != "halted",
        format!("events 1 and 3 of {gap}"),
        answer,
        "lastSeq 1 until event 2 comes or the time is over",
    );
    match is_blocked {
        true => Ok(()),
        false => Err(Stop::unknown("the gap was not waited for")),
    }
}

/// What was missing comes.
async fn fill(probe: &Probe, node: &Gateway) -> Told {
    let events = filler(node, &[1, 2, 3]);
    node.push(&[events[0].clone(), events[2].clone()]).await?;
    let (taken, answer) = node.push(&events[1..]).await?;
    probe.findings.judge(
        "runtime.cursor.gap_filled",
        taken == 3 && answer.text("status") == "active",
        format!("events 1 and 3, then 2 and 3 of {node}"),
        &answer,
        "lastSeq 3, active",
    );
    Ok(())
}

/// How far it is taken once the gap is no longer waited for.
async fn end(gap: &Gateway, events: &[Value], until: Instant) -> Result<(u64, Value), Stop> {
    loop {
        let (taken, answer) = gap.push(events).await?;
        let is_over = taken > 1 || answer.text("status") == "halted";
        if is_over || Instant::now() >= until {
            return Ok((taken, answer.body));
        }
        sleep_until(Instant::now() + LOOK_EVERY).await;
    }
}

async fn incident(probe: &Probe, gap: &Gateway, filled: &Gateway) -> Told {
    let look = async || probe.incidents().await.map(|all| json!(all));
    let about = |all: &Value, node: &Gateway| {
        let all = all.as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one.to_string().contains(&node.id))
    };
    let (is_raised, all) = probe.eventually(look, |all| about(all, gap)).await?;
    let shown = all.as_array().map_or(0, Vec::len);
    let came = format!("{shown} incidents, none of them about it");
    probe.findings.judge(
        "runtime.cursor.gap_incident",
        is_raised,
        format!("events 1 and 3 of {gap}"),
        &came,
        format!("an incident about {gap}"),
    );
    probe.findings.judge(
        "runtime.cursor.gap_filled",
        !about(&all, filled),
        format!("events 1, 3, and then 2 of {filled}"),
        &all,
        format!("no incident about {filled}"),
    );
    Ok(())
}
