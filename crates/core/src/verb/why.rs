//! Why nobody, or an agent, can claim a task: each reason by name. A question that changes nothing.

use super::Verb;
use super::claim::waits_for_others;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::director::Hold;
use crate::id::{AgentId, TaskId};
use crate::lane::{LaneKey, Unfit};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    pub task: TaskId,
    /// Without one, those that the task is for, or all agents there are.
    pub agent: Option<AgentId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyAnswer {
    /// What keeps everyone from it.
    pub reasons: Vec<Reason>,
    /// The agents in question; nobody is, where none was named and the task is held, finished or up to a person.
    pub agents: Option<Agents>,
}

/// What the agents in question have to do with a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    pub total: usize,
    /// Who may claim it, and what each is busy with.
    pub able: Vec<(AgentId, Option<TaskId>)>,
    /// If nobody is able: what keeps all of them from it.
    pub common: Vec<Reason>,
    /// If there is no such thing: what keeps each of them from it, those online first.
    pub each: Vec<(AgentId, Vec<Reason>)>,
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

impl WhyAnswer {
    pub fn is_claimable(&self) -> bool {
        let has_taker = |agents: &Agents| !agents.able.is_empty();
        self.reasons.is_empty() && self.agents.as_ref().is_none_or(has_taker)
    }
}

impl Agents {
    /// How many are neither named nor covered by what they have in common.
    pub fn unnamed(&self) -> usize {
        match self.common.is_empty() {
            true if self.able.is_empty() => self.total - self.each.len(),
            true | false => 0,
        }
    }
}

impl Verb for Why {
    type Reply = WhyAnswer;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.hold(now);
        let Some(task) = want.task(&self.task) else {
            return;
        };
        for id in self.in_question(want, task).unwrap_or_default() {
            if let Some(agent) = want.agent(id) {
                waits_for_others(want, task, agent, now);
            }
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
        let agents = self.in_question(&mut Want::new(slice), task);
        let agents = agents.map(|agents| about_the_agents(slice, task, agents, now));
        Ok((WhyAnswer { reasons, agents }, Changes::default()))
    }
}

impl Why {
    fn in_question<'a, 'b: 'a>(
        &'a self,
        want: &mut Want<'b>,
        task: &'b Task,
    ) -> Option<&'a [AgentId]> {
        match &self.agent {
            Some(id) => Some(std::slice::from_ref(id)),
            None if !is_up_for_claims(task) => None,
            None if !task.about.audience.is_empty() => Some(&task.about.audience),
            None => want.present_agents(),
        }
    }
}

/// Whether it is a question of agents at all who takes it next.
fn is_up_for_claims(task: &Task) -> bool {
    match task.status() {
        TaskStatus::Ready | TaskStatus::Waiting | TaskStatus::RetryWait => true,
        TaskStatus::Claimed
        | TaskStatus::InProgress
        | TaskStatus::NeedsPerson
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Canceled => false,
    }
}

