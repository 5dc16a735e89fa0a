//! What the other doors are meant to reach.

use super::claims::PROCESSES;
use super::files::{HEARD, STALE, UNHEARD};
use crate::aims::{Aim, at_most};
use crate::report::{DoorsReport, WaitRow};

/// Hand writes are taken in 500 ms after them at the latest; a look every 25 ms finds them.
const HAND_EVENT_MS_MAX: f64 = 525.0;
const FILE_MS_MAX: f64 = 15.0;
const CLAIMS_FAILED_PERCENT_MAX: f64 = 1.0;
/// Compared to the same without a hub.
const CLAIMS_FAILED_RATIO_MAX: f64 = 1.5;

/// Judges what was measured at the other doors.
pub fn judge(report: Option<&DoorsReport>, aims: &mut Vec<Aim>) {
    let events = report.map_or(&[][..], |report| &report.hand_events);
    let slowest = events.iter().map(|row| row.p99_ms).reduce(f64::max);
    let name = "hand write to its event, p99".to_owned();
    aims.push(at_most(name, HAND_EVENT_MS_MAX, "ms", slowest));

    for (row, processes) in (0..).zip(PROCESSES) {
        let row = report.and_then(|report| report.claims.get(row));
        let name = format!("claims by SQL that fail at first, {processes} processes");
        // One process alone has nobody in its way but the hub. Where hardly any claim fails without a hub either, a
        // ratio of the two would compare a handful of claims: below the percentage there is nothing to tell apart.
        let most = match (processes, row) {
            (1, _) | (_, None) => CLAIMS_FAILED_PERCENT_MAX,
            (_, Some(row)) => {
                (row.bare_failed_percent * CLAIMS_FAILED_RATIO_MAX).max(CLAIMS_FAILED_PERCENT_MAX)
            }
        };
        aims.push(at_most(name, most, "%", row.map(|row| row.failed_percent)));
    }

    let files = |of: &'static str| {
        let found = move |row: &&WaitRow| row.of == of;
        report.and_then(|report| report.files.iter().find(found))
    };
    for of in [HEARD, STALE] {
        let name = format!("file round trip, p50 ({of})");
        let measured = files(of).map(|row| row.p50_ms);
        aims.push(at_most(name, FILE_MS_MAX, "ms", measured));
    }
    // A request waits for a rescan at most; then it takes as long as any other.
    let waited = files(UNHEARD).zip(files(HEARD));
    let waited = waited.map(|(unheard, heard)| unheard.longest_ms - heard.p99_ms);
    let rescan = report.map_or(0.0, |report| report.rescan_ms);
    let name = format!("file round trip, longest less its p99 with events ({UNHEARD})");
    aims.push(at_most(name, rescan, "ms, the rescan interval", waited));
}
