//! CLAIM: an agent asks for a task and gets the most urgent, then oldest, that it may take.

use std::collections::HashSet;

use super::{Verb, awake, sign_of_life, speaker};
use crate::agent::Agent;
use crate::changes::Changes;
use crate::director::Hold;
use crate::id::{AgentId, TaskId};
use crate::lane::{Lane, LaneKey, Rep};
use crate::limits;
use crate::refusal::{NotYours, Refusal};
use crate::skills::Skills;
use crate::slice::{QueueView, Slice};
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
    /// Those that are not named are all but skill_distribution: it is handed out to who asks for it.
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
                .map_or(key.kind != TaskKind::SkillDistribution, |list| {
                    list.contains(&key.kind)
                })
            && self.max_minutes.is_none_or(minutes)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    Task(Box<Task>),
    None(Nothing),
}

/// No task, and what else is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nothing {
    pub reason: NoTask,
    /// There is one, but the agent failed it before: then it may have it, if no other took it.
    pub others_first_until: Option<Timestamp>,
    /// Nobody gets new work at the moment.
    pub paused: Option<Hold>,
}

impl From<NoTask> for Nothing {
    fn from(reason: NoTask) -> Self {
        Nothing {
            reason,
            others_first_until: None,
            paused: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTask {
    NoMatchingTasks,
    /// Fitting tasks exist, but others hold them.
    AllTasksClaimed,
}

impl Verb for Claim {
    type Reply = Claimed;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let is_paused = want.hold(now).is_some();
        let Some(agent) = want.agent(&self.agent).filter(|_| !is_paused) else {
            return;
        };
        match &self.task {
            Some(id) => {
                let Some(task) = want.task(id) else { return };
                want.lane_of(task);
                has_enough(want, agent);
                waits_for_others(want, task, agent, now);
            }
            None => {
                let picked = if agent.is_stopping() {
                    Picked::default()
                } else {
                    self.pick(want, agent, now)
                };
                match picked.task {
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
        let mut changes = Changes::default();
        if let Some(hold) = want.hold(now) {
            sign_of_life(agent, &mut changes, now);
            let nothing = Nothing {
                paused: Some(hold),
                ..NoTask::NoMatchingTasks.into()
            };
            return Ok((Claimed::None(nothing), changes));
        }
        let picked = match &self.task {
            Some(id) => Picked {
                task: Some(self.this_one(&mut want, agent, id, now)?),
                ..Picked::default()
            },
            None if agent.is_stopping() => Picked::default(),
            None => self.pick(&mut want, agent, now),
        };
        let Some(id) = picked.task else {
            let held = fitting_are_held(&mut want, agent, &self.filter);
            sign_of_life(agent, &mut changes, now);
            let reason = if held {
                NoTask::AllTasksClaimed
            } else {
                NoTask::NoMatchingTasks
            };
            let nothing = Nothing {
                reason,
                others_first_until: picked.others_first_until,
                paused: None,
            };
            return Ok((Claimed::None(nothing), changes));
        };
        let task = slice.task(&id).expect("a waiting task has a row");
        let (task, event) = task.clone().claim(&agent.id, now);
        let mut agent = awake(agent, &mut changes, now);
        agent.hold(&task.id, now);
        changes.put(agent);
        changes.task((task.clone(), event));
        Ok((Claimed::Task(Box::new(task)), changes))
    }
}

impl Claim {
    /// The best one; where the agent has enough of other nodes, the best of this one.
    fn pick(&self, want: &mut Want<'_>, agent: &Agent, now: Timestamp) -> Picked {
        let picked = pick(want, agent, &self.filter, now);
        let is_routed = |want: &mut Want<'_>, picked: &Picked| {
            let task = picked.task.as_ref().and_then(|id| want.task(id));
            task.is_some_and(|task| task.contract.is_some())
        };
        if !is_routed(want, &picked) || !has_enough(want, agent) {
            return picked;
        }
        let mut filter = self.filter.clone();
        let mut picked = picked;
        for _ in 0..limits::WITHHELD_PER_LOOK {
            filter.excluded.extend(picked.task.take());
            picked = pick(want, agent, &filter, now);
            if !is_routed(want, &picked) {
                return picked;
            }
        }
        Picked::default()
    }

    fn this_one(
        &self,
        want: &mut Want<'_>,
        agent: &Agent,
        id: &TaskId,
        now: Timestamp,
    ) -> Result<TaskId, Refusal> {
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
        if task.contract.is_some() && has_enough(want, agent) {
            return Err(Refusal::TooMany {
                what: "tasks of other nodes held by one agent",
                limit: limits::ROUTED_HELD_MAX,
            });
        }
        let barred = agent.is_stopping() || !LaneKey::of(task).admits(agent);
        if barred || waits_for_others(want, task, agent, now).is_some() {
            let message = format!(
                "agent {} does not qualify for task {id}; ask why with GET /tasks/{id}/why",
                agent.id
            );
            return Err(Refusal::Invalid {
                field: "task_id",
                message,
            });
        }
        Ok(id.clone())
    }
}

/// Whether it holds as many tasks of other nodes as it may.
fn has_enough(want: &mut Want<'_>, agent: &Agent) -> bool {
    if agent.holds.len() < limits::ROUTED_HELD_MAX {
        return false;
    }
    let held = agent.holds.iter().filter_map(|held| want.task(held));
    held.filter(|task| task.contract.is_some()).count() >= limits::ROUTED_HELD_MAX
}

/// What a look at the queue found.
#[derive(Debug, Default)]
struct Picked {
    task: Option<TaskId>,
    /// Something else waits for this agent, but others come first until then.
    others_first_until: Option<Timestamp>,
}

/// The best waiting task for this agent, as far as is known; what is not known is asked for.
fn pick(want: &mut Want<'_>, agent: &Agent, filter: &Filter, now: Timestamp) -> Picked {
    let slice = want.slice();
    let mut best: Option<(Priority, u64, &TaskId)> = None;
    let mut others_first_until: Option<Timestamp> = None;
    for rep in Rep::all_for(agent) {
        for lane in slice.lanes.ready_under(&rep) {
            let behind =
                |best: &(Priority, u64, &TaskId)| (best.0, best.1) < (lane.key.priority, lane.head);
            if best.as_ref().is_some_and(behind) {
                break;
            }
            if !suits(&lane.key, agent, filter) {
                continue;
            }
            let found = if comes_last(want, &lane.key, agent) {
                let (found, until) = first_left_over(want, lane, filter, now);
                others_first_until = others_first_until.into_iter().chain(until).min();
                found
            } else {
                first_waiting(want, lane, |task| !filter.excluded.contains(task))
            };
            let Some((number, task)) = found else {
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
    Picked {
        task: best.map(|(_, _, task)| task.clone()),
        others_first_until,
    }
}

fn first_waiting<'a>(
    want: &mut Want<'a>,
    lane: &Lane,
    is_wanted: impl Fn(&TaskId) -> bool,
) -> Option<(u64, &'a TaskId)> {
    let slice = want.slice();
    let Some(view) = slice.lanes.queue(lane.id) else {
        want.ask(Ask::Queue {
            lane: lane.id,
            from: 0,
        });
        return None;
    };
    let first = view.waiting().find(|(_, task)| is_wanted(task));
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

/// The first task of a lane that others had their time to take; if there is none, when the next one is.
fn first_left_over<'a>(
    want: &mut Want<'a>,
    lane: &Lane,
    filter: &Filter,
    now: Timestamp,
) -> (Option<(u64, &'a TaskId)>, Option<Timestamp>) {
    // Asked for like any other lane, so that what is known of its queue is enough to look at.
    first_waiting(want, lane, |task| !filter.excluded.contains(task));
    let queue = want.slice().lanes.queue(lane.id);
    let waiting = queue.into_iter().flat_map(QueueView::waiting);
    let wanted = waiting.filter(|(_, task)| !filter.excluded.contains(task));
    let mut next = None;
    for (number, id) in wanted.take(limits::WITHHELD_PER_LOOK) {
        let Some(until) = want.task(id).map(Task::others_first_until) else {
            continue;
        };
        if until <= now {
            return (Some((*number, id)), None);
        }
        next = next.into_iter().chain([until]).min();
    }
    (None, next)
}

/// Whether the lane's tasks may go to this agent, and whether it wants them.
fn suits(key: &LaneKey, agent: &Agent, filter: &Filter) -> bool {
    filter.wants(key) && key.admits(agent)
}

/// Until when others come first with a waiting task that the agent failed before; `None` if it may have it now.
pub(super) fn waits_for_others(
    want: &mut Want<'_>,
    task: &Task,
    agent: &Agent,
    now: Timestamp,
) -> Option<Timestamp> {
    let until = task.others_first_until();
    (until > now && comes_last(want, &LaneKey::of(task), agent)).then_some(until)
}

/// Whether it failed these tasks before, and an idle agent that has not could take them instead.
fn comes_last(want: &mut Want<'_>, key: &LaneKey, agent: &Agent) -> bool {
    if !key.failed_by(&agent.id) {
        return false;
    }
    let Some(present) = want.present_agents() else {
        return false;
    };
    let mut others = present
        .iter()
        .filter(|id| **id != agent.id && !key.failed_by(id));
    others.any(|id| {
        let other = want.agent(id);
        other.is_some_and(|other| other.is_idle() && !other.is_stopping() && key.admits(other))
    })
}

fn fitting_are_held(want: &mut Want<'_>, agent: &Agent, filter: &Filter) -> bool {
    let mut fits = false;
    for rep in Rep::all_for(agent) {
        for lane in want.held_lanes(&rep) {
            fits |= suits(&lane.key, agent, filter);
        }
    }
    fits
}

#[cfg(test)]
mod tests;
