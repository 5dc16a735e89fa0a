//! What waiting agents cost: the coordinator's CPU and the database's.

use super::ground::{Ground, Word};
use crate::idle::{AGENTS, Waiting};
use crate::report::{PostgresReport, SharedIdleRow};

pub fn measure(ground: &Ground<'_>, report: &mut PostgresReport) -> anyhow::Result<()> {
    for word in Word::ALL {
        let name = word.name();
        crate::progress(format_args!(
            "PostgreSQL: {AGENTS} agents wait for work, {name}"
        ));
        let mut ledger = ground.ledger(word);
        ledger.coordinators(1)?;
        let hub = &ledger.hubs[0];
        let waiting = Waiting::on(hub)?;
        ledger.settle()?;
        let before = (hub.cpu_time()?, ground.postgres_cpu_time()?);
        std::thread::sleep(ground.settings.idle_for);
        let after = (hub.cpu_time()?, ground.postgres_cpu_time()?);
        waiting.ensure_nobody_was_answered()?;
        let percent = |before: std::time::Duration, after: std::time::Duration| {
            let used = after.saturating_sub(before).as_secs_f64();
            used / ground.settings.idle_for.as_secs_f64() * 100.0
        };
        report.idle.push(SharedIdleRow {
            word: name.to_owned(),
            agents: AGENTS,
            hub_cpu_percent: percent(before.0, after.0),
            postgres_cpu_percent: percent(before.1, after.1),
            waiting_mb: hub.resident_mb()?,
        });
    }
    Ok(())
}
