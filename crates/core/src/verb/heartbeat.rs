//! HEARTBEAT: an agent says that it lives, what it does, and hears what it is told.

use super::{Verb, awake, speaker};
use crate::agent::{Agent, AgentMetrics, Command, CommandKind, Current, Doing, Presence};
use crate::changes::{Changes, Pulse};
use crate::event::Event;
use crate::id::{AgentId, CommandId, TaskId};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Phase, Progress, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    pub agent: AgentId,
    pub doing: Doing,
    pub task: Option<ReportedTask>,
    /// Memory in MB, tasks completed in this session.
    pub metrics: Option<(f64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedTask {
    pub id: TaskId,
    pub percent: Option<u8>,
    pub phase: Option<Phase>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatTaken {
    pub at: Timestamp,
    pub commands: Vec<Command>,
}

impl Verb for Heartbeat {
    type Reply = HeartbeatTaken;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(agent) = want.agent(&self.agent) else {
            return;
        };
        if let Some(reported) = self.held(agent)
            && let Some(task) = want.task(&reported.id)
        {
            want.lane_of(task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(HeartbeatTaken, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        if self.changes_nothing(known, now) {
            changes.pulses.push(Pulse {
                agent: known.id.clone(),
                at: now,
                heartbeat: true,
            });
            return Ok((
                HeartbeatTaken {
                    at: now,
                    commands: self.strays(known, now),
                },
                changes,
            ));
        }
        let mut agent = awake(known, &mut changes, now);
        agent.heartbeats += 1;
        self.report_status(&mut agent, &mut changes);
        if let Some((memory_used_mb, tasks_completed_session)) = self.metrics {
            agent.metrics = Some(AgentMetrics {
                memory_used_mb,
                tasks_completed_session,
                at: now,
            });
        }
        if let Some(reported) = self.held(known) {
            agent.current = Some(reported.seen_by(known, now));
            if let Some(task) = slice.task(&reported.id) {
                reported.advance(task, &mut changes, now);
            }
        }
        obey_pings(&mut agent, &mut changes);
        let mut commands = agent.commands.clone();
        commands.extend(self.strays(known, now));
        for command in &mut agent.commands {
            command.handed = true;
        }
        changes.agents.push(agent);
        Ok((HeartbeatTaken { at: now, commands }, changes))
    }
}

impl Heartbeat {
    fn held(&self, agent: &Agent) -> Option<&ReportedTask> {
        self.task
            .as_ref()
            .filter(|task| agent.holds.contains(&task.id))
    }

    /// A task the agent names but does not hold: it is told to let go, and nothing changes.
    fn strays(&self, agent: &Agent, now: Timestamp) -> Vec<Command> {
        let stray = self
            .task
            .as_ref()
            .filter(|task| !agent.holds.contains(&task.id));
        let order = stray.map(|task| Command {
            id: CommandId::new(format!("reassigned:{}", task.id)),
            kind: CommandKind::ReleaseTask {
                task: task.id.clone(),
                reason: "reassigned".to_owned(),
            },
            at: now,
            handed: true,
        });
        order.into_iter().collect()
    }

    fn doing(&self, agent: &Agent) -> Doing {
        if agent.is_stopping() {
            Doing::Stopping
        } else {
            self.doing
        }
    }

    /// Most heartbeats only say "still here"; those cost no row.
    fn changes_nothing(&self, agent: &Agent, now: Timestamp) -> bool {
        let same_task = match self.held(agent) {
            None => true,
            Some(reported) => agent.current.as_ref() == Some(&reported.seen_by(agent, now)),
        };
        let same_metrics = self.metrics.is_none_or(|given| {
            agent.metrics.is_some_and(|kept| {
                (kept.memory_used_mb, kept.tasks_completed_session) == given
                    || now.since(kept.at) < limits::PULSE_EVERY
            })
        });
        agent.presence == Presence::Live(self.doing(agent))
            && agent.commands.is_empty()
            && same_task
            && same_metrics
    }

    fn report_status(&self, agent: &mut Agent, changes: &mut Changes) {
        let presence = Presence::Live(self.doing(agent));
        if agent.presence != presence {
            agent.presence = presence;
            changes.event(Event::AgentStatusChanged {
                agent: agent.id.clone(),
                status: agent.status().to_owned(),
                task: self.task.as_ref().map(|task| task.id.clone()),
            });
        }
    }
}

impl ReportedTask {
    fn seen_by(&self, agent: &Agent, now: Timestamp) -> Current {
        let before = agent
            .current
            .as_ref()
            .filter(|current| current.task == self.id);
        Current {
            task: self.id.clone(),
            since: before.map_or(now, |current| current.since),
            percent: self.percent.or(before.and_then(|current| current.percent)),
            phase: self.phase.or(before.and_then(|current| current.phase)),
        }
    }

    /// Moves the task's own progress along, if the heartbeat said anything new about it.
    fn advance(&self, task: &Task, changes: &mut Changes, now: Timestamp) {
        if self.percent.is_none() && self.phase.is_none() {
            return;
        }
        let last = task.progress.as_ref();
        let progress = Progress {
            phase: self
                .phase
                .or(last.map(|last| last.phase))
                .unwrap_or(Phase::Analyzing),
            percent: self.percent.or(last.map(|last| last.percent)).unwrap_or(0),
            note: last.map(|last| last.note.clone()).unwrap_or_default(),
            files: last.map(|last| last.files.clone()).unwrap_or_default(),
            told_at: now,
            told_percent: 0,
        };
        let (task, event) = task.clone().advance(progress, now);
        changes.tasks.push(task);
        changes.events.extend(event);
    }
}

/// A ping has done its work once the agent beats again after hearing it.
fn obey_pings(agent: &mut Agent, changes: &mut Changes) {
    let id = agent.id.clone();
    agent.commands.retain(|command| {
        let obeyed = command.kind == CommandKind::Ping && command.handed;
        if obeyed {
            changes.event(Event::CommandObeyed {
                agent: id.clone(),
                command: command.id.clone(),
            });
        }
        !obeyed
    });
}
