//! A person changes what a task says.

use super::Verb;
use crate::changes::Changes;
use crate::description::Patch;
use crate::event::Event;
use crate::id::TaskId;
use crate::lane::LaneKey;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct ChangeTask {
    pub task: TaskId,
    pub patch: Patch,
}

impl Verb for ChangeTask {
    type Reply = Task;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(task) = want.task(&self.task) {
            want.lane_of(task);
            want.lane_for(&LaneKey::of(&self.changed(task, now).0));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Task, Changes), Refusal> {
        let id = &self.task;
        let task = slice
            .task(id)
            .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })?;
        if task.status().is_final() {
            return Err(Refusal::WrongState {
                task: id.clone(),
                status: task.status(),
                wanted: "a task that is not finished",
            });
        }
        if task.holder().is_some() && self.patch.decides_who_may_take_it() {
            return Err(Refusal::WrongState {
                task: id.clone(),
                status: task.status(),
                wanted: "a task that nobody holds (release it first)",
            });
        }
        let (after, fields) = self.changed(task, now);
        let mut changes = Changes::default();
        if !fields.is_empty() {
            changes.event(Event::TaskChanged {
                task: id.clone(),
                number: task.number,
                fields,
            });
            changes.put(after.clone());
        }
        Ok((after, changes))
    }
}

impl ChangeTask {
    fn changed(&self, task: &Task, now: Timestamp) -> (Task, Vec<String>) {
        let mut after = task.clone();
        let fields = self.patch.apply(&mut after.about);
        if !fields.is_empty() {
            after.updated_at = now;
        }
        (after, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, claim, word};
    use super::super::{Claimed, testing};
    use super::*;
    use crate::skills::Skills;
    use crate::task::TaskStatus;

    fn change(edit: impl FnOnce(&mut Patch)) -> ChangeTask {
        let mut patch = Patch::default();
        edit(&mut patch);
        let task = "T".into();
        ChangeTask { task, patch }
    }

    #[test]
    fn what_may_be_changed_by_state() {
        for status in TaskStatus::ALL {
            let (words, who) = match status {
                TaskStatus::Waiting
                | TaskStatus::Ready
                | TaskStatus::RetryWait
                | TaskStatus::NeedsPerson => ("ok", "ok"),
                TaskStatus::Claimed | TaskStatus::InProgress => ("ok", "wrong_state"),
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                    ("wrong_state", "wrong_state")
                }
            };
            let title = change(|task| task.title = Some("better".to_owned()));
            let skills = change(|task| task.required_skills = Some(Skills::new(["rust"])));
            assert_eq!(
                word(&Swarm::with_task(*status).run(title)),
                words,
                "{status}"
            );
            assert_eq!(
                word(&Swarm::with_task(*status).run(skills)),
                who,
                "{status}"
            );
        }
        assert_eq!(word(&Swarm::new().run(change(|_| ()))), "task_not_found");
    }

    #[test]
    fn a_change_tells_which_fields_and_no_change_tells_nothing() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        let edit = || {
            change(|task| {
                task.title = Some("better".to_owned());
                task.branch = Some(Some("main".to_owned()));
                task.estimated_minutes = Some(None);
            })
        };
        swarm.ok(edit());
        let Some(Event::TaskChanged { fields, .. }) = swarm.said.first() else {
            panic!("{:?}", swarm.said);
        };
        assert_eq!(fields, &["title", "branch"]);
        let rev = swarm.task("T").rev;
        swarm.ok(edit());
        assert!(swarm.said().is_empty());
        assert_eq!(swarm.task("T").rev, rev);
    }

    #[test]
    fn a_ready_task_moves_to_the_lane_of_what_it_now_says() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        swarm.join("C", &["rust"]);
        swarm.ok(change(|task| {
            task.required_skills = Some(Skills::new(["rust"]))
        }));
        assert!(matches!(swarm.ok(claim("A")), Claimed::None(_)));
        assert!(matches!(swarm.ok(claim("C")), Claimed::Task(_)));
        assert_eq!(swarm.lanes.len(), 1, "the lane it left is closed");
        swarm.ok(testing::complete("C", "T"));
        assert!(swarm.lanes.is_empty());
    }
}
