//! Tickets that do not count: changed, of a node that left, past their end.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::time::sleep;

use super::findings::{Stop, Told};
use super::gateway::Gateway;
use super::probe::Probe;
use super::wire;
use crate::transport::now;

/// Two clocks.
const SLACK: Duration = Duration::from_secs(2);

pub async fn tell(probe: &Probe) -> Told {
    let (main, first) = (&probe.main, probe.main.ticket());
    let mut forged = first.0.clone();
    let last = if forged.pop() == Some('0') { '1' } else { '0' };
    forged.push(last);
    refused(probe, main, &forged, "a ticket that was changed").await?;
    let gone = probe.node("parted").await?;
    let (ticket, _) = gone.ticket();
    gone.leave().await?.expect(200)?;
    refused(probe, &gone, &ticket, "the ticket of a node that left").await?;
    let left = u64::try_from(first.1.0 - now().0).unwrap_or(0);
    let left = Duration::from_millis(left) + SLACK;
    // Elsewhere it may last shorter than anybody is willing to wait here.
    if left <= probe.left() {
        sleep(left).await;
        refused(probe, main, &first.0, "a ticket past its end").await?;
    }
    Ok(())
}

/// A node brings nothing with it, not even to its own outbox.
async fn refused(probe: &Probe, node: &Gateway, ticket: &str, what: &str) -> Result<(), Stop> {
    let path = format!("/runtime/v1/nodes/{node}/outbox");
    let page = json!({ "epoch": node.epoch, "events": [] });
    let answer = wire::call(
        &probe.client,
        Method::POST,
        &path,
        Some(&page),
        Some(ticket),
    )
    .await?;
    probe.findings.answered(
        "runtime.plane.own_outbox_only",
        answer.is_refused(),
        &answer,
        format!("a refusal of {what}"),
    );
    Ok(())
}
