//! Tasks, attempts, and the answers to what is done with them.

use switchboard_core::verb;
use switchboard_core::{self as core, Head, TaskState, TaskStatus, Timestamp};

use super::{names, quality};
use crate::Json;
use crate::jetpack::{
    Attempt, ClaimResponse, CompleteResponse, Evidence, FailResponse, Progress, ProgressResponse,
    Task, TaskCounts,
};

const MS_PER_MINUTE: u64 = 60_000;

/// A task.
pub fn task(task: &core::Task) -> Task {
    let shown = Shown::of(&task.state);
    Task {
        id: task.id.to_string(),
        number: task.number,
        title: task.about.title.clone(),
        description: task.about.description.clone(),
        status: task.status().into(),
        priority: task.about.priority.into(),
        kind: task.about.kind.into(),
        assigned_agent: shown.agent.map(|agent| agent.to_string()),
        claimed_at: task.claimed_at().map(Into::into),
        dependencies: names(&task.dependencies),
        blockers: names(&task.blockers),
        required_skills: task
            .about
            .required_skills
            .iter()
            .map(|skill| skill.to_string())
            .collect(),
        files: task.about.files.clone(),
        started_at: task.started_at.map(Into::into),
        completed_at: shown.completed_at.map(Into::into),
        estimated_minutes: task.about.estimated_minutes,
        actual_minutes: task
            .worked_ms
            .map(|ms| u32::try_from(ms.div_ceil(MS_PER_MINUTE)).unwrap_or(u32::MAX)),
        retry_count: task.retries,
        max_retries: task.about.max_retries,
        last_error: task
            .last_failure
            .as_ref()
            .map(|failure| failure.message.clone()),
        failure_type: task
            .last_failure
            .as_ref()
            .map(|failure| failure.kind.into()),
        next_retry_at: shown.next_retry_at.map(Into::into),
        previous_agents: names(&task.previous_agents),
        result: task.result.as_deref().map(Json::stored),
        branch: task.about.branch.clone(),
        quality_snapshot_id: task.snapshot.as_ref().map(ToString::to_string),
        created_at: task.created_at.into(),
        updated_at: task.updated_at.into(),
        epoch: task.epoch,
        corr_id: task.corr_id.to_string(),
        audience: names(&task.about.audience),
        on_dependency_failure: task.on_dependency_failure.into(),
        progress: task.progress.as_ref().map(progress),
        verdict: None,
    }
}

/// With its verdict, which follows from its attempts.
pub fn judged_task(row: &core::Task, attempts: &[core::Attempt]) -> Task {
    let last = attempts.iter().rev().find(|one| is_done(one.outcome));
    let evidence = last.map_or(&[][..], |one| &one.evidence);
    let verdict = match row.status() {
        core::TaskStatus::Completed | core::TaskStatus::NeedsPerson => {
            Some(core::Verdict::of(evidence).into())
        }
        core::TaskStatus::Waiting
        | core::TaskStatus::Ready
        | core::TaskStatus::Claimed
        | core::TaskStatus::InProgress
        | core::TaskStatus::RetryWait
        | core::TaskStatus::Failed
        | core::TaskStatus::Canceled => None,
    };
    Task {
        verdict,
        ..task(row)
    }
}

/// What the public form takes from the state.
struct Shown<'a> {
    agent: Option<&'a core::AgentId>,
    completed_at: Option<Timestamp>,
    next_retry_at: Option<Timestamp>,
}

impl<'a> Shown<'a> {
    fn of(state: &'a TaskState) -> Self {
        let (agent, completed_at, next_retry_at) = match state {
            TaskState::Claimed { by, .. }
            | TaskState::InProgress { by, .. }
            | TaskState::NeedsPerson { by, .. } => (Some(by), None, None),
            TaskState::Completed { by, at } => (Some(by), Some(*at), None),
            TaskState::RetryWait { until } => (None, None, Some(*until)),
            TaskState::Waiting
            | TaskState::Ready
            | TaskState::Failed { .. }
            | TaskState::Canceled { .. } => (None, None, None),
        };
        Self {
            agent,
            completed_at,
            next_retry_at,
        }
    }
}

fn progress(progress: &core::Progress) -> Progress {
    Progress {
        phase: progress.phase.into(),
        percent_complete: progress.percent.into(),
        description: progress.note.clone(),
        files_modified: progress.files.clone(),
    }
}

