//! Short ways to say what agents do, for the cases of this suite.

use std::time::Duration;

use switchboard_core::agent::{AgentKind, Capabilities};
use switchboard_core::evidence::{Evidence, Source};
use switchboard_core::verb::{
    About, AcquireLease, Claim, Claimed, Complete, CreateTasks, Deregister, Fail, Filter, Join,
    LeaseAnswer, NewTask, Send,
};
use switchboard_core::{
    AgentId, Door, FailureKind, GatePolicy, LeasePath, Meaning, Priority, Sender, Skills, TaskId,
};

use super::ledger::Ledger;

pub fn register(agent: &str, skills: &[&str]) -> Join {
    Join {
        skills: Skills::new(skills),
        about: Some(About {
            name: agent.to_owned(),
            kind: AgentKind::Custom,
            capabilities: Capabilities {
                max_task_minutes: 60,
                can_run_tests: true,
                can_run_build: true,
                can_access_browser: false,
            },
            machine: None,
        }),
        ..Join::by(Door::Jetpack, agent)
    }
}

pub fn claim(agent: &str) -> Claim {
    Claim {
        agent: agent.into(),
        filter: Filter::default(),
        task: None,
    }
}

/// With words that no engine may mistake for its own.
pub(super) fn evidence() -> Evidence {
    Evidence {
        command: "'; DROP \"x\" ü".to_owned(),
        exit_code: -1,
        duration_ms: 7,
        commit: Some("c0ffee".to_owned()),
        source: Source::Worker,
    }
}

pub fn complete(agent: &str, task: &str) -> Complete {
    Complete {
        agent: agent.into(),
        task: task.into(),
        epoch: None,
        result: "{}".into(),
        learnings: Vec::new(),
        metrics: None,
        evidence: Vec::new(),
        policy: GatePolicy::default().into(),
        finding: None,
    }
}

pub fn fail(agent: &str, task: &str) -> Fail {
    Fail {
        agent: agent.into(),
        task: task.into(),
        epoch: None,
        kind: FailureKind::TaskError,
        message: "it broke".to_owned(),
        details: None,
        recoverable: true,
        suggested_action: None,
        is_free: false,
    }
}

pub fn send(id: &str, from: &str, to: Option<&str>) -> Send {
    Send {
        id: id.into(),
        from: Sender::Agent(from.into()),
        to: to.map(AgentId::from).into(),
        kind: "custom".to_owned(),
        payload: "1".into(),
        ack_required: false,
        priority: Priority::Medium,
        expires_in: None,
        corr_id: id.into(),
        meaning: Meaning::Nothing,
        claims: Vec::new(),
    }
}

pub(super) fn task_with(id: &str, edit: impl FnOnce(&mut NewTask)) -> NewTask {
    let mut task = NewTask::plain(id, id);
    edit(&mut task);
    task
}

impl Ledger {
    pub(super) fn join(&mut self, agent: &str, skills: &[&str]) {
        self.run(register(agent, skills)).expect("the id is free");
    }

    pub(super) fn leave(&mut self, agent: &str) {
        let done = self.run(Deregister {
            agent: agent.into(),
        });
        done.expect("the agent is there");
    }

    pub(super) fn create(&mut self, tasks: Vec<NewTask>) {
        self.run(CreateTasks { tasks })
            .expect("the tasks can be made");
    }

    pub(super) fn add(&mut self, id: &str) {
        self.create(vec![task_with(id, |_| ())]);
    }

    /// The id of what this agent gets when it asks for a task.
    pub(super) fn takes(&mut self, agent: &str) -> Option<String> {
        match self.run(claim(agent)).expect("the agent may ask") {
            Claimed::Task(task) => Some(task.id.to_string()),
            Claimed::None(_) => None,
        }
    }

    pub(super) fn hold(&mut self, agent: &str, task: &str) {
        let mut claim = claim(agent);
        claim.task = Some(task.into());
        self.run(claim).expect("the task is free");
    }

    pub(super) fn lease(
        &mut self,
        agent: &str,
        path: &str,
        task: Option<&str>,
        lasts_for: Duration,
    ) {
        let answer = self.run(AcquireLease {
            agent: agent.into(),
            task: task.map(TaskId::from),
            epoch: None,
            path: LeasePath::stored(path),
            lasts_for,
        });
        let answer = answer.expect("a lease may be asked for");
        assert!(matches!(answer, LeaseAnswer::Granted(_)), "{path} is free");
    }
}
