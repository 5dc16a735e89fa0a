//! Random things that a swarm does, chosen so that they often make sense and sometimes do not.
//!
//! A deed is made from one number and from what a reader sees, so a sequence of numbers is a whole history.

use std::time::Duration;

use switchboard_core::agent::{AgentKind, Capabilities, Doing, Machine};
use switchboard_core::lane::LaneKey;
use switchboard_core::task::{FailureKind, OnDependencyFailure, Phase, Priority, TaskKind};
use switchboard_core::verb::{
    About, Claim, CreateTasks, Deregister, Fail, Filter, Heartbeat, Join, NewTask, ReleaseTask,
    ReportProgress, ReportedTask,
};
use switchboard_core::{AgentId, Door, Skills, Task, TaskId, TaskStatus, Timestamp};

use super::errands;
use super::ledger::AnyVerb;
use super::random::Random;
use super::rows::Everything;

#[derive(Debug)]
pub enum Deed {
    /// The clock moves on.
    Wait(Duration),
    Claim(Claim),
    /// Finished tasks older than this go, until none is left to look at.
    Sweep(Duration),
    Other(Box<dyn AnyVerb>),
}

pub(super) const AGENTS: &[&str] = &["ann", "bob", "cas", "dee", "eve", "fay"];
/// States from which a task may still complete or fail.
const UNFINISHED: &[TaskStatus] = &[
    TaskStatus::Waiting,
    TaskStatus::Ready,
    TaskStatus::Claimed,
    TaskStatus::InProgress,
    TaskStatus::NeedsPerson,
];
const SKILLS: &[&str] = &["docs", "rust", "sql", "web"];
const WAITS_MS: &[u64] = &[
    1, 40, 900, 6_000, 20_000, 61_000, 121_000, 305_000, 3_700_000,
];

impl Deed {
    /// The deed that `choice` stands for in a ledger that looks like `seen`.
    pub fn choose(choice: u64, seen: &Everything) -> Deed {
        let mut random = Random::new(choice);
        let what = random.below(100);
        let mut make = Maker {
            random,
            seen,
            next: seen.head.seq + seen.head.task_number + seen.head.message_number,
        };
        if make.present().is_empty() {
            return make.register();
        }
        match what {
            0..=6 => Deed::Wait(make.wait()),
            7..=12 => make.register(),
            13..=17 => make.heartbeat(),
            18..=24 => make.create(),
            25..=42 => Deed::Claim(make.claim()),
            43..=46 => make.progress(),
            47..=52 => errands::complete(&mut make),
            53..=56 => make.fail(),
            57 => make.release(),
            58 => make.deregister(),
            59..=71 => errands::message(&mut make),
            72..=81 => errands::lease(&mut make),
            82..=91 => errands::person(&mut make),
            92 => Deed::Sweep(Duration::from_millis(make.random.below(400_000))),
            _ => errands::caretaker(&mut make),
        }
    }

    pub(super) fn other(verb: impl AnyVerb + 'static) -> Deed {
        Deed::Other(Box::new(verb))
    }
}

/// Draws one deed.
pub(super) struct Maker<'a> {
    pub random: Random,
    pub seen: &'a Everything,
    /// A number that no id was made of yet.
    pub next: u64,
}

