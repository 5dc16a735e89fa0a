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
        let old = slice.row::<Baseline>(&());
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
        changes.put(baseline.clone());
        Ok((baseline, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Complete;
    use super::super::testing::{Swarm, complete, word};
    use super::*;
    use crate::task::TaskStatus;

    fn metrics(type_errors: u32) -> Metrics {
        Metrics {
            build_success: true,
            type_errors,
            lint_errors: 0,
            lint_warnings: 0,
            tests_passing: 1,
            tests_failing: 0,
            test_coverage: Some(80.0),
        }
    }

    #[test]
    fn a_baseline_is_given_or_taken_from_a_completion() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let by = "a person".to_owned();
        let from_task = || SetBaseline {
            source: BaselineSource::Task("T".into()),
            by: "a person".to_owned(),
        };
        assert_eq!(word(&swarm.run(from_task())), "snapshot_not_found");
        let source = BaselineSource::Given(metrics(3));
        let first = swarm.ok(SetBaseline { source, by });
        swarm.ok(Complete {
            metrics: Some(("q".into(), metrics(1))),
            ..complete("A", "T")
        });
        swarm.wait(Duration::from_secs(5));
        let second = swarm.ok(from_task());
        assert_eq!(second.metrics, metrics(1));
        assert_eq!(second.created_at, first.created_at);
        assert_eq!((second.updated_at, second.rev), (swarm.now, first.rev + 1));
        assert_eq!(swarm.baseline, Some(second));
        assert_eq!(swarm.said(), ["baseline_set"]);
    }
}
