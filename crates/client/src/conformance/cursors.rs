//! Where the hub is in the outboxes of others, and they in its.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::findings::{Stop, Told};
use super::gateway::Gateway;
use super::probe::Probe;
use super::wire::Answer;

/// Nobody knows such events: they are passed over.
const FILLER: &str = "conformance_filler";
/// Two clocks and a call.
const SLACK: Duration = Duration::from_secs(3);

pub async fn tell(probe: &Probe) -> Told {
    let steps = probe.node("steps").await?;
    in_order(probe, &steps).await?;
    let epoch = probe.node("epoch").await?;
    another_epoch(probe, &epoch).await?;
    restored(probe).await?;
    lost(probe, &steps).await?;
    records(probe, &steps, &epoch).await
}

/// Events without effect.
pub fn filler(node: &Gateway, seqs: &[u64]) -> Vec<Value> {
    let each = seqs
        .iter()
        .map(|seq| node.event(*seq, FILLER, "conformance", json!({ "n": seq })));
    each.collect()
}

/// Gaps, repeats and the wrong order, and how far it is taken.
async fn in_order(probe: &Probe, node: &Gateway) -> Told {
    let all = filler(node, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let pick = |seqs: &[usize]| Vec::from_iter(seqs.iter().map(|seq| all[seq - 1].clone()));
    for (seqs, least, most) in [
        (&[1, 2, 3][..], 3, 3),
        (&[2, 3], 3, 3),
        (&[5], 3, 3),
        (&[4, 5], 5, 5),
        // It may put them in order, or wait for the next page.
        (&[7, 6], 5, 7),
        (&[6, 7, 8], 8, 8),
    ] {
        let (taken, answer) = node.push(&pick(seqs)).await?;
        probe.findings.judge(
            "runtime.cursor.contiguous",
            (least..=most).contains(&taken),
            format!("events {seqs:?} of {node}"),
            answer,
            format!("lastSeq {most}"),
        );
    }
    Ok(())
}

/// Whether the hub noticed that this is not the outbox that it read.
fn is_noticed(answer: &Answer) -> bool {
    answer.is_refused() || matches!(answer.text("status"), "halted" | "expired")
}

async fn another_epoch(probe: &Probe, node: &Gateway) -> Told {
    node.push(&filler(node, &[1])).await?;
    let answer = node
        .bring("route-epoch-2001-01-01T00:00:00.000Z", &filler(node, &[2]))
        .await?;
    probe.findings.answered(
        "runtime.cursor.epoch",
        is_noticed(&answer),
        &answer,
        "409 epoch_mismatch, or a cursor that is halted",
    );
    Ok(())
}

/// Another event at the cursor: the source was restored from a backup.
async fn restored(probe: &Probe) -> Told {
    let node = probe.node("restored").await?;
    node.push(&filler(&node, &[1, 2])).await?;
    let answer = node.bring(&node.epoch, &filler(&node, &[2, 3])).await?;
    probe.findings.answered(
        "runtime.cursor.epoch",
        is_noticed(&answer),
        &answer,
        "409 epoch_mismatch, or a cursor that is halted: event 2 was another one",
    );
    Ok(())
}

/// A reader that is where the hub's outbox has never been.
async fn lost(probe: &Probe, node: &Gateway) -> Told {
    let end = probe
        .main
        .call(reqwest::Method::GET, "/runtime/v1/outbox?limit=1", None);
    let latest = end.await?.body["latestSeq"].as_u64().unwrap_or(0);
    let mut places = vec![(latest + 1_000_000, None)];
    if latest > 0 {
        places.push((latest, Some("evt_of_nobody")));
    }
    for (after, last) in places {
        let answer = node.read(after, last, 0).await?;
        probe.findings.answered(
            "runtime.cursor.epoch",
            answer.status == 409,
            &answer,
            "409 epoch_mismatch: this outbox was never there",
        );
    }
    Ok(())
}

/// One cursor of the list.
pub async fn record(probe: &Probe, consumer: &str, source: &str) -> Result<Value, Stop> {
    let answer = probe.get("/runtime/v1/cursors").await?.expect(200)?;
    let all = answer.body["cursors"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut found = all
        .into_iter()
        .filter(|one| one["consumerNodeId"] == consumer && one["sourceNodeId"] == source);
    Ok(found.next().unwrap_or_default())
}

async fn records(probe: &Probe, steps: &Gateway, epoch: &Gateway) -> Told {
    let hub = probe.main.hub();
    let (one, two) = (
        record(probe, hub, &steps.id).await?,
        record(probe, hub, &epoch.id).await?,
    );
    probe.findings.judge(
        "runtime.cursor.per_pair",
        one["lastSeq"] == 8 && two["lastSeq"] == 1,
        "GET /runtime/v1/cursors",
        json!([one, two]),
        format!("lastSeq 8 for {steps} and 1 for {epoch}"),
    );
    // From wherever the outbox begins: it need not have its first events any more.
    let path = "/runtime/v1/outbox?limit=1";
    epoch.call(Method::GET, path, None).await?.expect(200)?;
    let ours = record(probe, &epoch.id, hub).await?;
    let names = [
        "consumerNodeId",
        "sourceNodeId",
        "lastSeq",
        "updatedAt",
        "status",
        "epoch",
    ];
    let missing = |record: &Value, name: &str| record.get(name).is_none_or(Value::is_null);
    let lacks = |record: &Value| names.iter().any(|name| missing(record, name));
    // Until when a place is kept is for its source to say.
    probe.findings.judge(
        "runtime.cursor.record",
        !lacks(&one) && !lacks(&ours) && !missing(&ours, "leaseExpiresAt"),
        "GET /runtime/v1/cursors",
        json!([one, ours]),
        "both node ids, lastSeq, updatedAt, status and epoch, and of a reader leaseExpiresAt",
    );
    let lease = probe.timings().cursor_lease;
    let at = |name: &str| {
        ours[name]
            .as_str()?
            .parse::<switchboard_wire::IsoTime>()
            .ok()
    };
    let lasts = at("leaseExpiresAt")
        .zip(at("updatedAt"))
        .map(|(until, from)| until.0 - from.0);
    let lasts = lasts
        .and_then(|ms| u64::try_from(ms).ok())
        .map(Duration::from_millis);
    probe.findings.judge(
        "runtime.default.cursor_lease",
        lasts.is_some_and(|lasts| lasts.abs_diff(lease) <= SLACK),
        format!("the first call of {epoch} that reads"),
        &ours,
        format!("a lease of {lease:?}"),
    );
    Ok(())
}