/// The answer to CLAIM.
pub fn claimed(reply: &verb::Claimed) -> ClaimResponse {
    match reply {
        verb::Claimed::Task(row) => ClaimResponse {
            success: true,
            task: Some(task(row)),
            reason: None,
            others_first_until: None,
            paused: None,
        },
        verb::Claimed::None(nothing) => ClaimResponse {
            success: false,
            task: None,
            reason: Some(nothing.reason.into()),
            others_first_until: nothing.others_first_until.map(Into::into),
            paused: nothing.paused.as_ref().map(super::paused),
        },
    }
}

/// The answer to PROGRESS.
pub fn progressed(reply: &verb::Progressed) -> ProgressResponse {
    match reply {
        verb::Progressed::Continue => ProgressResponse {
            success: true,
            go_on: true,
            reason: None,
        },
        verb::Progressed::Abort(why) => ProgressResponse {
            success: true,
            go_on: false,
            reason: Some(why.word().to_owned()),
        },
    }
}

/// The response to COMPLETE.
pub fn completed(reply: &verb::Completed) -> CompleteResponse {
    CompleteResponse {
        success: true,
        quality_gate_passed: reply.judgement.passed,
        regressions: reply
            .judgement
            .regressions
            .iter()
            .map(quality::regression)
            .collect(),
        next_action: reply.judgement.next.into(),
        status: reply.status.into(),
    }
}

/// The response to FAIL.
pub fn failed(reply: &verb::Failed) -> FailResponse {
    FailResponse {
        success: true,
        will_retry: reply.retry_after.is_some(),
        retry_after: reply
            .retry_after
            .map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        status: reply.status.into(),
    }
}

/// An attempt that is over.
pub fn attempt(attempt: &core::Attempt) -> Attempt {
    Attempt {
        epoch: attempt.epoch,
        agent_id: attempt.agent.to_string(),
        claimed_at: attempt.claimed_at.into(),
        ended_at: Some(attempt.ended_at.into()),
        progress: attempt.progress.as_ref().map(progress),
        files: attempt
            .progress
            .as_ref()
            .map(|progress| progress.files.clone())
            .unwrap_or_default(),
        outcome: Some(attempt.outcome.into()),
        failure_type: attempt.failure.map(Into::into),
        message: attempt.message.clone(),
        details: attempt.details.clone(),
        suggested_action: attempt.suggested_action.clone(),
        evidence: attempt.evidence.iter().map(evidence).collect(),
        verdict: is_done(attempt.outcome).then(|| core::Verdict::of(&attempt.evidence).into()),
    }
}

fn evidence(one: &core::Evidence) -> Evidence {
    Evidence {
        command: one.command.clone(),
        exit_code: one.exit_code,
        duration_ms: one.duration_ms,
        commit: one.commit.clone(),
        source: one.source.into(),
    }
}

/// Whether somebody said that it is done.
fn is_done(outcome: core::Outcome) -> bool {
    match outcome {
        core::Outcome::Completed | core::Outcome::NeedsPerson => true,
        core::Outcome::Failed
        | core::Outcome::Crashed
        | core::Outcome::Released
        | core::Outcome::HandedOver
        | core::Outcome::Canceled => false,
    }
}

/// The attempt that goes on, if somebody holds the task.
pub fn running_attempt(task: &core::Task) -> Option<Attempt> {
    Some(Attempt {
        epoch: task.epoch,
        agent_id: task.holder()?.to_string(),
        claimed_at: task.claimed_at()?.into(),
        ended_at: None,
        progress: task.progress.as_ref().map(progress),
        files: task
            .progress
            .as_ref()
            .map(|progress| progress.files.clone())
            .unwrap_or_default(),
        outcome: None,
        failure_type: None,
        message: None,
        details: None,
        suggested_action: None,
        evidence: Vec::new(),
        verdict: None,
    })
}

/// Tasks by state.
pub fn task_counts(head: &Head) -> TaskCounts {
    TaskCounts {
        total: head.tasks_total(),
        pending: 0,
        ready: head.count(TaskStatus::Ready),
        claimed: head.count(TaskStatus::Claimed),
        in_progress: head.count(TaskStatus::InProgress),
        completed: head.count(TaskStatus::Completed),
        failed: head.count(TaskStatus::Failed),
        pending_retry: head.count(TaskStatus::RetryWait),
        blocked: head.count(TaskStatus::Waiting),
        needs_review: head.count(TaskStatus::NeedsPerson),
        canceled: head.count(TaskStatus::Canceled),
    }
}
