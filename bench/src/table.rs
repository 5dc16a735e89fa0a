//! A report as text: one table per part, the aims at the end.

use std::fmt::Write as _;

use crate::aims::Verdict;
use crate::bus;
use crate::doors;
use crate::postgres;
use crate::report::{GrowthRow, Report};

/// Renders every part that was measured.
pub fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "{} cores, {}; profile {}; {:.1} s a run, median of {}",
        machine.cores, machine.processor, machine.profile, machine.seconds_per_run, machine.rounds
    );
    // Writing to a string cannot fail, here and below.
    let _ = match machine.others_percent {
        Some(percent) => writeln!(out, "; other programs took {percent:.0} % before the run"),
        None => writeln!(out),
    };
    ceilings(report, &mut out);
    operations(report, &mut out);
    batch(report, &mut out);
    growth(report, &mut out);
    idle(report, &mut out);
    if let Some(measured) = &report.doors {
        doors::table::render(measured, &mut out);
    }
    if let Some(measured) = &report.bus {
        bus::table::render(measured, &mut out);
    }
    if let Some(measured) = &report.postgres {
        postgres::table::render(measured, &mut out);
    }
    aims(report, &mut out);
    for note in &report.notes {
        let _ = writeln!(out, "\nNote: {note}");
    }
    out
}

