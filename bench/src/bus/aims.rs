//! What the bus is meant to reach.

use super::frames::Manner;
use super::rates::HUB;
use super::rows::BusReport;
use crate::aims::{Aim, at_least, at_most};

/// Fewer workers share what a hub needs for any number of them, and are not judged.
const JUDGED_WORKERS: usize = 10_000;
const JUDGED_SCREEN_WORKERS: usize = 1_000;
const CONNECTION_KB_MAX: f64 = 20.0;
const ECHO_RATIO: f64 = 0.5;
const SCREEN_MS_MAX: f64 = 50.0;
/// What two runs of the same kind may differ by.
const STALLED_RATIO: f64 = 0.9;
/// An operator may leave 1 MiB unread; the rest is what the hub needs to notice and to let it in again.
const STALLED_MB_MAX: f64 = 8.0;

/// Judges what was measured of the bus.
pub fn judge(report: Option<&BusReport>, aims: &mut Vec<Aim>) {
    for manner in [Manner::Reports, Manner::Waits] {
        let rows = report.map_or(&[][..], |report| &report.standing);
        let row = rows.iter().find(|row| row.workers_that == manner.name());
        let name = format!("bus: memory a connection, workers that {}", manner.name());
        // A connection that was lost weighs nothing.
        let measured = row.filter(|row| row.lost == 0 && row.workers >= JUDGED_WORKERS);
        let measured = measured.map(|row| row.kb_per_connection);
        aims.push(at_most(name, CONNECTION_KB_MAX, "KB", measured));
    }
    let rates = report.map_or(&[][..], |report| &report.rates);
    let hub = rates.iter().find(|row| row.server == HUB);
    let name = "bus: heartbeats/s".to_owned();
    let measured = hub.and_then(|row| row.to_echo);
    aims.push(at_least(name, ECHO_RATIO, "of the echo's", measured));

    let screen = report.map_or(&[][..], |report| &report.screen);
    let judged = screen
        .iter()
        .filter(|row| row.workers >= JUDGED_SCREEN_WORKERS);
    let slowest = judged.map(|row| row.p99_ms).reduce(f64::max);
    let name = "bus: heartbeat to its operator, p99".to_owned();
    aims.push(at_most(name, SCREEN_MS_MAX, "ms", slowest));

    let slow = report.and_then(|report| report.slow.as_ref());
    let name = "bus: heartbeats/s beside an operator that does not read".to_owned();
    let ratio = slow.map(|row| row.ratio);
    let unit = "of those beside one that reads";
    aims.push(at_least(name, STALLED_RATIO, unit, ratio));
    let name = "bus: memory beside an operator that does not read".to_owned();
    let grown = slow.map(|row| row.stalled_peak_mb - row.reader_peak_mb);
    let unit = "MB more than beside one that reads";
    aims.push(at_most(name, STALLED_MB_MAX, unit, grown));
    let name = "bus: an operator that does not read is dropped".to_owned();
    let dropped = slow.map(|row| row.dropped as f64);
    aims.push(at_least(name, 1.0, "times", dropped));
}

#[cfg(test)]
mod tests {
    use super::super::rows::{RateRow, ScreenRow, SlowRow, StandingRow};
    use super::*;
    use crate::aims::Verdict;

    fn verdicts(report: Option<&BusReport>) -> Vec<Verdict> {
        let mut aims = Vec::new();
        judge(report, &mut aims);
        aims.iter().map(|aim| aim.verdict).collect()
    }

    fn standing(manner: Manner, kb_per_connection: f64) -> StandingRow {
        StandingRow {
            workers_that: manner.name().to_owned(),
            workers: JUDGED_WORKERS,
            kb_per_connection,
            ..StandingRow::default()
        }
    }

    fn screen(p99_ms: f64) -> ScreenRow {
        ScreenRow {
            workers: JUDGED_SCREEN_WORKERS,
            p99_ms,
            ..ScreenRow::default()
        }
    }

    #[test]
    fn each_figure_is_held_against_its_own_aim() {
        let rate = |server: &str, to_echo| RateRow {
            server: server.to_owned(),
            to_echo: Some(to_echo),
            ..RateRow::default()
        };
        let mut report = BusReport {
            standing: vec![
                standing(Manner::Reports, 20.0),
                standing(Manner::Waits, 20.1),
            ],
            rates: vec![rate("another", 0.1), rate(HUB, 0.5)],
            screen: vec![screen(49.0), screen(20.0)],
            slow: Some(SlowRow {
                ratio: 0.95,
                reader_peak_mb: 40.0,
                stalled_peak_mb: 47.0,
                dropped: 1,
                ..SlowRow::default()
            }),
            ..BusReport::default()
        };
        let (met, missed) = (Verdict::Met, Verdict::Missed);
        let expected = [met, missed, met, met, met, met, met];
        assert_eq!(verdicts(Some(&report)), expected);
        report.standing[0].lost = 1;
        report.rates[1].to_echo = Some(0.49);
        report.screen[1].p99_ms = 51.0;
        report.slow = Some(SlowRow {
            ratio: 0.89,
            stalled_peak_mb: 8.1,
            ..SlowRow::default()
        });
        let expected = [
            Verdict::NotMeasured,
            missed,
            missed,
            missed,
            missed,
            missed,
            missed,
        ];
        assert_eq!(verdicts(Some(&report)), expected);
    }

    #[test]
    fn a_small_crowd_is_shown_and_not_judged() {
        let mut report = BusReport {
            standing: vec![standing(Manner::Reports, 184.0)],
            screen: vec![screen(60.0)],
            ..BusReport::default()
        };
        report.standing[0].workers -= 1;
        report.screen[0].workers -= 1;
        assert_eq!(verdicts(Some(&report)), [Verdict::NotMeasured; 7]);
    }

    #[test]
    fn what_was_left_out_is_neither_met_nor_missed() {
        let nothing = BusReport::default();
        for report in [None, Some(&nothing)] {
            assert_eq!(verdicts(report), [Verdict::NotMeasured; 7]);
        }
    }
}
