//! Why an agent cannot claim a task: each reason by name. A question that changes nothing.

use super::Verb;
use super::claim::others_qualify;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::id::{AgentId, TaskId};
use crate::lane::{LaneKey, Unfit};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskState};
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
    AgentNotRegistered,
    AgentOffline,
    AgentStopping,
    Unfit(Unfit),
}

impl Verb for Why {
    type Reply = WhyAnswer;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let agent = self.agent.as_ref().and_then(|id| want.agent(id));
        if let (Some(task), Some(agent)) = (want.task(&self.task), agent)
            && task.previous_agents.contains(&agent.id)
        {
            others_qualify(want, &LaneKey::of(task), agent);
        }
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(WhyAnswer, Changes), Refusal> {
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        let mut reasons = about_the_task(task);
        if let Some(id) = &self.agent {
            match slice.agent(id).filter(|agent| !agent.is_gone()) {
                None => reasons.push(Reason::AgentNotRegistered),
                Some(agent) => about_the_agent(slice, task, agent, &mut reasons),
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

fn about_the_agent(slice: &Slice, task: &Task, agent: &Agent, reasons: &mut Vec<Reason>) {
    if !agent.is_live() {
        reasons.push(Reason::AgentOffline);
    }
    if agent.is_stopping() {
        reasons.push(Reason::AgentStopping);
    }
    let key = LaneKey::of(task);
    reasons.extend(key.unfit(agent).map(Reason::Unfit));
    if key.failed_by(&agent.id) && others_qualify(&mut Want::new(slice), &key, agent) {
        reasons.push(Reason::Unfit(Unfit::FailedBefore));
    }
}
