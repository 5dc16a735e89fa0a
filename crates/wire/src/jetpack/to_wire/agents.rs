//! Agents and commands.

use switchboard_core::{self as core, CommandKind, verb};

use crate::jetpack::{
    Agent, Capabilities, Command, CommandType, CurrentTask, HeartbeatResponse, Machine, Metrics,
    RegisterResponse, ResumedTask,
};

const MS_PER_MINUTE: u64 = 60_000;

/// The response to REGISTER.
pub fn registered(reply: &verb::Joined) -> RegisterResponse {
    RegisterResponse {
        success: true,
        registered_at: reply.agent.registered_at.into(),
        agent_id: reply.agent.id.to_string(),
        resumed: reply.resumed,
        tasks: reply
            .handed_over
            .iter()
            .map(|(task, epoch)| ResumedTask {
                task_id: task.to_string(),
                epoch: *epoch,
            })
            .collect(),
    }
}

/// The answer to HEARTBEAT.
pub fn heartbeat(reply: &verb::HeartbeatTaken) -> HeartbeatResponse {
    HeartbeatResponse {
        success: true,
        timestamp: reply.at.into(),
        commands: reply.commands.iter().map(command).collect(),
    }
}

/// A command to an agent.
pub fn command(command: &core::Command) -> Command {
    let (kind, task_id, reason) = match &command.kind {
        CommandKind::Shutdown { reason } => (CommandType::Shutdown, None, Some(reason.clone())),
        CommandKind::ReleaseTask { task, reason } => (
            CommandType::ReleaseTask,
            Some(task.to_string()),
            Some(reason.clone()),
        ),
        CommandKind::Ping => (CommandType::Ping, None, None),
    };
    Command {
        id: command.id.to_string(),
        kind,
        task_id,
        reason,
    }
}

/// An agent.
pub fn agent(agent: &core::Agent) -> Agent {
    Agent {
        id: agent.id.to_string(),
        name: agent.name.clone(),
        kind: agent.kind.into(),
        status: (&agent.presence).into(),
        capabilities: Capabilities {
            skills: agent.skills.iter().map(|skill| skill.to_string()).collect(),
            max_task_minutes: agent.capabilities.max_task_minutes,
            can_run_tests: agent.capabilities.can_run_tests,
            can_run_build: agent.capabilities.can_run_build,
            can_access_browser: agent.capabilities.can_access_browser,
        },
        machine: agent.machine.as_ref().map(|machine| Machine {
            id: machine.id.clone(),
            hostname: machine.hostname.clone(),
            pid: machine.pid,
        }),
        current_task: current(agent),
        metrics: agent.metrics.as_ref().map(|metrics| Metrics {
            memory_used_mb: metrics.memory_used_mb,
            tasks_completed_session: metrics.tasks_completed_session,
        }),
        heartbeat_count: agent.heartbeats,
        tasks_completed: agent.completed,
        tasks_failed: agent.failed,
        total_runtime_minutes: agent.runtime_ms / MS_PER_MINUTE,
        registered_at: agent.registered_at.into(),
        last_heartbeat: Some(agent.seen_at.into()),
        last_active_at: Some(agent.last_active_at.into()),
    }
}

/// What it says it is at; else the oldest that it holds.
fn current(agent: &core::Agent) -> Option<CurrentTask> {
    let said = agent.current.as_ref().map(|current| CurrentTask {
        id: current.task.to_string(),
        started_at: Some(current.since.into()),
        progress: current.percent,
        phase: current.phase.map(Into::into),
    });
    let held = || {
        agent.holds.first().map(|task| CurrentTask {
            id: task.to_string(),
            started_at: None,
            progress: None,
            phase: None,
        })
    };
    said.or_else(held)
}