impl Maker<'_> {
    fn wait(&mut self) -> Duration {
        let wait = self.random.pick(WAITS_MS).copied();
        Duration::from_millis(wait.unwrap_or(1))
    }

    fn present(&self) -> Vec<&AgentId> {
        let present = self.seen.agents.iter().filter(|agent| !agent.is_gone());
        present.map(|agent| &agent.id).collect()
    }

    /// Somebody who is there, mostly.
    pub fn agent(&mut self) -> AgentId {
        let mut random = Random::new(self.random.draw());
        let there = random.pick(&self.present()).copied().cloned();
        there
            .filter(|_| random.percent(94))
            .unwrap_or_else(|| self.anyone())
    }

    fn anyone(&mut self) -> AgentId {
        let name = self.random.pick(AGENTS).copied();
        AgentId::from(name.unwrap_or("ann"))
    }

    /// Any task, or one that nobody made.
    pub fn task(&mut self) -> TaskId {
        let task = self.random.pick(&self.seen.tasks);
        task.map_or_else(|| TaskId::from("t-none"), |task| task.id.clone())
    }

    /// A task in one of these states, mostly.
    pub fn task_that_is(&mut self, statuses: &[TaskStatus]) -> TaskId {
        let such = self.seen.tasks.iter();
        let such: Vec<&Task> = such
            .filter(|task| statuses.contains(&task.status()))
            .collect();
        match self.random.pick(&such).copied() {
            Some(task) if self.random.percent(85) => task.id.clone(),
            Some(_) | None => self.task(),
        }
    }

    /// A task in somebody's hands with its holder, mostly; anyone and anything at times.
    pub fn held(&mut self) -> (AgentId, TaskId, Option<u64>) {
        let held: Vec<&Task> = self
            .seen
            .tasks
            .iter()
            .filter(|row| row.holder().is_some())
            .collect();
        let epoch_given = self.random.percent(40);
        match self.random.pick(&held).copied() {
            Some(task) if self.random.percent(85) => {
                let holder = task.holder().cloned().unwrap_or_else(|| self.agent());
                let stale = u64::from(self.random.percent(10));
                let epoch = epoch_given.then_some(task.epoch.saturating_sub(stale));
                (holder, task.id.clone(), epoch)
            }
            Some(_) | None => {
                let epoch = epoch_given.then(|| self.random.below(4));
                (self.agent(), self.task(), epoch)
            }
        }
    }

    pub fn skills(&mut self, likely: u64) -> Skills {
        Skills::new(self.random.some_of(SKILLS, likely))
    }

    pub fn priority(&mut self) -> Priority {
        let any = self.random.pick(Priority::ALL).copied();
        any.unwrap_or(Priority::Medium)
    }

    pub fn kind(&mut self) -> TaskKind {
        let any = self.random.pick(TaskKind::ALL).copied();
        any.unwrap_or(TaskKind::Code)
    }

    fn register(&mut self) -> Deed {
        let machine = self.random.percent(70).then(|| Machine {
            id: "box".to_owned(),
            hostname: "box.local".to_owned(),
            pid: 1 + u32::from(self.random.percent(20)),
        });
        let agent = self.anyone();
        let skills = self.skills(60);
        let about = About {
            name: format!("agent {agent}"),
            kind: AgentKind::Custom,
            capabilities: Capabilities {
                max_task_minutes: if self.random.percent(70) { 60 } else { 20 },
                can_run_tests: self.random.percent(80),
                can_run_build: true,
                can_access_browser: self.random.percent(30),
            },
            machine,
        };
        Deed::other(Join {
            skills,
            about: Some(about),
            resume: self.random.percent(10),
            ..Join::by(Door::Jetpack, agent)
        })
    }

    fn heartbeat(&mut self) -> Deed {
        let (holder, task, _) = self.held();
        let reported = self.random.percent(60).then(|| ReportedTask {
            id: task,
            percent: self
                .random
                .percent(70)
                .then(|| self.random.below(101) as u8),
            phase: self
                .random
                .pick(Phase::ALL)
                .copied()
                .filter(|_| self.random.percent(50)),
            note: None,
        });
        let doing = match self.random.below(10) {
            0..=3 => Doing::Idle,
            4..=8 => Doing::Busy,
            _ => Doing::Error,
        };
        let metrics = self.random.percent(30);
        Deed::other(Heartbeat {
            agent: holder,
            doing,
            task: reported,
            metrics: metrics.then(|| (256.5, self.random.below(3))),
        })
    }

    fn create(&mut self) -> Deed {
        let count = 1 + self.random.below(4);
        let ids: Vec<TaskId> = (0..count)
            .map(|at| format!("t{}-{at}", self.next).into())
            .collect();
        let mut tasks = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            tasks.push(self.new_task(id, &ids[..at]));
        }
        if self.random.percent(5)
            && let (Some(first), Some(last)) = (ids.first(), ids.last())
        {
            // A circle, or a task that waits for itself.
            tasks[0].dependencies.push(last.clone());
            let last = tasks.len() - 1;
            tasks[last].dependencies.push(first.clone());
        }
        Deed::other(CreateTasks { tasks })
    }

    fn new_task(&mut self, id: &TaskId, earlier: &[TaskId]) -> NewTask {
        let mut task = NewTask::plain(id.clone(), &format!("do {id}"));
        if self.random.percent(3) {
            task.id = self.task();
        }
        task.about.priority = self.priority();
        task.about.kind = if self.random.percent(70) {
            TaskKind::Code
        } else {
            self.kind()
        };
        task.about.required_skills = self.skills(25);
        task.about.estimated_minutes = self
            .random
            .pick(&[None, None, Some(10), Some(45), Some(90)])
            .copied()
            .flatten();
        task.about.max_retries = self.random.below(3) as u32;
        task.about.branch = self.random.percent(20).then(|| "main".to_owned());
        task.about.files = self
            .random
            .some_of(&["src/a.rs".to_owned(), "src/b.rs".to_owned()], 30);
        task.dependencies = self.random.some_of(earlier, 30);
        if self.random.percent(25) {
            task.dependencies.push(self.task_that_is(UNFINISHED));
        }
        if self.random.percent(12) {
            let names = self.random.some_of(AGENTS, 40);
            task.about.audience = names.into_iter().map(AgentId::from).collect();
        }
        if self.random.percent(40) {
            task.on_dependency_failure = OnDependencyFailure::Fail;
        }
        task
    }

    fn claim(&mut self) -> Claim {
        let mut filter = Filter::default();
        if self.random.percent(15) {
            filter.skills = Some(self.skills(40));
        }
        if self.random.percent(15) {
            filter.priorities = Some(self.random.some_of(Priority::ALL, 50));
        }
        if self.random.percent(10) {
            filter.kinds = Some(self.random.some_of(TaskKind::ALL, 50));
        }
        if self.random.percent(20) {
            let ids: Vec<TaskId> = self.seen.tasks.iter().map(|task| task.id.clone()).collect();
            filter.excluded = self.random.some_of(&ids, 30).into_iter().collect();
        }
        if self.random.percent(15) {
            filter.max_minutes = Some(30);
        }
        Claim {
            agent: self.agent(),
            filter,
            task: self.random.percent(10).then(|| self.task()),
        }
    }

    fn progress(&mut self) -> Deed {
        let (agent, task, epoch) = self.held();
        Deed::other(ReportProgress {
            agent,
            task,
            epoch,
            phase: self
                .random
                .pick(Phase::ALL)
                .copied()
                .unwrap_or(Phase::Analyzing),
            percent: self.random.below(101) as u8,
            note: "on it".to_owned(),
            files: self.random.some_of(&["src/a.rs".to_owned()], 50),
        })
    }

    fn fail(&mut self) -> Deed {
        let (agent, task, epoch) = self.held();
        let kind = self.random.pick(FailureKind::ALL).copied();
        Deed::other(Fail {
            agent,
            task,
            epoch,
            kind: kind.unwrap_or(FailureKind::TaskError),
            message: "it broke".to_owned(),
            details: self.random.percent(50).then(|| "line 1\nline 2".to_owned()),
            recoverable: self.random.percent(80),
            suggested_action: self.random.percent(30).then(|| "try again".to_owned()),
            is_free: false,
        })
    }

    fn release(&mut self) -> Deed {
        let (agent, task, epoch) = self.held();
        Deed::other(ReleaseTask {
            task,
            agent: self.random.percent(70).then_some(agent),
            epoch,
        })
    }

    fn deregister(&mut self) -> Deed {
        Deed::other(Deregister {
            agent: self.agent(),
        })
    }
}

