//! New tasks, but for those whose ids are there already: what is imported twice is there once.

use super::{CreateTasks, Verb};
use crate::changes::Changes;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

/// The reply has only what was made.
#[derive(Clone, Debug, PartialEq)]
pub struct AddMissing(pub CreateTasks);

impl Verb for AddMissing {
    type Reply = Vec<Task>;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        self.0.asks(want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<Task>, Changes), Refusal> {
        let missing = self.0.tasks.iter();
        let missing = missing.filter(|new| slice.task(&new.id).is_none());
        let tasks = missing.cloned().collect();
        CreateTasks { tasks }.decide(slice, now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NewTask;
    use super::super::testing::{Swarm, word};
    use super::*;
    use crate::task::TaskStatus;

    fn add(tasks: &[(&str, &[&str])]) -> AddMissing {
        let task = |(id, after): &(&str, &[&str])| NewTask {
            dependencies: after.iter().map(|id| (*id).into()).collect(),
            ..NewTask::plain(*id, "a title")
        };
        AddMissing(CreateTasks {
            tasks: tasks.iter().map(task).collect(),
        })
    }

    #[test]
    fn what_is_there_already_stays_as_it_is_and_the_rest_is_made() {
        for status in TaskStatus::ALL {
            let mut swarm = Swarm::with_task(*status);
            let before = swarm.task("T").clone();
            let made = swarm.ok(add(&[("T", &[]), ("U", &["T"]), ("V", &["U"])]));
            let ids: Vec<&str> = made.iter().map(|task| task.id.as_str()).collect();
            assert_eq!(ids, ["U", "V"], "{status}");
            assert_eq!(made[1].number, made[0].number + 1);
            assert_eq!(swarm.task("T").state, before.state, "{status}");
            assert_eq!(swarm.task("T").about, before.about, "{status}");
            assert!(swarm.ok(add(&[("T", &[]), ("U", &["T"])])).is_empty());
            assert!(swarm.said().is_empty(), "{status}");
        }
    }

    #[test]
    fn within_one_call_an_id_is_used_once_and_dependencies_are_known() {
        let mut swarm = Swarm::new();
        assert_eq!(
            word(&swarm.run(add(&[("U", &[]), ("U", &[])]))),
            "task_already_exists"
        );
        assert_eq!(
            word(&swarm.run(add(&[("U", &["X"])]))),
            "unknown_dependency"
        );
    }
}
