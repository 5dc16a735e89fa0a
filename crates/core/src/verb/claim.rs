//! CLAIM: an agent asks for a task and gets the most urgent, then oldest, that it may take.

use std::collections::HashSet;

use super::{Verb, awake, sign_of_life, speaker};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::id::{AgentId, TaskId};
use crate::lane::{Lane, LaneKey, Rep};
use crate::limits;
use crate::refusal::{NotYours, Refusal};
use crate::skills::Skills;
use crate::slice::Slice;
use crate::task::{Priority, Task, TaskKind, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::want::{Ask, Want};

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub agent: AgentId,
    pub filter: Filter,
    /// This task and no other.
    pub task: Option<TaskId>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only tasks that require at least one of these.
    pub skills: Option<Skills>,
    pub priorities: Option<Vec<Priority>>,
    pub kinds: Option<Vec<TaskKind>>,
    pub excluded: HashSet<TaskId>,
    pub max_minutes: Option<u32>,
}

impl Filter {
    /// Whether the tasks of this lane are of the sort that is asked for.
    pub fn wants(&self, key: &LaneKey) -> bool {
        let minutes = |limit: u32| key.minutes.is_none_or(|minutes| minutes <= limit);
        self.skills
            .as_ref()
            .is_none_or(|skills| key.skills.meets(skills))
            && self
                .priorities
                .as_ref()
                .is_none_or(|list| list.contains(&key.priority))
            && self
                .kinds
                .as_ref()
                .is_none_or(|list| list.contains(&key.kind))
            && self.max_minutes.is_none_or(minutes)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    Task(Box<Task>),
    None(NoTask),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTask {
    NoMatchingTasks,
    /// Fitting tasks exist, but others hold them.
    AllTasksClaimed,
}

impl Verb for Claim {
    type Reply = Claimed;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(agent) = want.agent(&self.agent) else {
            return;
        };
        match &self.task {
            Some(id) => {
                let Some(task) = want.task(id) else { return };
                want.lane_of(task);
                if task.previous_agents.contains(&agent.id) {
                    others_qualify(want, &LaneKey::of(task), agent);
                }
            }
            None => {
                let picked = if agent.is_stopping() {
                    None
                } else {
                    pick(want, agent, &self.filter)
                };
                match picked {
                    Some(id) => {
                        want.task(&id);
                    }
                    None if want.is_satisfied() => {
                        fitting_are_held(want, agent, &self.filter);
                    }
                    None => {}
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Claimed, Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        if agent.holds.len() >= limits::CLAIMS_PER_AGENT_MAX {
            return Err(Refusal::TooMany {
                what: "tasks held by one agent",
                limit: limits::CLAIMS_PER_AGENT_MAX,
            });
        }
        let mut want = Want::new(slice);
        let picked = match &self.task {
            Some(id) => Some(self.this_one(&mut want, agent, id)?),
            None if agent.is_stopping() => None,
            None => pick(&mut want, agent, &self.filter),
        };
        let mut changes = Changes::default();
        let Some(id) = picked else {
            let held = fitting_are_held(&mut want, agent, &self.filter);
            sign_of_life(agent, &mut changes, now);
            let reason = if held {
                NoTask::AllTasksClaimed
            } else {
                NoTask::NoMatchingTasks
            };
            return Ok((Claimed::None(reason), changes));
        };
        let task = slice.task(&id).expect("a waiting task has a row");
        let (task, event) = task.clone().claim(&agent.id, now);
        let mut agent = awake(agent, &mut changes, now);
        agent.hold(&task.id, now);
        changes.agents.push(agent);
        changes.task((task.clone(), event));
        Ok((Claimed::Task(Box::new(task)), changes))
    }
}

impl Claim {
    fn this_one(&self, want: &mut Want<'_>, agent: &Agent, id: &TaskId) -> Result<TaskId, Refusal> {
        let task = want
            .task(id)
            .ok_or_else(|| Refusal::TaskNotFound { task: id.clone() })?;
        let not_yours = |why| Refusal::TaskNotYours {
            task: id.clone(),
            why,
        };
        match &task.state {
            TaskState::Ready => {}
            TaskState::Claimed { by, .. } | TaskState::InProgress { by, .. } => {
                return Err(not_yours(NotYours::NotHolder {
                    holder: Some(by.clone()),
                }));
            }
            TaskState::Completed { .. } | TaskState::Failed { .. } | TaskState::Canceled { .. } => {
                return Err(not_yours(NotYours::AlreadyFinished {
                    status: task.status(),
                }));
            }
            TaskState::Waiting | TaskState::RetryWait { .. } | TaskState::NeedsPerson { .. } => {
                return Err(Refusal::WrongState {
                    task: id.clone(),
                    status: task.status(),
                    wanted: TaskStatus::Ready.as_str(),
                });
            }
        }
        let key = LaneKey::of(task);
        let barred = agent.is_stopping()
            || !key.admits(agent)
            || (key.failed_by(&agent.id) && others_qualify(want, &key, agent));
        if barred {
            let message = format!(
                "agent {} does not qualify for task {id}; ask why with GET /tasks/{id}/why",
                agent.id
            );
            return Err(Refusal::Invalid {
                field: "taskId",
                message,
            });
        }
        Ok(id.clone())
    }
}

/// The best waiting task for this agent, as far as is known; what is not known is asked for.
fn pick(want: &mut Want<'_>, agent: &Agent, filter: &Filter) -> Option<TaskId> {
    let slice = want.slice();
    let mut best: Option<(Priority, u64, &TaskId)> = None;
    for rep in Rep::all_for(agent) {
        for lane in slice.lanes.ready_under(&rep) {
            let behind =
                |best: &(Priority, u64, &TaskId)| (best.0, best.1) < (lane.key.priority, lane.head);
            if best.as_ref().is_some_and(behind) {
                break;
            }
            if !suits(want, &lane.key, agent, filter) {
                continue;
            }
            let Some((number, task)) = first_waiting(want, lane, &filter.excluded) else {
                continue;
            };
            let found = (lane.key.priority, number, task);
            if best.as_ref().is_none_or(|best| found < *best) {
                best = Some(found);
            }
        }
        if let Some(from) = slice.lanes.unknown_from(&rep) {
            let enough = match (&best, &from) {
                (Some(best), Some(from)) => (best.0, best.1) < (from.priority, from.head),
                (Some(_) | None, _) => false,
            };
            if !enough {
                want.ask(Ask::Lanes { rep, from });
            }
        }
    }
    best.map(|(_, _, task)| task.clone())
}

fn first_waiting<'a>(
    want: &mut Want<'a>,
    lane: &Lane,
    excluded: &HashSet<TaskId>,
) -> Option<(u64, &'a TaskId)> {
    let slice = want.slice();
    let Some(view) = slice.lanes.queue(lane.id) else {
        want.ask(Ask::Queue {
            lane: lane.id,
            from: 0,
        });
        return None;
    };
    let first = view.waiting().find(|(_, task)| !excluded.contains(task));
    // Topped up while nothing is unsaved: later in a batch its rows would have to be written first.
    let is_low = view.len() < limits::QUEUE_LOW && !slice.has_unsaved_rows();
    if (first.is_none() || is_low)
        && let Some(from) = view.unknown_from()
    {
        want.ask(Ask::Queue {
            lane: lane.id,
            from,
        });
    }
    first.map(|(number, task)| (*number, task))
}

/// Whether the lane's tasks may go to this agent, and whether it wants them.
fn suits(want: &mut Want<'_>, key: &LaneKey, agent: &Agent, filter: &Filter) -> bool {
    filter.wants(key)
        && key.admits(agent)
        && !(key.failed_by(&agent.id) && others_qualify(want, key, agent))
}

/// Whether an agent that has not failed it yet could take it instead.
pub(super) fn others_qualify(want: &mut Want<'_>, key: &LaneKey, agent: &Agent) -> bool {
    let Some(present) = want.present_agents() else {
        return false;
    };
    let mut found = false;
    for id in present
        .iter()
        .filter(|id| **id != agent.id && !key.failed_by(id))
    {
        let other = want.agent(id);
        found |=
            other.is_some_and(|other| other.is_live() && !other.is_stopping() && key.admits(other));
        if found {
            break;
        }
    }
    found
}

fn fitting_are_held(want: &mut Want<'_>, agent: &Agent, filter: &Filter) -> bool {
    let mut fits = false;
    for rep in Rep::all_for(agent) {
        for lane in want.held_lanes(&rep) {
            fits |= suits(want, &lane.key, agent, filter);
        }
    }
    fits
}

#[cfg(test)]
mod tests;