fn ceilings(report: &Report, out: &mut String) {
    let echo = report.echo.iter().map(|row| {
        vec![
            row.connections.to_string(),
            whole(row.requests_per_s),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        "Ceiling: bare JSON echo over HTTP keep-alive",
        &["connections", "requests/s", "p50 ms", "p99 ms", "errors"],
        echo.collect(),
    );
    let sync = report.sync.iter().map(|row| {
        vec![
            "append 4 KiB + fdatasync".to_owned(),
            whole(row.syncs_per_s),
            String::new(),
            ms(row.p50_ms),
            ms(row.p99_ms),
        ]
    });
    let sqlite = report.sqlite.iter().map(|row| {
        vec![
            format!("SQLite FULL, commits of {}", row.operations_per_commit),
            whole(row.operations_per_s),
            whole(row.rows_per_s),
            ms(row.p50_ms),
            ms(row.p99_ms),
        ]
    });
    section(
        out,
        "Ceiling: the disk (an operation is a task changed and an event appended)",
        &["", "operations/s", "rows/s", "p50 ms", "p99 ms"],
        sync.chain(sqlite).collect(),
    );
}

fn operations(report: &Report, out: &mut String) {
    let rows = report.operations.iter().map(|row| {
        vec![
            row.operation.clone(),
            row.connections.to_string(),
            whole(row.requests_per_s),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            whole(row.echo_requests_per_s),
            ms(Some(row.echo_p99_ms)),
            times(Some(row.ratio)),
            times(Some(row.p99_ratio)),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        "The hub, durable, over HTTP keep-alive (ratios to the echo right before and after)",
        &[
            "operation",
            "connections",
            "requests/s",
            "p50 ms",
            "p99 ms",
            "echo/s",
            "echo p99",
            "ratio",
            "p99 ratio",
            "errors",
        ],
        rows.collect(),
    );
    let told = report.operations.iter().flat_map(|row| &row.errors_told);
    errors(out, told);
}

fn batch(report: &Report, out: &mut String) {
    let hub = report.batch.iter().map(|row| {
        vec![
            format!("hub, {} operations a request", row.operations_per_request),
            row.connections.to_string(),
            whole(row.pairs_per_s),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            row.errors.to_string(),
        ]
    });
    let redis = report.redis.iter().map(|row| {
        vec![
            "Redis list, appendfsync always".to_owned(),
            row.clients.to_string(),
            whole(row.pairs_per_s),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        "Batches: take+finish pairs (latency of a request)",
        &["", "connections", "pairs/s", "p50 ms", "p99 ms", "errors"],
        hub.chain(redis).collect(),
    );
    errors(out, report.batch.iter().flat_map(|row| &row.errors_told));
}

fn growth(report: &Report, out: &mut String) {
    let title = "Growth: one claim at a time ('small' is the smallest number, timed in turn)";
    growth_section(out, title, &report.growth);
    let starts = report.starts.iter().map(|row| {
        vec![
            row.case.clone(),
            row.tasks.to_string(),
            format!("{:.3}", row.after_stop_s),
            format!("{:.3}", row.after_kill_s),
            format!("{:.1}", row.resident_mb),
        ]
    });
    section(
        out,
        "Start until /readyz answers",
        &[
            "waiting tasks",
            "number",
            "after SIGTERM s",
            "after SIGKILL s",
            "memory MB",
        ],
        starts.collect(),
    );
}

/// Claims by the number of waiting tasks, on whichever ledger.
pub fn growth_section(out: &mut String, title: &str, rows: &[GrowthRow]) {
    let cells = rows.iter().map(|row| {
        vec![
            row.case.clone(),
            row.waiting.to_string(),
            ms(Some(row.claim_p50_ms)),
            ms(Some(row.claim_p99_ms)),
            ms(row.reference_p50_ms),
            ms(row.reference_p99_ms),
            times(row.p99_ratio),
            format!("{:.1}", row.resident_mb),
            whole(row.stored_per_s),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        title,
        &[
            "waiting tasks",
            "number",
            "p50 ms",
            "p99 ms",
            "small p50",
            "small p99",
            "p99 ratio",
            "memory MB",
            "stored/s",
            "errors",
        ],
        cells.collect(),
    );
    errors(out, rows.iter().flat_map(|row| &row.errors_told));
}

fn idle(report: &Report, out: &mut String) {
    let rows = report.idle.iter().map(|row| {
        vec![
            row.agents.to_string(),
            format!("{:.2}", row.cpu_percent),
            format!("{:.1}", row.fresh_mb),
            format!("{:.1}", row.waiting_mb),
            format!("{:.3}", row.ready_after_s),
        ]
    });
    section(
        out,
        "Idle",
        &[
            "waiting agents",
            "CPU % of a core",
            "memory fresh MB",
            "memory waiting MB",
            "first start s",
        ],
        rows.collect(),
    );
}

fn aims(report: &Report, out: &mut String) {
    let measured = report
        .aims
        .iter()
        .filter(|aim| aim.verdict != Verdict::NotMeasured);
    let rows: Vec<Vec<String>> = measured
        .map(|aim| {
            vec![
                aim.name.clone(),
                aim.wanted.clone(),
                aim.measured.clone(),
                aim.verdict.word().to_owned(),
            ]
        })
        .collect();
    let left_out = report.aims.len() - rows.len();
    section(out, "Aims", &["aim", "wanted", "measured", ""], rows);
    if left_out > 0 {
        let _ = writeln!(out, "\n{left_out} aims were not measured in this run.");
    }
}

pub fn errors<'a>(out: &mut String, told: impl Iterator<Item = &'a String>) {
    const TOLD_MAX: usize = 5;
    for error in told.take(TOLD_MAX) {
        let _ = writeln!(out, "  error: {error}");
    }
}

/// A heading and aligned columns; nothing when there are no rows.
pub fn section(out: &mut String, title: &str, headers: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let width_of = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(headers[column].len())
    };
    let widths: Vec<usize> = (0..headers.len()).map(width_of).collect();
    let header: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
    out.push('\n');
    out.push_str(title);
    out.push('\n');
    for row in std::iter::once(&header).chain(&rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let text = column == 0 || !looks_numeric(&rows, column);
            let _ = match text {
                true => write!(line, "  {cell:<width$}"),
                false => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn looks_numeric(rows: &[Vec<String>], column: usize) -> bool {
    let numeric = |cell: &str| {
        cell.chars()
            .all(|letter| letter.is_ascii_digit() || ",.-".contains(letter))
    };
    rows.iter().all(|row| numeric(&row[column]))
}

pub fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

pub fn ms(figure: Option<f64>) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.3}"))
}

pub fn times(figure: Option<f64>) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_on_the_right_and_words_on_the_left() {
        let mut out = String::new();
        let rows = vec![
            vec!["a".to_owned(), "5".to_owned()],
            vec!["long".to_owned(), "1000".to_owned()],
        ];
        section(&mut out, "T", &["what", "n"], rows);
        assert_eq!(out, "\nT\n  what     n\n  a        5\n  long  1000\n");
    }

    #[test]
    fn a_part_that_was_not_run_prints_nothing() {
        let mut out = String::new();
        section(&mut out, "T", &["what"], Vec::new());
        assert_eq!(out, "");
    }
}
