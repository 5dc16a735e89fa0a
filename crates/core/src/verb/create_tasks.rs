//! New tasks, one or many, also such that depend on each other. All or none.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, CorrId, TaskId};
use crate::lane::LaneKey;
use crate::limits;
use crate::refusal::Refusal;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::task::{
    Failure, FailureKind, OnDependencyFailure, Priority, Task, TaskKind, TaskState, TaskStatus,
};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTasks {
    pub tasks: Vec<NewTask>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    pub id: TaskId,
    pub title: String,
    pub description: Option<String>,
    pub priority: Priority,
    pub kind: TaskKind,
    pub required_skills: Skills,
    pub dependencies: Vec<TaskId>,
    pub files: Vec<String>,
    pub estimated_minutes: Option<u32>,
    pub max_retries: u32,
    pub branch: Option<String>,
    pub audience: Vec<AgentId>,
    pub on_dependency_failure: OnDependencyFailure,
    pub corr_id: CorrId,
}

impl Verb for CreateTasks {
    type Reply = Vec<Task>;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for new in &self.tasks {
            want.task(&new.id);
            for dependency in &new.dependencies {
                if let Some(task) = want.task(dependency) {
                    want.lane_of(task);
                }
            }
            want.lane_for(&LaneKey::of(&new.task(0, now)));
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<Task>, Changes), Refusal> {
        self.check_ids(slice)?;
        self.check_circles()?;
        let mut changes = Changes::default();
        let mut made: HashMap<&TaskId, Task> = HashMap::with_capacity(self.tasks.len());
        let mut older: BTreeMap<&TaskId, Task> = BTreeMap::new();
        for (at, new) in self.tasks.iter().enumerate() {
            made.insert(
                &new.id,
                new.task(slice.head.task_number + 1 + at as u64, now),
            );
        }
        for new in &self.tasks {
            for dependency in &new.dependencies {
                let row = match made.get_mut(dependency) {
                    Some(row) => row,
                    None => older.entry(dependency).or_insert_with(|| {
                        slice
                            .task(dependency)
                            .expect("dependencies were checked")
                            .clone()
                    }),
                };
                row.dependants += 1;
                if row.dependants > limits::DEPENDANTS_MAX {
                    return Err(Refusal::TooMany {
                        what: "tasks that depend on one task",
                        limit: limits::DEPENDANTS_MAX as usize,
                    });
                }
            }
        }
        changes.tasks.extend(older.into_values());
        let mut reply = Vec::with_capacity(self.tasks.len());
        for new in &self.tasks {
            let mut task = made.remove(&new.id).expect("every new task was made");
            changes.event(self.settle(slice, &mut task, now));
            reply.push(task.clone());
            changes.tasks.push(task);
        }
        Ok((reply, changes))
    }
}

impl CreateTasks {
    fn check_ids(&self, slice: &Slice) -> Result<(), Refusal> {
        let mut ids = HashSet::with_capacity(self.tasks.len());
        for new in &self.tasks {
            if slice.task(&new.id).is_some() || !ids.insert(&new.id) {
                return Err(Refusal::TaskAlreadyExists {
                    task: new.id.clone(),
                });
            }
        }
        for new in &self.tasks {
            let unknown = new
                .dependencies
                .iter()
                .find(|id| !ids.contains(id) && slice.task(id).is_none());
            if let Some(dependency) = unknown {
                return Err(Refusal::UnknownDependency {
                    task: new.id.clone(),
                    dependency: dependency.clone(),
                });
            }
        }
        Ok(())
    }

