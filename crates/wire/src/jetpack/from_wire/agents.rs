//! Agents: REGISTER, HEARTBEAT and commands.

use switchboard_core::{AgentId, CommandId, CommandKind, Door, limits, verb};

use super::check::{self, agent_id, at_most, filled, path_or_body, percent, task_id};
use crate::Malformed;
use crate::jetpack::{
    CommandRequest, CommandType, HeartbeatRequest, HeartbeatTask, Machine, Metrics, RegisterRequest,
};

/// REGISTER.
pub fn register(request: RegisterRequest) -> Result<verb::Join, Malformed> {
    let agent = request.agent;
    filled("agent.name", &agent.name, limits::NAME_BYTES_MAX)?;
    let able = agent.capabilities;
    let id = agent_id("agent.id", &agent.id)?;
    let skills = check::skills("agent.capabilities.skills", &able.skills)?;
    let about = verb::About {
        name: agent.name,
        kind: agent.kind.into(),
        capabilities: switchboard_core::Capabilities {
            max_task_minutes: at_most(
                "agent.capabilities.maxTaskMinutes",
                able.max_task_minutes,
                limits::MINUTES_MAX,
            )?,
            can_run_tests: able.can_run_tests,
            can_run_build: able.can_run_build,
            can_access_browser: able.can_access_browser,
        },
        machine: agent.machine.map(machine).transpose()?,
    };
    Ok(verb::Join {
        skills,
        about: Some(about),
        resume: request.resume.unwrap_or(false),
        ..verb::Join::by(Door::Jetpack, id)
    })
}

fn machine(machine: Machine) -> Result<switchboard_core::Machine, Malformed> {
    check::text("agent.machine.id", &machine.id, limits::NAME_BYTES_MAX)?;
    check::text(
        "agent.machine.hostname",
        &machine.hostname,
        limits::NAME_BYTES_MAX,
    )?;
    Ok(switchboard_core::Machine {
        id: machine.id,
        hostname: machine.hostname,
        pid: machine.pid,
    })
}

/// HEARTBEAT.
pub fn heartbeat(
    path: Option<&str>,
    request: HeartbeatRequest,
) -> Result<verb::Heartbeat, Malformed> {
    Ok(verb::Heartbeat {
        agent: path_or_body("agentId", path, request.agent_id.as_deref())?.into(),
        doing: request.status.into(),
        task: request.current_task.map(reported).transpose()?,
        metrics: request.metrics.map(metrics).transpose()?,
    })
}

fn reported(task: HeartbeatTask) -> Result<verb::ReportedTask, Malformed> {
    Ok(verb::ReportedTask {
        id: task_id("currentTask.id", &task.id)?,
        percent: task
            .progress
            .map(|value| percent("currentTask.progress", value))
            .transpose()?,
        phase: task.phase.map(Into::into),
        note: None,
    })
}

fn metrics(metrics: Metrics) -> Result<(f64, u64), Malformed> {
    if metrics.memory_used_mb < 0.0 {
        return Err(Malformed::field(
            "metrics.memoryUsedMB",
            "must not be negative",
        ));
    }
    Ok((metrics.memory_used_mb, metrics.tasks_completed_session))
}

/// `POST /agents/:id/commands`.
pub fn command(
    agent: AgentId,
    request: CommandRequest,
    id: CommandId,
) -> Result<verb::IssueCommand, Malformed> {
    let reason = request.reason.unwrap_or_default();
    check::text("reason", &reason, limits::NOTE_BYTES_MAX)?;
    let task = check::maybe("taskId", request.task_id, task_id)?;
    let kind = match request.kind {
        CommandType::Shutdown => CommandKind::Shutdown { reason },
        CommandType::ReleaseTask => CommandKind::ReleaseTask {
            task: task.ok_or_else(|| Malformed::missing("taskId"))?,
            reason,
        },
        CommandType::Ping => CommandKind::Ping,
    };
    Ok(verb::IssueCommand { agent, id, kind })
}
