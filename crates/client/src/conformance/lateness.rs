//! A task that is not done when it was promised.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_wire::IsoTime;
use tokio::time::{Instant, sleep};

use super::findings::Told;
use super::probe::Probe;
use super::reviews::{capability, reviews, taken};
use crate::transport::now;

/// What its owner promises.
const ETA: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub async fn tell(probe: &Probe) -> Told {
    let grace = probe.timings().processed_grace;
    let within = ETA + grace + SLACK;
    probe.has_time_for("a task that is late", within)?;
    let asker = probe.name("waits");
    probe.main.announce(&[&asker]).await?;
    let owner = probe.hire("tardy").await?;
    let (id, _) = capability(probe, "overdue", &owner).await?;
    let begun = Instant::now();
    let eta = IsoTime(now().0 + 1000);
    let sent = taken(probe, &asker, &owner, &id, json!(eta)).await?;
    let mut all = Value::Null;
    while begun.elapsed() < within {
        all = reviews(probe, &id).await?;
        if all[0].is_object() {
            break;
        }
        sleep(LOOK_EVERY).await;
    }
    let waited = begun.elapsed();
    let sent = format!("{sent}, which was promised for {eta} and is not done");
    let came = format!("reviews {all} after {waited:.1?}");
    probe.findings.judge(
        "runtime.review.eta_missed",
        all[0].is_object() && all[1].is_null(),
        &sent,
        &came,
        "one review",
    );
    if all[0].is_null() {
        return Ok(());
    }
    probe.findings.judge(
        "runtime.default.processed_grace",
        waited >= (ETA + grace).mul_f64(0.9),
        &sent,
        &came,
        format!("a review {grace:?} after what was promised"),
    );
    Ok(())
}
