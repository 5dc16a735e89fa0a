//! From frames to verbs: what a worker says, as the rules take it, without what looks like a secret.
//!
//! Nothing is looked up: which claim a number stands for is said by the caller, and by whom it is held.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::budget::{Kind, Limits, Outcome, Resource, Urgency};
use switchboard_core::verb::{
    AcquireBudget, Backoff, Complete, ErrorFlags, Join, ReportBudget, ReportError, ReportProgress,
};
use switchboard_core::{AgentId, Door, FailureKind, LearningId, Phase, Skills, SnapshotId, TaskId};

use super::message::{
    Accomplished, BudgetRequest, BudgetResult, Hello, Quality, TaskProgress, WorkerError,
    WorkerState,
};
use super::redact;
use super::words::{BudgetKind, BudgetPriority, BudgetResource, BudgetStatus, Stage};
use crate::jetpack::from_wire::Context;

/// A claim that a worker speaks of.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    pub agent: &'a AgentId,
    pub task: &'a TaskId,
    pub epoch: u64,
}

/// A hello, on the stream of this name.
pub fn join(agent: AgentId, hello: &Hello, silent_after: Duration, stream: String) -> Join {
    Join {
        skills: Skills::new(hello.skills()),
        silent_after: Some(silent_after),
        stream: Some(stream),
        ..Join::by(Door::Bus, agent)
    }
}

/// `task_accepted.v1`: it begins.
pub fn accepted(claim: Claim<'_>) -> ReportProgress {
    report(claim, Phase::Analyzing, 0, String::new())
}

/// `task_progress.v1`; nothing for a stage that is no progress.
pub fn progress(claim: Claim<'_>, said: &TaskProgress) -> Option<ReportProgress> {
    let note = said.note.as_deref();
    let note = redact::text(note.unwrap_or_else(|| said.progress.step.as_str()));
    let phase = said.stage.said().phase()?;
    let percent = said.progress.points();
    Some(report(claim, phase, percent, note.into_owned()))
}

fn report(claim: Claim<'_>, phase: Phase, percent: u8, note: String) -> ReportProgress {
    ReportProgress {
        agent: claim.agent.clone(),
        task: claim.task.clone(),
        epoch: Some(claim.epoch),
        phase,
        percent,
        note,
        files: Vec::new(),
    }
}

/// `task_result.v1`.
pub fn complete(
    claim: Claim<'_>,
    result: &Accomplished,
    quality: Option<&Quality>,
    context: &mut Context<'_>,
) -> Complete {
    let learnings = result.learnings.iter().map(|text| {
        let id = LearningId::from((context.fresh)("lrn"));
        (id, redact::text(text).into_owned())
    });
    let learnings = learnings.collect();
    Complete {
        agent: claim.agent.clone(),
        task: claim.task.clone(),
        epoch: Some(claim.epoch),
        result: redact::json(&result.to_ledger()).into(),
        learnings,
        metrics: quality.map(|quality| {
            let id = SnapshotId::from((context.fresh)("snp"));
            (id, quality.metrics())
        }),
        policy: Arc::clone(context.policy),
    }
}

/// Stage `DONE` in a heartbeat: a result without words.
pub fn done(claim: Claim<'_>, state: &WorkerState<'_>, context: &mut Context<'_>) -> Complete {
    let result = Accomplished {
        summary: step(state).unwrap_or("done").to_owned(),
        ..Accomplished::default()
    };
    complete(claim, &result, None, context)
}

/// `worker_error.v1`, about a claim of its own or about nothing of the ledger's.
pub fn error(
    agent: &AgentId,
    claim: Option<Claim<'_>>,
    said: WorkerError,
    backoff: Backoff,
) -> ReportError {
    let error = said.error;
    let details = serde_json::json!({
        "errorId": error.error_id, "errorType": error.error_type, "stage": error.stage,
        "attempt": error.attempt, "exitCode": error.exit_code, "containerId": error.container_id,
        "worktreePath": error.worktree_path, "stdoutTail": error.last_stdout_tail,
        "stderrTail": error.last_stderr_tail,
    });
    ReportError {
        agent: agent.clone(),
        task: claim.map(|claim| claim.task.clone()),
        epoch: claim.map(|claim| claim.epoch),
        number: error.issue_number,
        kind: error.failure_kind(),
        stage: error.stage.to_string(),
        attempt: error.attempt,
        message: redact::text(&error.message).into_owned(),
        details: Some(redact::json(&details.to_string()).into_owned()),
        remedy: Some(error.remedy().to_owned()),
        flags: ErrorFlags {
            transient: error.is_transient,
            retry: error.should_retry,
            escalate: error.escalate_to_human,
        },
        backoff: Backoff {
            at_least: Duration::from_secs(error.retry_after_seconds.unwrap_or(0)),
            ..backoff
        },
        error_type: error.error_type,
        error: error.error_id,
    }
}

/// Stage `BLOCKED` in a heartbeat: a person must look at it.
pub fn blocked(claim: Claim<'_>, state: &WorkerState<'_>, backoff: Backoff) -> ReportError {
    let why = step(state).unwrap_or("the worker is blocked");
    ReportError {
        agent: claim.agent.clone(),
        task: Some(claim.task.clone()),
        epoch: Some(claim.epoch),
        number: state.issue_number,
        error: format!("blocked-{}-{}", claim.task, claim.epoch),
        kind: FailureKind::TaskError,
        error_type: "blocked".to_owned(),
        stage: Stage::Blocked.to_string(),
        attempt: state.attempt,
        message: redact::text(why).into_owned(),
        details: None,
        remedy: None,
        flags: ErrorFlags {
            transient: false,
            retry: false,
            escalate: true,
        },
        backoff,
    }
}

fn step<'a>(state: &'a WorkerState<'_>) -> Option<&'a str> {
    let progress = state.progress.as_ref();
    progress.map(|progress| progress.step.as_str())
}

/// `budget_request.v1`.
pub fn acquire_budget(
    agent: &AgentId,
    asked: &BudgetRequest,
    limits: impl Fn(Resource) -> Limits,
) -> AcquireBudget {
    let resource = match asked.resource {
        BudgetResource::Github => Resource::Github,
        BudgetResource::Model => Resource::Model,
    };
    AcquireBudget {
        agent: agent.clone(),
        request: asked.request_id.as_str().into(),
        resource,
        kind: match asked.kind {
            BudgetKind::Read => Kind::Read,
            BudgetKind::Write => Kind::Write,
            BudgetKind::Request => Kind::Request,
        },
        urgency: match asked.priority {
            BudgetPriority::Heartbeat => Urgency::Heartbeat,
            BudgetPriority::Safety => Urgency::Safety,
            BudgetPriority::CurrentRead => Urgency::CurrentRead,
            BudgetPriority::BestEffortRead => Urgency::BestEffortRead,
            BudgetPriority::CosmeticWrite => Urgency::CosmeticWrite,
        },
        limits: limits(resource),
    }
}

/// `budget_result.v1`.
pub fn report_budget(agent: &AgentId, told: &BudgetResult) -> ReportBudget {
    ReportBudget {
        agent: agent.clone(),
        grant: told.grant_id.as_str().into(),
        // `rate_limited` is a 429, or a 403 that speaks of limits; `error` anything else that failed, timeouts too.
        outcome: match told.status {
            BudgetStatus::Ok => Outcome::Done,
            BudgetStatus::RateLimited => Outcome::RateLimited,
            BudgetStatus::Error => Outcome::Failed,
            BudgetStatus::Unused => Outcome::Unused,
        },
        retry_after: told.retry_after_seconds.map(Duration::from_secs),
    }
}
