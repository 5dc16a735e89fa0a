//! Snapshots and the baseline: numbers that the hub can read.

use super::guard::guard;
use super::{Trigger, image};
use crate::sqlite::rows;
use crate::table::Deed::{Insert, Update};
use crate::table::{BASELINES, SNAPSHOTS};

pub(super) fn triggers() -> Vec<Trigger> {
    let note = |name, on: &str| Trigger {
        name,
        on: format!("{on} ON quality_baseline"),
        body: vec![format!(
            "INSERT INTO sb_hand(tbl, key, deed, became) VALUES ('quality_baseline', '1', 'update', {});",
            image("NEW", rows::BASELINE, &[], "")
        )],
    };
    vec![
        guard("sb_snapshots_insert_guard", &SNAPSHOTS, Insert, []),
        guard("sb_snapshots_update_guard", &SNAPSHOTS, Update, []),
        guard("sb_baseline_insert_guard", &BASELINES, Insert, []),
        guard("sb_baseline_update_guard", &BASELINES, Update, []),
        note("sb_baseline_insert", "AFTER INSERT"),
        note("sb_baseline_update", "AFTER UPDATE"),
    ]
}
