//! Snapshots and the baseline: numbers that the hub can read.

use switchboard_core::limits;

use super::guard::{id, number, refuse, time};
use super::{Trigger, image};
use crate::sqlite::rows;

pub(super) fn triggers() -> Vec<Trigger> {
    let trigger = |name, on: &str, body| Trigger {
        name,
        on: on.to_owned(),
        body,
    };
    vec![
        trigger(
            "sb_snapshots_insert_guard",
            "BEFORE INSERT ON quality_snapshots",
            snapshot(),
        ),
        trigger(
            "sb_snapshots_update_guard",
            "BEFORE UPDATE ON quality_snapshots",
            snapshot(),
        ),
        trigger(
            "sb_baseline_insert_guard",
            "BEFORE INSERT ON quality_baseline",
            baseline(),
        ),
        trigger(
            "sb_baseline_update_guard",
            "BEFORE UPDATE ON quality_baseline",
            baseline(),
        ),
        trigger(
            "sb_baseline_insert",
            "AFTER INSERT ON quality_baseline",
            note(),
        ),
        trigger(
            "sb_baseline_update",
            "AFTER UPDATE ON quality_baseline",
            note(),
        ),
    ]
}

const COUNTED: [&str; 5] = [
    "type_errors",
    "lint_errors",
    "lint_warnings",
    "tests_passing",
    "tests_failing",
];

fn measured(table: &str) -> Vec<String> {
    let mut checks: Vec<String> = COUNTED
        .iter()
        .map(|name| number(&format!("{table}.{name}"), name, i64::from(u32::MAX), false))
        .collect();
    checks.push(refuse(
            &format!("{table}.test_coverage: a number from 0 to 100, or NULL"),
            "NEW.test_coverage IS NOT NULL AND (typeof(NEW.test_coverage) NOT IN ('real', 'integer') OR NEW.test_coverage NOT BETWEEN 0 AND 100)",
        ));
    checks.push(refuse(
        &format!("{table}.build_success: 0 or 1, or NULL"),
        "NEW.build_success IS NOT NULL AND NEW.build_success NOT IN (0, 1)",
    ));
    checks
}

fn snapshot() -> Vec<String> {
    let mut snapshot = vec![
        id("quality_snapshots.id", "id", false),
        refuse(
            &format!("quality_snapshots.task_id, agent_id: text of at most {} bytes, or NULL", limits::ID_BYTES_MAX),
            &["task_id", "agent_id"]
                .map(|name| {
                    format!(
                        "typeof(NEW.{name}) NOT IN ('text', 'null') OR length(CAST(coalesce(NEW.{name}, '') AS BLOB)) > {}",
                        limits::ID_BYTES_MAX
                    )
                })
                .join(" OR "),
        ),
    ];
    snapshot.extend(measured("quality_snapshots"));
    snapshot.push(time("quality_snapshots.recorded_at", "recorded_at", false));
    snapshot
}

fn baseline() -> Vec<String> {
    let mut checks = measured("quality_baseline");
    checks.push(time("quality_baseline.created_at", "created_at", false));
    checks.push(time("quality_baseline.updated_at", "updated_at", false));
    checks.push(number("quality_baseline.rev", "rev", i64::MAX, false));
    checks
}

fn note() -> Vec<String> {
    vec![format!(
        "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('quality_baseline', '1', 'update', {});",
        image("NEW", rows::BASELINE, &[], "")
    )]
}
