//! New tasks, one or many, also such that depend on each other. All or none.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Verb;
use crate::changes::Changes;
use crate::description::Description;
use crate::event::Event;
use crate::id::{CorrId, TaskId};
use crate::lane::LaneKey;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Failure, FailureKind, OnDependencyFailure, Task, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTasks {
    pub tasks: Vec<NewTask>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    pub id: TaskId,
    pub about: Description,
    pub dependencies: Vec<TaskId>,
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
        older.into_values().for_each(|task| changes.put(task));
        let mut reply = Vec::with_capacity(self.tasks.len());
        for new in &self.tasks {
            let mut task = made.remove(&new.id).expect("every new task was made");
            changes.event(self.settle(slice, &mut task, now));
            reply.push(task.clone());
            changes.put(task);
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
            let row = slice.known::<Task>(id).flatten();
            row.is_none_or(|row| row.status() != TaskStatus::Completed)
        };
        task.blockers = task.dependencies.iter().filter(open).cloned().collect();
        task.state = task.open_state();
        let lost = task.blockers.iter().find(|id| {
            let row = slice.known::<Task>(id).flatten();
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
            title: task.about.title.clone(),
            priority: task.about.priority,
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
            about: Description {
                title: title.to_owned(),
                ..Description::default()
            },
            dependencies: Vec::new(),
            on_dependency_failure: OnDependencyFailure::Block,
        }
    }

    pub(crate) fn task(&self, number: u64, now: Timestamp) -> Task {
        let mut dependencies = self.dependencies.clone();
        let mut seen = HashSet::new();
        dependencies.retain(|id| seen.insert(id.clone()));
        Task {
            dependencies,
            on_dependency_failure: self.on_dependency_failure,
            ..Task::new(
                self.id.clone(),
                number,
                self.about.clone(),
                self.corr_id.clone(),
                now,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, complete, task_with, word};
    use super::*;
    use crate::skills::Skills;

    fn after(id: &str, dependencies: &[&str]) -> NewTask {
        let dependencies = dependencies.iter().map(|id| TaskId::from(*id)).collect();
        task_with(id, |task| task.dependencies = dependencies)
    }

    #[test]
    fn a_new_task_is_blocked_while_a_dependency_in_this_state_is_open() {
        // jetpack.claim.dependencies_completed
        for status in TaskStatus::ALL {
            let mut swarm = Swarm::with_task(*status);
            swarm.create(after("new", &["T"]));
            let expected = match status {
                TaskStatus::Completed => TaskStatus::Ready,
                TaskStatus::Waiting
                | TaskStatus::Ready
                | TaskStatus::Claimed
                | TaskStatus::InProgress
                | TaskStatus::RetryWait
                | TaskStatus::NeedsPerson
                | TaskStatus::Failed
                | TaskStatus::Canceled => TaskStatus::Waiting,
            };
            assert_eq!(swarm.task("new").status(), expected, "{status}");
            assert_eq!(swarm.task("T").dependants, 1, "{status}");
        }
    }

    #[test]
    fn a_task_that_fails_along_fails_at_once_if_its_dependency_is_lost() {
        for (status, expected) in [
            (TaskStatus::Failed, TaskStatus::Failed),
            (TaskStatus::Canceled, TaskStatus::Failed),
            (TaskStatus::RetryWait, TaskStatus::Waiting),
        ] {
            let mut swarm = Swarm::with_task(status);
            let mut new = after("new", &["T"]);
            new.on_dependency_failure = OnDependencyFailure::Fail;
            swarm.create(new);
            assert_eq!(swarm.task("new").status(), expected, "{status}");
        }
    }

    #[test]
    fn refusals_leave_nothing_behind() {
        let table: Vec<(Vec<NewTask>, &str)> = vec![
            (
                vec![after("a", &[]), after("T", &[])],
                "task_already_exists",
            ),
            (
                vec![after("a", &[]), after("a", &[])],
                "task_already_exists",
            ),
            (vec![after("a", &["nothing"])], "unknown_dependency"),
            (vec![after("a", &["a"])], "dependency_cycle"),
            (
                vec![after("a", &["b"]), after("b", &["a"])],
                "dependency_cycle",
            ),
        ];
        for (tasks, expected) in table {
            let mut swarm = Swarm::with_task(TaskStatus::Ready);
            let head = swarm.head.clone();
            let outcome = swarm.run(CreateTasks { tasks });
            assert_eq!(word(&outcome), expected);
            assert_eq!((swarm.tasks.len(), &swarm.head), (1, &head), "{expected}");
        }
    }

    #[test]
    fn a_circle_is_named_in_order() {
        let tasks = vec![
            after("start", &["a"]),
            after("a", &["b", "T"]),
            after("b", &["c"]),
            after("c", &["a"]),
        ];
        let outcome = Swarm::with_task(TaskStatus::Ready).run(CreateTasks { tasks });
        let circle = ["a", "b", "c", "a"].map(TaskId::from).to_vec();
        assert_eq!(outcome, Err(Refusal::DependencyCycle { circle }));
    }

    #[test]
    fn many_tasks_may_depend_on_each_other_in_any_order() {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        let tasks = vec![after("last", &["first", "first"]), after("first", &[])];
        let made = swarm.ok(CreateTasks { tasks });
        let numbers: Vec<u64> = made.iter().map(|task| task.number).collect();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(swarm.task("last").dependencies, vec![TaskId::from("first")]);
        swarm.hold("A", "first");
        swarm.ok(complete("A", "first"));
        assert_eq!(swarm.task("last").status(), TaskStatus::Ready);
        assert_eq!(swarm.head.task_number, 2);
    }

    #[test]
    fn a_task_comes_back_as_it_was_made() {
        // jetpack.claim.task_optional_fields
        let mut swarm = Swarm::new();
        let new = task_with("T", |task| {
            task.about.description = Some("what and why".to_owned());
            task.about.required_skills = Skills::new(["rust"]);
            task.about.estimated_minutes = Some(20);
            task.about.files = vec!["src/a.rs".to_owned()];
            task.about.branch = Some("main".to_owned());
        });
        swarm.create(new.clone());
        let task = swarm.task("T");
        assert_eq!(task.about.description, new.about.description);
        assert_eq!(task.about.required_skills, new.about.required_skills);
        assert_eq!(task.about.estimated_minutes, new.about.estimated_minutes);
        assert_eq!(
            (&task.about.files, &task.about.branch),
            (&new.about.files, &new.about.branch)
        );
        assert_eq!((task.created_at, task.retries), (swarm.now, 0));
        assert_eq!(swarm.said(), ["task_created"]);
    }

    #[test]
    fn dependants_of_one_task_are_bounded() {
        let most = limits::DEPENDANTS_MAX;
        for (there, expected) in [(most - 1, "ok"), (most, "too_many")] {
            let mut swarm = Swarm::with_task(TaskStatus::Ready);
            let task = swarm
                .tasks
                .get_mut(&TaskId::from("T"))
                .expect("it is there");
            task.dependants = there;
            let outcome = swarm.run(CreateTasks {
                tasks: vec![after("new", &["T"])],
            });
            assert_eq!(word(&outcome), expected, "{there} there");
        }
    }
}
