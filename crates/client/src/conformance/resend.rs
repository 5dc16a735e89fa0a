//! What is not answered is sent again, and what has failed for good is not.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::findings::Told;
use super::probe::Probe;

/// A resend may come 20 % too soon or too late, with 2 s of backoff before it; a hub looks every second or so.
const BACKOFF: Duration = Duration::from_millis(2400);
const SLACK: Duration = Duration::from_secs(4);

pub async fn tell(probe: &Probe) -> Told {
    let timeout = probe.timings().accepted_timeout;
    let here = probe.hire("sender").await?;
    let (silent, refusing) = (probe.name("silent"), probe.name("refusing"));
    probe.main.announce(&[&silent, &refusing]).await?;
    // One that does not even read.
    let away = probe.node("away").await?;
    let absent = probe.name("absent");
    away.announce(&[&absent]).await?;
    probe.has_time_for("a resend", timeout + BACKOFF + SLACK)?;
    let (mut events, mut begun) = (Vec::new(), Instant::now());
    for to in [&refusing, &silent, &absent] {
        // From here on: the hub may count from the moment that an event is read, which is a little later.
        if *to == silent {
            begun = Instant::now();
        }
        let payload = json!({ "toAgents": [to], "subject": "conformance", "body": "b" });
        let answer = probe.publish("message", &here, payload, json!({})).await?;
        let event = probe.published(&answer.expect(201)?).await?;
        if *to == refusing {
            let reason = json!({ "reason": "invalid_target" });
            let main = &probe.main;
            main.ack(&event, "failed_terminal", to, reason).await?;
        }
        events.push(event);
    }
    let read_at = Instant::now();
    let [refused, unanswered, unread] = &events[..] else {
        return Ok(());
    };
    let is_again = |event: &Value, first: &Value| {
        event["eventId"] == first["eventId"] && event["seq"] != first["seq"]
    };
    let within = timeout + BACKOFF + SLACK;
    let again = probe
        .log
        .find(within, |event| is_again(event, unanswered))
        .await;
    let waited = begun.elapsed();
    let shown = again
        .as_ref()
        .map_or("nothing".to_owned(), Value::to_string);
    let sent = format!("no answer to {unanswered}, which was read");
    probe.findings.judge(
        "runtime.default.accepted_timeout",
        again.is_some() && waited >= timeout.mul_f64(0.75),
        &sent,
        format!("{shown} after {waited:.1?}"),
        format!("it is sent again after {timeout:?}, and at most {within:?}"),
    );
    if let Some(again) = &again {
        let (seq, attempt) = (again["seq"].as_u64(), &again["trace"]["attempt"]);
        probe.findings.judge(
            "runtime.envelope.attempt_increments",
            seq > unanswered["seq"].as_u64()
                && *attempt == 2
                && again["corrId"] == unanswered["corrId"],
            &sent,
            shown,
            "the same eventId and corrId, a higher seq, and attempt 2",
        );
        probe
            .main
            .ack(again, "accepted", &silent, json!({}))
            .await?;
    }
    sleep((read_at + within).saturating_duration_since(Instant::now())).await;
    for (clause, first, why) in [
        (
            "runtime.ack.failed_terminal",
            refused,
            "failed_terminal ends it",
        ),
        (
            "runtime.default.accepted_timeout",
            unread,
            "a node that does not read has not refused",
        ),
    ] {
        let all = probe.log.all();
        let again = all.iter().find(|event| is_again(event, first));
        let shown = again.map_or("nothing".to_owned(), Value::to_string);
        let sent = format!("what became of {first} within {within:?}");
        probe.findings.judge(
            clause,
            again.is_none(),
            sent,
            shown,
            format!("it is not sent again: {why}"),
        );
    }
    Ok(())
}
