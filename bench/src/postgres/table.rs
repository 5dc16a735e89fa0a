//! What was measured on PostgreSQL, as tables.

use super::rows::{CpuSplit, PostgresReport};
use crate::table::{errors, growth_section, ms, section, times, whole};

/// Renders everything that was measured.
pub fn render(report: &PostgresReport, out: &mut String) {
    pgbench(report, out);
    coordinators(report, out);
    let title =
        "PostgreSQL, growth: one claim at a time ('small' is the smallest number, timed in turn)";
    growth_section(out, title, &report.growth);
    wakeups(report, out);
    idle(report, out);
}

fn pgbench(report: &PostgresReport, out: &mut String) {
    let rows = report.pgbench.iter().map(|row| {
        let mut cells = vec![
            row.manner.clone(),
            row.clients.to_string(),
            whole(row.pairs_per_s),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
        ];
        let CpuSplit {
            hubs: _,
            postgres,
            generator,
            others,
        } = row.cpu;
        cells.extend([postgres, generator, others].map(whole));
        cells
    });
    let title = format!(
        "PostgreSQL {}, ceiling: pgbench, SKIP LOCKED and an event row, one row at a time (latency of a pair; CPU in % of a core)",
        report.version
    );
    let headers = [
        "transactions",
        "clients",
        "pairs/s",
        "p50 ms",
        "p99 ms",
        "postgres %",
        "pgbench %",
        "others %",
    ];
    section(out, &title, &headers, rows.collect());
}

fn coordinators(report: &PostgresReport, out: &mut String) {
    let rows = report.coordinators.iter().map(|row| {
        let mut cells = vec![
            row.operation.clone(),
            row.coordinators.to_string(),
            row.connections.to_string(),
            whole(row.requests_per_s),
            row.pairs_per_s.map_or("-".to_owned(), whole),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            times(row.to_pgbench),
            times(row.to_pgbench_terse),
            times(row.to_one),
            format!("{:.1}", row.verbs_per_batch),
            ms(Some(row.commit_ms)),
        ];
        let CpuSplit {
            hubs,
            postgres,
            generator,
            others,
        } = row.cpu;
        cells.extend([hubs, postgres, generator, others].map(whole));
        cells.push(row.errors.to_string());
        cells
    });
    section(
        out,
        "PostgreSQL, through coordinators over HTTP keep-alive (latency of a request; ratios of rates in one round; CPU in % of a core)",
        &[
            "operation",
            "coordinators",
            "connections",
            "requests/s",
            "pairs/s",
            "p50 ms",
            "p99 ms",
            "x pgbench",
            "x terse",
            "x one",
            "verbs/batch",
            "commit ms",
            "hubs %",
            "postgres %",
            "generator %",
            "others %",
            "errors",
        ],
        rows.collect(),
    );
    let told = report.coordinators.iter().flat_map(|row| &row.errors_told);
    errors(out, told);
}

fn wakeups(report: &PostgresReport, out: &mut String) {
    let rows = report.wakeups.iter().map(|row| {
        vec![
            row.of.clone(),
            row.between.clone(),
            row.word.clone(),
            row.rounds.to_string(),
            ms(Some(row.p50_ms)),
            ms(Some(row.p99_ms)),
            ms(Some(row.longest_ms)),
        ]
    });
    section(
        out,
        "PostgreSQL, wake-ups: from the answer at one coordinator to the answer to whoever waited",
        &[
            "who waits",
            "coordinators",
            "by",
            "rounds",
            "p50 ms",
            "p99 ms",
            "longest ms",
        ],
        rows.collect(),
    );
}

fn idle(report: &PostgresReport, out: &mut String) {
    let rows = report.idle.iter().map(|row| {
        vec![
            row.word.clone(),
            row.agents.to_string(),
            format!("{:.2}", row.hub_cpu_percent),
            format!("{:.2}", row.postgres_cpu_percent),
            format!("{:.1}", row.waiting_mb),
        ]
    });
    section(
        out,
        "PostgreSQL, idle: one coordinator",
        &[
            "wake-ups by",
            "waiting agents",
            "hub CPU % of a core",
            "postgres CPU % of a core",
            "hub memory MB",
        ],
        rows.collect(),
    );
}
