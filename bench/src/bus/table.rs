//! What was measured of the bus, as tables.

use super::rows::{BusReport, CpuSplit};
use crate::table::{errors, ms, section, times, whole};

/// Renders everything that was measured.
pub fn render(report: &BusReport, out: &mut String) {
    standing(report, out);
    rates(report, out);
    screen(report, out);
    offers(report, out);
    cycles(report, out);
    slow(report, out);
}

fn standing(report: &BusReport, out: &mut String) {
    let rows = report.standing.iter().map(|row| {
        let cells = vec![
            row.workers_that.clone(),
            row.workers.to_string(),
            whole(row.connects_per_s),
            format!("{:.1}", row.fresh_mb),
            format!("{:.1}", row.beating_mb),
            format!("{:.1}", row.kb_per_connection),
            whole(row.beats_per_s),
            whole(row.handled_per_s),
        ];
        with_cpu(cells, row.cpu, row.lost.to_string())
    });
    section(
        out,
        "Bus: connected workers that beat at their usual pace (CPU in percent of a core)",
        &[
            "workers that",
            "number",
            "connects/s",
            "fresh MB",
            "beating MB",
            "KB each",
            "beats/s",
            "handled/s",
            "hub %",
            "generator %",
            "others %",
            "lost",
        ],
        rows.collect(),
    );
    errors(out, report.standing.iter().flat_map(|row| &row.errors_told));
}

fn rates(report: &BusReport, out: &mut String) {
    let rows = report.rates.iter().map(|row| {
        let cells = vec![
            row.server.clone(),
            row.connections.to_string(),
            whole(row.lines_per_s),
        ];
        let mut cells = with_cpu(cells, row.cpu, times(row.to_echo));
        cells.push(times(row.to_decode));
        cells
    });
    section(
        out,
        "Bus: heartbeats as fast as they are handled (ratios of one round)",
        &[
            "server",
            "connections",
            "lines/s",
            "server %",
            "generator %",
            "others %",
            "x echo",
            "x decoder",
        ],
        rows.collect(),
    );
}

fn screen(report: &BusReport, out: &mut String) {
    let rows = report.screen.iter().map(|row| {
        let cells = vec![
            row.workers.to_string(),
            format!("{:.1}", row.every_s),
            row.sent.to_string(),
            row.arrived.to_string(),
            row.snapshot_parts.to_string(),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
        ];
        with_cpu(cells, row.cpu, ms(Some(row.longest_ms)))
    });
    section(
        out,
        "Bus: from a heartbeat to its operator",
        &[
            "workers",
            "beat every s",
            "sent",
            "arrived",
            "snapshot parts",
            "p50 ms",
            "p99 ms",
            "hub %",
            "generator %",
            "others %",
            "longest ms",
        ],
        rows.collect(),
    );
}

fn offers(report: &BusReport, out: &mut String) {
    let rows = report.offers.iter().map(|row| {
        vec![
            row.idle_workers.to_string(),
            row.rounds.to_string(),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            ms(Some(row.longest_ms)),
        ]
    });
    section(
        out,
        "Bus: from the request that creates a task over HTTP to its arrival at an idle worker",
        &["idle workers", "rounds", "p50 ms", "p99 ms", "longest ms"],
        rows.collect(),
    );
}

fn cycles(report: &BusReport, out: &mut String) {
    let rows = report.cycles.iter().map(|row| {
        let cells = vec![row.workers.to_string(), whole(row.tasks_per_s)];
        let mut cells = with_cpu(cells, row.cpu, ms(Some(row.p50_ms)));
        cells.push(ms(Some(row.p99_ms)));
        cells
    });
    section(
        out,
        "Bus: tasks created over HTTP, assigned, accepted and finished (latency of a worker's round)",
        &[
            "workers",
            "tasks/s",
            "hub %",
            "generator %",
            "others %",
            "p50 ms",
            "p99 ms",
        ],
        rows.collect(),
    );
}

fn slow(report: &BusReport, out: &mut String) {
    let rows = report.slow.iter().map(|row| {
        vec![
            row.connections.to_string(),
            whole(row.alone_per_s),
            whole(row.beside_reader_per_s),
            whole(row.beside_stalled_per_s),
            whole(row.seen_per_s),
            times(Some(row.ratio)),
            format!("{:.1}", row.reader_peak_mb),
            format!("{:.1}", row.stalled_peak_mb),
            row.dropped.to_string(),
            row.dropped_after_ms.map_or("-".to_owned(), whole),
            whole(row.others_percent),
        ]
    });
    section(
        out,
        "Bus: heartbeats as fast as they are handled, beside an operator that reads and one that does not",
        &[
            "connections",
            "alone/s",
            "reader/s",
            "stalled/s",
            "reader saw/s",
            "ratio",
            "reader peak MB",
            "stalled peak MB",
            "dropped",
            "first after ms",
            "others %",
        ],
        rows.collect(),
    );
}

fn with_cpu(mut cells: Vec<String>, cpu: CpuSplit, last: String) -> Vec<String> {
    cells.push(format!("{:.1}", cpu.server));
    cells.push(format!("{:.1}", cpu.generator));
    cells.push(whole(cpu.others));
    cells.push(last);
    cells
}
