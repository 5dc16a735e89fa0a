//! Does a claim on PostgreSQL cost the same with a million waiting tasks?
//!
//! As on SQLite: a second ledger with the smallest number of tasks, whose claims are timed in turn.

use super::ground::{Ground, Word};
use crate::growth::{CASES, row, time_claims};
use crate::preload::{self, Skill};
use crate::report::PostgresReport;

pub fn measure(ground: &Ground<'_>, report: &mut PostgresReport) -> anyhow::Result<()> {
    for (skill, name) in CASES {
        measure_case(ground, skill, name, report)?;
    }
    Ok(())
}

fn measure_case(
    ground: &Ground<'_>,
    skill: Skill,
    name: &str,
    report: &mut PostgresReport,
) -> anyhow::Result<()> {
    let settings = ground.settings;
    let (Some(&smallest), Some(&largest)) = (settings.waiting.first(), settings.waiting.last())
    else {
        return Ok(());
    };
    crate::progress(format_args!("PostgreSQL, {name}: {smallest} waiting"));
    let mut small = ground.ledger(Word::Notification);
    small.coordinators(1)?;
    let stored_per_s = preload::fill(&small.hubs[0], skill, 0, smallest)?;
    small.settle()?;
    let alone = time_claims(settings, &[&small.hubs[0]], smallest)?.remove(0);
    let first = row(name, smallest, &alone, None, &small.hubs[0], stored_per_s)?;
    report.growth.push(first);
    if largest == smallest {
        return Ok(());
    }
    crate::progress(format_args!("PostgreSQL, {name}: {largest} waiting"));
    let mut large = ground.ledger(Word::Notification);
    large.coordinators(1)?;
    let stored_per_s = preload::fill(&large.hubs[0], skill, 0, largest)?;
    large.settle()?;
    let (small, large) = (&small.hubs[0], &large.hubs[0]);
    let both = time_claims(settings, &[small, large], largest)?;
    let last = row(name, largest, &both[1], Some(&both[0]), large, stored_per_s)?;
    report.growth.push(last);
    Ok(())
}
