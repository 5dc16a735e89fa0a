//! What completions are held against from now on.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::TaskId;
use crate::quality::{Baseline, Metrics};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct SetBaseline {
    pub source: BaselineSource,
    pub by: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BaselineSource {
    Given(Metrics),
    /// What this task's completion measured.
    Task(TaskId),
}

impl Verb for SetBaseline {
    type Reply = Baseline;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.baseline();
        if let BaselineSource::Task(task) = &self.source {
            want.snapshot_of(task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Baseline, Changes), Refusal> {
        let (metrics, snapshot) = match &self.source {
            BaselineSource::Given(metrics) => (metrics.clone(), None),
            BaselineSource::Task(task) => {
                let found = Want::new(slice).snapshot_of(task);
                let found =
                    found.ok_or_else(|| Refusal::SnapshotNotFound { task: task.clone() })?;
                (found.metrics.clone(), Some(found.id.clone()))
            }
        };
        let old = slice.ranges.baseline.as_ref().and_then(Option::as_ref);
        let baseline = Baseline {
            metrics,
            set_by: self.by.clone(),
            created_at: old.map_or(now, |old| old.created_at),
            updated_at: now,
            rev: old.map_or(0, |old| old.rev) + 1,
        };
        let mut changes = Changes::default();
        changes.event(Event::BaselineSet {
            by: self.by.clone(),
            snapshot,
        });
        changes.baseline = Some(baseline.clone());
        Ok((baseline, changes))
    }
}