fn about_the_agents(slice: &Slice, task: &Task, ids: &[AgentId], now: Timestamp) -> Agents {
    let mut able = Vec::new();
    let mut unable = Vec::new();
    for id in ids {
        let agent = slice.agent(id).filter(|agent| !agent.is_gone());
        let reasons = agent.map_or_else(
            || vec![Reason::AgentNotRegistered],
            |agent| about_the_agent(slice, task, agent, now),
        );
        if reasons.is_empty() {
            let busy_with = agent.and_then(|agent| agent.holds.first().cloned());
            able.push((id.clone(), busy_with));
        } else {
            unable.push((id.clone(), reasons));
        }
    }
    let total = ids.len();
    able.truncate(limits::WHY_AGENTS_MAX);
    if !able.is_empty() {
        unable.clear();
    }
    let common: Vec<Reason> = match unable.as_slice() {
        [] | [_] => Vec::new(),
        [(_, first), rest @ ..] => {
            let has_everyone = |reason: &&Reason| rest.iter().all(|(_, all)| all.contains(reason));
            first.iter().filter(has_everyone).cloned().collect()
        }
    };
    if !common.is_empty() {
        unable.clear();
    }
    unable.sort_by_key(|(_, reasons)| reasons.contains(&Reason::AgentOffline));
    unable.truncate(limits::WHY_AGENTS_MAX);
    Agents {
        total,
        able,
        common,
        each: unable,
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

fn about_the_agent(slice: &Slice, task: &Task, agent: &Agent, now: Timestamp) -> Vec<Reason> {
    let mut reasons = Vec::new();
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
    reasons
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ReleaseRetries;
    use super::super::testing::{Standing, Swarm, about, fail, register, task_with, word};
    use super::*;
    use crate::description::Description;
    use crate::skills::Skills;
    use crate::task::{TaskKind, TaskStatus};

    fn why(agent: Option<&str>) -> Why {
        Why {
            task: "T".into(),
            agent: agent.map(AgentId::from),
        }
    }

    /// What keeps this agent from the task, whoever else it keeps.
    fn reasons(swarm: &mut Swarm, agent: &str) -> Vec<Reason> {
        let answer = swarm.ok(why(Some(agent)));
        let agents = answer.agents.expect("one was named");
        assert_eq!((agents.total, agents.common.len()), (1, 0));
        let each = agents.each.into_iter().flat_map(|(_, reasons)| reasons);
        answer.reasons.into_iter().chain(each).collect()
    }

    /// What the agents there are have to do with T.
    fn agents(swarm: &mut Swarm) -> Agents {
        swarm.ok(why(None)).agents.expect("T is up for claims")
    }

    fn missing(skill: &str) -> Reason {
        Reason::Unfit(Unfit::MissingSkill(skill.into()))
    }

    /// Agents with these skills, and T that asks for more.
    fn crowd(skills: &[&[&str]], edit: impl FnOnce(&mut Description)) -> Swarm {
        join_crowd(Swarm::new(), skills, edit)
    }

    /// The same, and one that went silent before they came.
    fn crowd_with_a_silent_one(skills: &[&[&str]], edit: impl FnOnce(&mut Description)) -> Swarm {
        let mut swarm = Swarm::with_agent(Standing::Silent);
        swarm.wait(Duration::from_secs(1));
        join_crowd(swarm, skills, edit)
    }

    fn join_crowd(
        mut swarm: Swarm,
        skills: &[&[&str]],
        edit: impl FnOnce(&mut Description),
    ) -> Swarm {
        for (at, skills) in skills.iter().enumerate() {
            swarm.join(&format!("w{at}"), skills);
        }
        swarm.create(task_with("T", |task| edit(&mut task.about)));
        swarm
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
            let answer = swarm.ok(why(None));
            assert_eq!(answer.reasons, expected, "{status}");
            let able = answer.agents.map(|agents| agents.able.len());
            let is_ready = *status == TaskStatus::Ready;
            let waits = matches!(status, TaskStatus::Waiting | TaskStatus::RetryWait);
            assert_eq!(able, (is_ready || waits).then_some(2), "{status}");
            assert_eq!(swarm.ok(why(None)).is_claimable(), is_ready, "{status}");
            assert_eq!(reasons(&mut swarm, "B"), expected, "{status}");
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
            assert_eq!(reasons(&mut swarm, "A"), expected, "{standing:?}");
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
        assert_eq!(reasons(&mut swarm, "A"), expected);
        for (edit, unfit) in [
            (TaskKind::Test, Unfit::NeedsTests),
            (TaskKind::Code, Unfit::NotInAudience),
            (TaskKind::Code, Unfit::Barred),
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
                if unfit == Unfit::Barred {
                    task.about.barred = vec!["A".into()];
                }
            }));
            assert_eq!(reasons(&mut swarm, "A"), [Reason::Unfit(unfit)]);
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
            reasons(&mut swarm, "A"),
            [Reason::Unfit(Unfit::FailedBefore { until })]
        );
        assert!(reasons(&mut swarm, "B").is_empty());
        swarm.wait(limits::OTHERS_FIRST_FOR);
        assert!(reasons(&mut swarm, "A").is_empty());
    }

    #[test]
    fn without_a_name_the_agents_there_are_answer() {
        let cobol = |about: &mut Description| about.required_skills = Skills::new(["cobol"]);
        // Nobody is there, or whoever was left.
        let mut swarm = crowd(&[], cobol);
        assert_eq!(agents(&mut swarm), Agents::default());
        assert!(!swarm.ok(why(None)).is_claimable());
        // What all lack is said once, and nothing else is said of anybody.
        let mut swarm = crowd_with_a_silent_one(&[&["css"], &[]], cobol);
        let all = agents(&mut swarm);
        assert_eq!((all.total, all.common), (3, vec![missing("cobol")]));
        assert!(all.able.is_empty() && all.each.is_empty());
        // A single agent is named.
        let one = agents(&mut crowd(&[&[]], cobol));
        assert_eq!(one.each, [("w0".into(), vec![missing("cobol")])]);
        assert!(one.common.is_empty());
    }

    #[test]
    fn of_a_task_that_is_for_somebody_only_these_are_asked() {
        let mut swarm = crowd(&[&[], &[]], |about| about.audience = vec!["w1".into()]);
        let one = agents(&mut swarm);
        assert_eq!((one.total, one.able), (1, vec![("w1".into(), None)]));
        let mut swarm = crowd(&[&[]], |about| about.audience = vec!["builder".into()]);
        let one = agents(&mut swarm);
        assert_eq!(
            one.each,
            [("builder".into(), vec![Reason::AgentNotRegistered])]
        );
        assert!(!swarm.ok(why(None)).is_claimable());
    }

    #[test]
    fn where_each_lacks_something_else_each_is_named_those_online_first() {
        let mut swarm = crowd_with_a_silent_one(&[&["sql"], &["web"]], |about| {
            about.required_skills = Skills::new(["sql", "web"]);
        });
        let all = agents(&mut swarm);
        let silent = vec![Reason::AgentOffline, missing("sql"), missing("web")];
        let expected = [
            ("w0".into(), vec![missing("web")]),
            ("w1".into(), vec![missing("sql")]),
            ("A".into(), silent),
        ];
        assert_eq!(all.each, expected);
        assert_eq!((all.common.len(), all.unnamed()), (0, 0));
    }

    #[test]
    fn who_can_claim_it_is_named_with_what_keeps_it_busy() {
        let mut swarm = crowd(&[&["sql"], &["sql"], &[]], |about| {
            about.required_skills = Skills::new(["sql"]);
        });
        swarm.add("U");
        swarm.hold("w1", "U");
        let all = agents(&mut swarm);
        let expected = [("w0".into(), None), ("w1".into(), Some("U".into()))];
        assert_eq!(all.able, expected);
        assert!(all.common.is_empty() && all.each.is_empty());
        assert_eq!(all.unnamed(), 0);
    }

    #[test]
    fn only_so_many_agents_are_named() {
        let max = limits::WHY_AGENTS_MAX;
        for count in [max - 1, max, max + 1] {
            let skills: Vec<&[&str]> = (0..count)
                .map(|at| {
                    if at % 2 == 0 {
                        &["sql"] as &[&str]
                    } else {
                        &["web"]
                    }
                })
                .collect();
            let mut swarm = crowd(&skills, |about| {
                about.required_skills = Skills::new(["sql", "web"]);
            });
            let all = agents(&mut swarm);
            assert_eq!((all.total, all.each.len()), (count, count.min(max)));
            assert_eq!(all.unnamed(), count.saturating_sub(max));
            let mut swarm = crowd(&skills, |_| {});
            assert_eq!(agents(&mut swarm).able.len(), count.min(max));
        }
    }

    #[test]
    fn asking_changes_nothing() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        let before = swarm.task("T").clone();
        swarm.ok(why(Some("A")));
        swarm.ok(why(None));
        assert!(swarm.said().is_empty());
        assert_eq!(*swarm.task("T"), before);
    }
}
