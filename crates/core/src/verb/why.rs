//! Why an agent cannot claim a task: each reason by name. A question that changes nothing.

use super::Verb;
use super::claim::waits_for_others;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::director::Hold;
use crate::id::{AgentId, TaskId};
use crate::lane::{LaneKey, Unfit};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    pub task: TaskId,
    /// Without an agent, only what keeps everyone from it.
    pub agent: Option<AgentId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyAnswer {
    pub reasons: Vec<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    HeldBy(AgentId),
    WaitsForDependency(TaskId),
    RetryNotDue(Timestamp),
    NeedsPerson,
    Finished(&'static str),
    /// Nobody gets new work at the moment.
    Paused(Hold),
    AgentNotRegistered,
    AgentOffline,
    AgentStopping,
    Unfit(Unfit),
}

impl Verb for Why {
    type Reply = WhyAnswer;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.hold(now);
        let agent = self.agent.as_ref().and_then(|id| want.agent(id));
        if let (Some(task), Some(agent)) = (want.task(&self.task), agent) {
            waits_for_others(want, task, agent, now);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(WhyAnswer, Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        let mut reasons = about_the_task(task);
        if task.status() == TaskStatus::Ready {
            reasons.extend(Want::new(slice).hold(now).map(Reason::Paused));
        }
        if let Some(id) = &self.agent {
            match slice.agent(id).filter(|agent| !agent.is_gone()) {
                None => reasons.push(Reason::AgentNotRegistered),
                Some(agent) => about_the_agent(slice, task, agent, now, &mut reasons),
            }
        }
        Ok((WhyAnswer { reasons }, Changes::default()))
    }
}

fn about_the_task(task: &Task) -> Vec<Reason> {
    match &task.state {
        TaskState::Ready => Vec::new(),
        TaskState::Waiting => task
            .blockers
            .iter()
            .cloned()
            .map(Reason::WaitsForDependency)
            .collect(),
        TaskState::Claimed { by, .. } | TaskState::InProgress { by, .. } => {
            vec![Reason::HeldBy(by.clone())]
        }
        TaskState::RetryWait { until } => vec![Reason::RetryNotDue(*until)],
        TaskState::NeedsPerson { .. } => vec![Reason::NeedsPerson],
        TaskState::Completed { .. } | TaskState::Failed { .. } | TaskState::Canceled { .. } => {
            vec![Reason::Finished(task.status().as_str())]
        }
    }
}

fn about_the_agent(
    slice: &Slice,
    task: &Task,
    agent: &Agent,
    now: Timestamp,
    reasons: &mut Vec<Reason>,
) {
    if !agent.is_live() {
        reasons.push(Reason::AgentOffline);
    }
    if agent.is_stopping() {
        reasons.push(Reason::AgentStopping);
    }
    reasons.extend(LaneKey::of(task).unfit(agent).map(Reason::Unfit));
    let others = (task.status() == TaskStatus::Ready)
        .then(|| waits_for_others(&mut Want::new(slice), task, agent, now));
    reasons.extend(
        others
            .flatten()
            .map(|until| Reason::Unfit(Unfit::FailedBefore { until })),
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ReleaseRetries;
    use super::super::testing::{Standing, Swarm, about, fail, register, task_with, word};
    use super::*;
    use crate::limits;
    use crate::skills::Skills;
    use crate::task::{TaskKind, TaskStatus};

    fn why(agent: Option<&str>) -> Why {
        Why {
            task: "T".into(),
            agent: agent.map(AgentId::from),
        }
    }

    #[test]
    fn what_keeps_everyone_from_it_by_state() {
        for status in TaskStatus::ALL {
            let mut swarm = Swarm::with_task(*status);
            let expected = match status {
                TaskStatus::Ready => vec![],
                TaskStatus::Waiting => vec![Reason::WaitsForDependency("D".into())],
                TaskStatus::Claimed | TaskStatus::InProgress => vec![Reason::HeldBy("A".into())],
                TaskStatus::RetryWait => {
                    vec![Reason::RetryNotDue(swarm.now + Duration::from_secs(60))]
                }
                TaskStatus::NeedsPerson => vec![Reason::NeedsPerson],
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                    vec![Reason::Finished(status.as_str())]
                }
            };
            assert_eq!(swarm.ok(why(None)).reasons, expected, "{status}");
            assert_eq!(swarm.ok(why(Some("B"))).reasons, expected, "{status}");
        }
        assert_eq!(word(&Swarm::new().run(why(None))), "task_not_found");
    }

    #[test]
    fn what_is_wrong_with_the_agent_by_standing() {
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.add("T");
            let expected = match standing {
                Standing::Unknown | Standing::Gone => vec![Reason::AgentNotRegistered],
                Standing::Live => vec![],
                Standing::Stopping => vec![Reason::AgentStopping],
                Standing::Silent => vec![Reason::AgentOffline],
            };
            assert_eq!(swarm.ok(why(Some("A"))).reasons, expected, "{standing:?}");
        }
    }

    #[test]
    fn every_capability_that_is_missing_is_named() {
        let mut swarm = Swarm::new();
        let mut agent = register("A", &["rust"]);
        about(&mut agent).capabilities.can_run_tests = false;
        swarm.ok(agent);
        swarm.create(task_with("T", |task| {
            task.about.kind = TaskKind::BrowserTest;
            task.about.required_skills = Skills::new(["rust", "sql", "web"]);
            task.about.estimated_minutes = Some(61);
        }));
        let over = Unfit::OverTimeLimit {
            estimate: 61,
            limit: 60,
        };
        let unfit = [
            Unfit::MissingSkill("sql".into()),
            Unfit::MissingSkill("web".into()),
            over,
            Unfit::NeedsBrowser,
        ];
        let expected: Vec<Reason> = unfit.into_iter().map(Reason::Unfit).collect();
        assert_eq!(swarm.ok(why(Some("A"))).reasons, expected);
        for (edit, unfit) in [
            (TaskKind::Test, Unfit::NeedsTests),
            (TaskKind::Code, Unfit::NotInAudience),
        ] {
            let mut swarm = Swarm::new();
            let mut agent = register("A", &[]);
            about(&mut agent).capabilities.can_run_tests = false;
            swarm.ok(agent);
            swarm.create(task_with("T", |task| {
                task.about.kind = edit;
                if unfit == Unfit::NotInAudience {
                    task.about.audience = vec!["B".into()];
                }
            }));
            assert_eq!(swarm.ok(why(Some("A"))).reasons, [Reason::Unfit(unfit)]);
        }
    }

    #[test]
    fn whoever_failed_it_lets_others_go_first_for_a_while() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.ok(fail("A", "T"));
        swarm.wait(Duration::from_secs(60));
        swarm.ok(ReleaseRetries);
        let until = swarm.now + limits::OTHERS_FIRST_FOR;
        assert_eq!(
            swarm.ok(why(Some("A"))).reasons,
            [Reason::Unfit(Unfit::FailedBefore { until })]
        );
        assert!(swarm.ok(why(Some("B"))).reasons.is_empty());
        swarm.wait(limits::OTHERS_FIRST_FOR);
        assert!(swarm.ok(why(Some("A"))).reasons.is_empty());
    }

    #[test]
    fn asking_changes_nothing() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        let before = swarm.task("T").clone();
        swarm.ok(why(Some("A")));
        assert!(swarm.said().is_empty());
        assert_eq!(*swarm.task("T"), before);
    }
}
