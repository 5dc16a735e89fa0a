//! What an import did, in words.

use switchboard_store::swarm_db::{Kind, Named, Report, Skipped};

use super::SwarmDb;

/// The one line that says what happened.
pub fn line(report: &Report, kept: &str) -> String {
    let shown = SwarmDb::SHOWN;
    let counted: Vec<String> = report
        .came
        .iter()
        .map(|(kind, count)| {
            let (one, many) = words(*kind);
            match count {
                1 => format!("1 {one}"),
                count => format!("{count} {many}"),
            }
        })
        .collect();
    if counted.is_empty() {
        return format!("nothing was imported from {shown}, which is kept as {kept}");
    }
    format!(
        "imported {} from {shown}, kept as {kept}",
        counted.join(", ")
    )
}

/// What a person should know beyond it.
pub fn warnings(report: &Report, kept: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    told(&mut warnings, &report.skipped, "not imported");
    told(&mut warnings, &report.mended, "imported with changes");
    if report.known.count() > 0 {
        let more = match report.known.unnamed() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        warnings.push(format!(
            "{} rows were skipped because the ledger already has their ids: {}{more}",
            report.known.count(),
            report.known.first().join(", ")
        ));
    }
    if report.past > 0 {
        warnings.push(format!(
            "{} messages (read, broadcast or expired) and all leases were not imported; they stay in {kept}",
            report.past
        ));
    }
    if !report.others.is_empty() {
        let tables = report.others.join(", ");
        warnings.push(format!(
            "tables that the hub does not use stay in {kept}: {tables}"
        ));
    }
    warnings
}

/// What a person calls one of them, and many.
fn words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Agents => ("agent", "agents"),
        Kind::Snapshots => ("quality snapshot", "quality snapshots"),
        Kind::Tasks => ("task", "tasks"),
        Kind::Messages => ("unread message", "unread messages"),
        Kind::Baselines => ("quality baseline", "quality baselines"),
        Kind::Migrations => ("migration", "migrations"),
        Kind::Metadata => ("line of metadata", "lines of metadata"),
    }
}

fn told(warnings: &mut Vec<String>, rows: &Named<Skipped>, what: &str) {
    for Skipped { table, id, reason } in rows.first() {
        warnings.push(format!("{what}: {id} of {table}, because {reason}"));
    }
    match rows.unnamed() {
        0 => {}
        more => warnings.push(format!("{what}: {more} more")),
    }
}