/// The task that a claim must get, found by looking at all of them; `None` if it must get none.
pub fn best_for<'a>(claim: &Claim, seen: &'a Everything, now: Timestamp) -> Option<&'a Task> {
    let agent = seen.agents.iter().find(|agent| agent.id == claim.agent)?;
    let filter = &claim.filter;
    let may_take = |task: &&Task| {
        let key = LaneKey::of(task);
        let others = seen.agents.iter().any(|other| {
            other.id != agent.id
                && other.is_idle()
                && !other.is_stopping()
                && !task.previous_agents.contains(&other.id)
                && key.admits(other)
        });
        task.status() == TaskStatus::Ready
            && key.admits(agent)
            && !(task.previous_agents.contains(&agent.id)
                && others
                && task.others_first_until() > now)
            && filter
                .skills
                .as_ref()
                .is_none_or(|skills| task.about.required_skills.meets(skills))
            && filter
                .priorities
                .as_ref()
                .is_none_or(|list| list.contains(&task.about.priority))
            && filter
                .kinds
                .as_ref()
                // Whoever asks for any task is not asked to install a skill.
                .map_or(task.about.kind != TaskKind::SkillDistribution, |list| {
                    list.contains(&task.about.kind)
                })
            && !filter.excluded.contains(&task.id)
            && filter.max_minutes.is_none_or(|limit| {
                task.about
                    .estimated_minutes
                    .is_none_or(|minutes| minutes <= limit)
            })
    };
    if agent.is_gone() || agent.is_stopping() {
        return None;
    }
    let fitting = seen.tasks.iter().filter(may_take);
    fitting.min_by_key(|task| (task.about.priority, task.number))
}
