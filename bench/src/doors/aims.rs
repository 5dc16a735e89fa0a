//! What the other doors are meant to reach.

use super::files::{HEARD, STALE, UNHEARD};
use super::rows::{DoorsReport, WaitRow};
use crate::aims::{Aim, at_most};

const HAND_EVENT_MS_MAX: f64 = 100.0;
const FILE_MS_MAX: f64 = 15.0;

/// Judges what was measured at the other doors.
pub fn judge(report: Option<&DoorsReport>, aims: &mut Vec<Aim>) {
    let events = report.map_or(&[][..], |report| &report.hand_events);
    let slowest = events.iter().map(|row| row.p99_ms).reduce(f64::max);
    let name = "hand write to its event, p99".to_owned();
    aims.push(at_most(name, HAND_EVENT_MS_MAX, "ms", slowest));

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aims::Verdict;

    fn row(of: &str, p50_ms: f64, p99_ms: f64, longest_ms: f64) -> WaitRow {
        WaitRow {
            of: of.to_owned(),
            rounds: 100,
            p50_ms,
            p99_ms,
            longest_ms,
        }
    }

    fn verdicts(report: Option<&DoorsReport>) -> Vec<Verdict> {
        let mut aims = Vec::new();
        judge(report, &mut aims);
        aims.iter().map(|aim| aim.verdict).collect()
    }

    #[test]
    fn each_door_is_held_against_its_own_figure() {
        let mut report = DoorsReport {
            hand_events: vec![
                row("task inserted", 20.0, 60.0, 200.0),
                row("task claimed", 20.0, 99.0, 200.0),
            ],
            files: vec![
                row(HEARD, 14.0, 30.0, 900.0),
                row(UNHEARD, 250.0, 400.0, 529.0),
                row(STALE, 16.0, 30.0, 40.0),
            ],
            rescan_ms: 500.0,
            ..DoorsReport::default()
        };
        let (met, missed) = (Verdict::Met, Verdict::Missed);
        assert_eq!(verdicts(Some(&report)), [met, met, missed, met]);
        report.hand_events[1].p99_ms = 101.0;
        report.files[1].longest_ms = 531.0;
        assert_eq!(verdicts(Some(&report)), [missed, met, missed, missed]);
    }

    #[test]
    fn what_was_left_out_is_neither_met_nor_missed() {
        let nothing = DoorsReport::default();
        for report in [None, Some(&nothing)] {
            assert_eq!(verdicts(report), [Verdict::NotMeasured; 4]);
        }
    }
}
