//! What was measured at the other doors, as tables.

use super::rows::{DoorsReport, WaitRow};
use crate::table::{errors, ms, section, times, whole};

/// Renders everything that was measured.
pub fn render(report: &DoorsReport, out: &mut String) {
    claims(report, out);
    verbatim(report, out);
    mixed(report, out);
    waits(
        out,
        "Doors: from the commit of a hand write to its event on the stream",
        "written",
        &report.hand_events,
    );
    let title = format!(
        "Doors: requests as files, one agent that claims and completes (rescans every {:.0} ms)",
        report.rescan_ms
    );
    waits(out, &title, "round trip", &report.files);
    libsql(report, out);
}

fn claims(report: &DoorsReport, out: &mut String) {
    let rows = report.claims.iter().map(|row| {
        vec![
            row.door.clone(),
            row.synchronous.clone(),
            row.clients.to_string(),
            whole(row.pairs_per_s),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            times(row.to_bare),
            times(row.to_hub),
            row.caught_up_ms.map_or("-".to_owned(), whole),
            whole(row.others_percent),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        "Doors: claim+complete (latency of a statement or request; ratios of rates in one round)",
        &[
            "door",
            "synchronous",
            "clients",
            "pairs/s",
            "p50 ms",
            "p99 ms",
            "x bare",
            "x HTTP at 64",
            "caught up ms",
            "others %",
            "errors",
        ],
        rows.collect(),
    );
    errors(out, report.claims.iter().flat_map(|row| &row.errors_told));
}

fn verbatim(report: &DoorsReport, out: &mut String) {
    let rows = report.verbatim.iter().map(|row| {
        vec![
            row.waiting.to_string(),
            row.claims.to_string(),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            row.bare_claims.to_string(),
            ms(Some(row.bare_p50_ms)),
            ms(Some(row.bare_p99_ms)),
        ]
    });
    section(
        out,
        "Doors: the document's claim, word for word, one at a time (synchronous FULL; 'bare' has no index)",
        &[
            "waiting tasks",
            "claims",
            "p50 ms",
            "p99 ms",
            "bare claims",
            "bare p50",
            "bare p99",
        ],
        rows.collect(),
    );
}

fn mixed(report: &DoorsReport, out: &mut String) {
    let rows = report.mixed.iter().map(|row| {
        vec![
            row.sql_clients.clone(),
            row.connections.to_string(),
            whole(row.alone_pairs_per_s),
            whole(row.pairs_per_s),
            times(Some(row.ratio)),
            ms(Some(row.alone_p99_ms)),
            ms(Some(row.p99_ms)),
            row.sql_pairs_per_s.map_or("-".to_owned(), whole),
            ms(row.sql_p99_ms),
            whole(row.others_percent),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        "Doors: the hub's claim+complete over HTTP, alone and while SQL clients take from the same pool",
        &[
            "SQL clients",
            "connections",
            "alone pairs/s",
            "pairs/s",
            "ratio",
            "alone p99",
            "p99 ms",
            "SQL pairs/s",
            "SQL p99",
            "others %",
            "errors",
        ],
        rows.collect(),
    );
    errors(out, report.mixed.iter().flat_map(|row| &row.errors_told));
}

fn waits(out: &mut String, title: &str, what: &str, rows: &[WaitRow]) {
    let cells = rows.iter().map(|row| {
        vec![
            row.of.clone(),
            row.rounds.to_string(),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            ms(Some(row.longest_ms)),
        ]
    });
    let headers = [what, "rounds", "p50 ms", "p99 ms", "longest ms"];
    section(out, title, &headers, cells.collect());
}

fn libsql(report: &DoorsReport, out: &mut String) {
    let rows = report.libsql.iter().map(|row| {
        vec![
            row.what.clone(),
            row.connections.to_string(),
            whole(row.requests_per_s),
            row.pairs_per_s.map_or("-".to_owned(), whole),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            row.errors.to_string(),
        ]
    });
    section(
        out,
        "Doors: libSQL over HTTP, one statement a request (latency of a request)",
        &[
            "POST /v2/pipeline",
            "connections",
            "requests/s",
            "pairs/s",
            "p50 ms",
            "p99 ms",
            "errors",
        ],
        rows.collect(),
    );
    errors(out, report.libsql.iter().flat_map(|row| &row.errors_told));
}
