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
            changes.tasks.push(after.clone());
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
