//! A person changes what a task says.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, TaskId};
use crate::lane::LaneKey;
use crate::refusal::Refusal;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::task::{Priority, Task, TaskKind};
use crate::time::Timestamp;
use crate::want::Want;

/// Fields that are `None` stay as they are; `Some(None)` empties one that may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeTask {
    pub task: Option<TaskId>,
    pub title: Option<String>,
    pub description: Option<Option<String>>,
    pub files: Option<Vec<String>>,
    pub branch: Option<Option<String>>,
    pub max_retries: Option<u32>,
    pub priority: Option<Priority>,
    pub kind: Option<TaskKind>,
    pub required_skills: Option<Skills>,
    pub estimated_minutes: Option<Option<u32>>,
    pub audience: Option<Vec<AgentId>>,
}

impl Verb for ChangeTask {
    type Reply = Task;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let Some(id) = &self.task else { return };
        if let Some(task) = want.task(id) {
            want.lane_of(task);
            want.lane_for(&LaneKey::of(&self.changed(task, now).0));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Task, Changes), Refusal> {
        let missing = || Refusal::Invalid {
            field: "taskId",
            message: "which task?".to_owned(),
        };
        let id = self.task.as_ref().ok_or_else(missing)?;
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
        if task.holder().is_some() && self.changes_who_may_take_it() {
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
    fn changes_who_may_take_it(&self) -> bool {
        self.priority.is_some()
            || self.kind.is_some()
            || self.required_skills.is_some()
            || self.estimated_minutes.is_some()
            || self.audience.is_some()
    }

    fn changed(&self, task: &Task, now: Timestamp) -> (Task, Vec<String>) {
        let mut after = task.clone();
        let mut fields = Vec::new();
        set(&mut after.title, &self.title, "title", &mut fields);
        set(
            &mut after.description,
            &self.description,
            "description",
            &mut fields,
        );
        set(&mut after.files, &self.files, "files", &mut fields);
        set(&mut after.branch, &self.branch, "branch", &mut fields);
        set(
            &mut after.max_retries,
            &self.max_retries,
            "maxRetries",
            &mut fields,
        );
        set(&mut after.priority, &self.priority, "priority", &mut fields);
        set(&mut after.kind, &self.kind, "type", &mut fields);
        set(
            &mut after.required_skills,
            &self.required_skills,
            "requiredSkills",
            &mut fields,
        );
        set(
            &mut after.estimated_minutes,
            &self.estimated_minutes,
            "estimatedMinutes",
            &mut fields,
        );
        set(&mut after.audience, &self.audience, "audience", &mut fields);
        if !fields.is_empty() {
            after.updated_at = now;
        }
        (after, fields)
    }
}

fn set<T: Clone + PartialEq>(
    slot: &mut T,
    value: &Option<T>,
    name: &str,
    fields: &mut Vec<String>,
) {
    if let Some(value) = value
        && *slot != *value
    {
        *slot = value.clone();
        fields.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, claim, word};
    use super::super::{Claimed, testing};
    use super::*;
    use crate::task::TaskStatus;

    fn change(edit: impl FnOnce(&mut ChangeTask)) -> ChangeTask {
        let mut change = ChangeTask {
            task: Some("T".into()),
            ..ChangeTask::default()
        };
        edit(&mut change);
        change
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
        assert_eq!(word(&Swarm::new().run(ChangeTask::default())), "invalid");
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
