//! What the broker is meant to reach.

use super::crowd::{BARE_CAST, HUB_CAST};
use super::rates::HUB;
use crate::aims::{Aim, at_least, at_most};
use crate::report::{BrokerReport, WaitRow};

const RATE_RATIO: f64 = 0.5;
const P50_RATIO_MAX: f64 = 2.0;
const P99_RATIO_MAX: f64 = 3.0;
/// squidrun.ws.latency
const ACK_MS_MAX: f64 = 10.0;
const CONNECTION_KB_MAX: f64 = 25.0;
const CAST_RATIO_MAX: f64 = 3.0;
const TRIGGER_MS_MAX: f64 = 20.0;

/// Judges what was measured of the broker.
pub fn judge(report: Option<&BrokerReport>, aims: &mut Vec<Aim>) {
    let sends = report.map_or(&[][..], |report| &report.sends);
    let hub = sends.iter().find(|row| row.server == HUB);
    let name = |what: &str| format!("broker: {what}");
    let unit = "of a bare group commit's";
    let measured = hub.map(|row| row.to_commit);
    aims.push(at_least(
        name("messages/s, 20 senders"),
        RATE_RATIO,
        unit,
        measured,
    ));
    let measured = hub.map(|row| row.p50_to_commit);
    let unit = "x a bare group commit's";
    aims.push(at_most(
        name("send to ack, p50"),
        P50_RATIO_MAX,
        unit,
        measured,
    ));
    let measured = hub.map(|row| row.p99_to_commit);
    aims.push(at_most(
        name("send to ack, p99"),
        P99_RATIO_MAX,
        unit,
        measured,
    ));

    let measured = hub.map(|row| row.p50_ms);
    let ack = name("send to ack, p50, by the clock");
    aims.push(at_most(ack, ACK_MS_MAX, "ms", measured));

    let clients = report.and_then(|report| report.clients.as_ref());
    let measured = clients.map(|row| row.kb_per_connection);
    aims.push(at_most(
        name("memory of a connected client"),
        CONNECTION_KB_MAX,
        "KB",
        measured,
    ));

    let casts = report.map_or(&[][..], |report| &report.casts);
    let p50_of = |of: &str| {
        let row = casts.iter().find(|row: &&WaitRow| row.of == of);
        row.map(|row| row.p50_ms)
    };
    let ratio = p50_of(HUB_CAST)
        .zip(p50_of(BARE_CAST))
        .map(|(hub, bare)| hub / bare);
    let unit = "x the bare fan-out's";
    aims.push(at_most(
        name("broadcast to 1,000, last frame, p50"),
        CAST_RATIO_MAX,
        unit,
        ratio,
    ));

    let triggers = report.and_then(|report| report.triggers.first());
    let measured = triggers.map(|row| row.p50_ms);
    aims.push(at_most(
        name("trigger file to frame, p50"),
        TRIGGER_MS_MAX,
        "ms",
        measured,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aims::Verdict;
    use crate::report::SendRow;

    #[test]
    fn a_median_above_ten_milliseconds_is_missed() {
        for (p50_ms, verdict) in [(9.9, Verdict::Met), (10.1, Verdict::Missed)] {
            let sends = vec![SendRow {
                server: HUB.to_owned(),
                p50_ms,
                ..SendRow::default()
            }];
            let report = BrokerReport {
                sends,
                ..BrokerReport::default()
            };
            let mut aims = Vec::new();
            judge(Some(&report), &mut aims);
            let aim = aims.iter().find(|aim| aim.name.ends_with("by the clock"));
            assert_eq!(aim.map(|aim| aim.verdict), Some(verdict));
        }
    }
}