    /// Tasks that exist cannot depend on new ones, so a circle lies within the call.
    fn check_circles(&self) -> Result<(), Refusal> {
        let new: HashMap<&TaskId, &NewTask> =
            self.tasks.iter().map(|task| (&task.id, task)).collect();
        let mut done: HashSet<&TaskId> = HashSet::new();
        for start in &self.tasks {
            // The path from `start` down, each with the dependencies not looked at yet.
            let mut path: Vec<(&TaskId, std::slice::Iter<'_, TaskId>)> = Vec::new();
            if !done.contains(&start.id) {
                path.push((&start.id, start.dependencies.iter()));
            }
            while let Some((id, rest)) = path.last_mut() {
                let Some(next) = rest.next() else {
                    done.insert(id);
                    path.pop();
                    continue;
                };
                if let Some(at) = path.iter().position(|(id, _)| *id == next) {
                    let mut circle: Vec<TaskId> =
                        path[at..].iter().map(|(id, _)| (*id).clone()).collect();
                    circle.push(next.clone());
                    return Err(Refusal::DependencyCycle { circle });
                }
                if let Some(next) = new.get(next).filter(|next| !done.contains(&next.id)) {
                    path.push((&next.id, next.dependencies.iter()));
                }
            }
        }
        Ok(())
    }

    /// Ready, blocked by what is not completed, or failed with a dependency that already did.
    fn settle(&self, slice: &Slice, task: &mut Task, now: Timestamp) -> Event {
        let open = |id: &&TaskId| {
            let row = slice.known_task(id).flatten();
            row.is_none_or(|row| row.status() != TaskStatus::Completed)
        };
        task.blockers = task.dependencies.iter().filter(open).cloned().collect();
        task.state = task.open_state();
        let lost = task.blockers.iter().find(|id| {
            let row = slice.known_task(id).flatten();
            row.is_some_and(|row| matches!(row.status(), TaskStatus::Failed | TaskStatus::Canceled))
        });
        if let Some(lost) = lost.filter(|_| task.on_dependency_failure == OnDependencyFailure::Fail)
        {
            let message = format!("dependency {lost} did not complete");
            task.last_failure = Some(Failure {
                kind: FailureKind::DependencyError,
                message,
            });
            task.state = TaskState::Failed { at: now };
        }
        Event::TaskCreated {
            task: task.id.clone(),
            number: task.number,
            title: task.title.clone(),
            priority: task.priority,
            status: task.status().to_string(),
        }
    }
}

impl NewTask {
    /// A task with nothing but its id and title said.
    pub fn plain(id: impl Into<TaskId>, title: &str) -> NewTask {
        let id = id.into();
        NewTask {
            corr_id: CorrId::new(id.as_str()),
            id,
            title: title.to_owned(),
            description: None,
            priority: Priority::Medium,
            kind: TaskKind::Code,
            required_skills: Skills::default(),
            dependencies: Vec::new(),
            files: Vec::new(),
            estimated_minutes: None,
            max_retries: 2,
            branch: None,
            audience: Vec::new(),
            on_dependency_failure: OnDependencyFailure::Block,
        }
    }

    fn task(&self, number: u64, now: Timestamp) -> Task {
        let mut dependencies = self.dependencies.clone();
        let mut seen = HashSet::new();
        dependencies.retain(|id| seen.insert(id.clone()));
        Task {
            id: self.id.clone(),
            number,
            title: self.title.clone(),
            description: self.description.clone(),
            state: TaskState::Ready,
            priority: self.priority,
            kind: self.kind,
            required_skills: self.required_skills.clone(),
            dependencies,
            blockers: Vec::new(),
            files: self.files.clone(),
            estimated_minutes: self.estimated_minutes,
            branch: self.branch.clone(),
            audience: self.audience.clone(),
            on_dependency_failure: self.on_dependency_failure,
            corr_id: self.corr_id.clone(),
            retries: 0,
            max_retries: self.max_retries,
            previous_agents: Vec::new(),
            last_failure: None,
            epoch: 0,
            started_at: None,
            worked_ms: None,
            progress: None,
            result: None,
            snapshot: None,
            dependants: 0,
            lane: None,
            created_at: now,
            updated_at: now,
            rev: 0,
        }
    }
}
