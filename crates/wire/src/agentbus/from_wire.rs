//! From frames to verbs: what a worker says, as the rules take it, without what looks like a secret.
//!
//! Nothing is looked up: which claim a number stands for is said by the caller, and by whom it is held.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::budget::{Kind, Limits, Outcome, Resource, Urgency};
use switchboard_core::verb::{
    Able, AcquireBudget, Backoff, Complete, ErrorFlags, Join, Order, ReportBudget, ReportError,
    ReportProgress, ReportedTask, Send, Steer,
};
use switchboard_core::{
    AgentId, CommandKind, CorrId, Door, LearningId, MessageId, Phase, Sender, Skills, SnapshotId,
    TaskId, To, director, limits,
};

use super::message::{
    Accomplished, AgentMessage, BudgetRequest, BudgetResult, CAPABILITY_BROWSER, Hello,
    OperatorCommand, Quality, ReleasePublished, StepProgress, TaskProgress, WorkerError,
    WorkerState,
};
use super::shorten;
use super::words::{BudgetKind, BudgetPriority, BudgetResource, BudgetStatus, OperatorOrder};
use crate::Malformed;
use crate::jetpack::Priority;
use crate::jetpack::from_wire::{Context, meaning};
use crate::redact;
use crate::squidrun::claims;

/// How long a cooldown lasts if nobody says.
const COOLDOWN: Duration = Duration::from_secs(60);

/// A claim that a worker speaks of.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    pub agent: &'a AgentId,
    pub task: &'a TaskId,
    pub epoch: u64,
}

/// A hello, on the stream of this name. A task takes no longer than the watchdog lets it.
pub fn join(
    agent: AgentId,
    hello: &Hello,
    (silent_after, watchdog): (Duration, Duration),
    stream: String,
) -> Join {
    let minutes = u32::try_from(watchdog.as_secs() / 60).unwrap_or(u32::MAX);
    let worker = hello.worker.as_ref();
    Join {
        skills: Skills::new(hello.skills()),
        able: Some(Able {
            max_task_minutes: worker.and_then(|worker| worker.max_task_minutes),
            default_minutes: minutes.clamp(1, limits::MINUTES_MAX),
            can_access_browser: hello.can(CAPABILITY_BROWSER),
        }),
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
    let step = said.progress.step.as_str();
    let note = match said.note.as_deref() {
        Some(note) if step.is_empty() => note.to_owned(),
        Some(note) => format!("{step}: {note}"),
        None => step.to_owned(),
    };
    let note = shorten::head(&redact::text(&note), limits::NOTE_BYTES_MAX).into_owned();
    let phase = said.stage.said().phase()?;
    Some(report(claim, phase, said.progress.points(), note))
}

/// What a heartbeat says of a task of its own.
pub fn reported(id: &TaskId, state: &WorkerState<'_>) -> ReportedTask {
    let step = step(state).filter(|step| !step.is_empty());
    ReportedTask {
        id: id.clone(),
        percent: state.progress.as_ref().map(StepProgress::points),
        phase: state.stage.said().phase(),
        note: step.map(|step| redact::text(step).into_owned()),
    }
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
        evidence: Vec::new(),
        metrics: quality.map(|quality| {
            let id = SnapshotId::from((context.fresh)("snp"));
            (id, quality.metrics())
        }),
        policy: Arc::clone(context.policy),
        finding: None,
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
    let tail = |text: &Option<String>| {
        let text = redact::text(text.as_deref()?);
        Some(shorten::tail(&text, limits::DETAILS_BYTES_MAX).into_owned())
    };
    let message = redact::text(&error.message);
    let details = serde_json::json!({
        "errorId": error.error_id, "errorType": error.error_type, "stage": error.stage,
        "attempt": error.attempt, "exitCode": error.exit_code, "containerId": error.container_id,
        "worktreePath": error.worktree_path, "stdoutTail": tail(&error.last_stdout_tail),
        "stderrTail": tail(&error.last_stderr_tail),
    });
    ReportError {
        agent: agent.clone(),
        task: claim.map(|claim| claim.task.clone()),
        epoch: claim.map(|claim| claim.epoch),
        number: error.issue_number,
        kind: error.failure_kind(),
        stage: error.stage.to_string(),
        attempt: error.attempt,
        message: shorten::head(&message, limits::NOTE_BYTES_MAX).into_owned(),
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
pub fn blocked(claim: Claim<'_>, state: &WorkerState<'_>) -> ReportError {
    let why = step(state).unwrap_or("the worker is blocked");
    let called = (state.issue_number, state.attempt);
    let why = redact::text(why).into_owned();
    ReportError::blocked(claim.agent, claim.task, claim.epoch, called, why)
}

fn step<'a>(state: &'a WorkerState<'_>) -> Option<&'a str> {
    let progress = state.progress.as_ref();
    progress.map(|progress| progress.step.as_str())
}

/// `agent_message.v1` of a worker, in a project with this folder.
pub fn send(from: &AgentId, mail: AgentMessage, root: &str) -> Result<Send, Malformed> {
    if mail.parts > 1 {
        let message = "only the director may send messages in parts";
        return Err(Malformed::field("parts", message));
    }
    let nobody = || Malformed::field("to", "names nobody; leave it out to send to every agent");
    let to = match &mail.to {
        Some(named) => {
            To::agents(named.ids().iter().map(|id| id.as_str().into())).ok_or_else(nobody)?
        }
        None => To::Everyone,
    };
    let meaning = meaning(&mail.kind, mail.body.get(), mail.to.is_some(), root)?;
    let payload = redact::said_json(mail.body.get());
    Ok(Send {
        claims: claims::of_payload(&payload),
        id: MessageId::from(mail.message_id.as_str()),
        corr_id: CorrId::from(mail.corr_id.unwrap_or(mail.message_id)),
        from: Sender::Agent(from.clone()),
        to,
        kind: mail.kind,
        payload: payload.into(),
        ack_required: mail.ack_required,
        priority: mail.priority.unwrap_or(Priority::Medium).into(),
        expires_in: None,
        meaning,
    })
}

/// What an operator wants.
pub enum Wanted {
    Snapshot,
    Steer(Steer),
    /// The order is for this agent.
    Agent(AgentId, CommandKind),
}

/// `operator_command.v1`.
pub fn command(by: &AgentId, said: OperatorCommand) -> Result<Wanted, Malformed> {
    let reason = redact::text(&said.reason).into_owned();
    let order = match said.command {
        OperatorOrder::Snapshot => return Ok(Wanted::Snapshot),
        OperatorOrder::ShutdownWorker => {
            let target = said.target.ok_or_else(|| Malformed::missing("target"))?;
            return Ok(Wanted::Agent(
                target.into(),
                CommandKind::Shutdown { reason },
            ));
        }
        OperatorOrder::Pause => Order::Pause,
        OperatorOrder::Resume => Order::Resume,
        OperatorOrder::Cooldown => Order::Cooldown {
            lasts_for: said.seconds.map_or(COOLDOWN, Duration::from_secs),
        },
        OperatorOrder::Release => {
            let named = said.release.ok_or_else(|| Malformed::missing("release"))?;
            Order::Release(director::Release {
                id: redact::text(&named.release_id).into_owned(),
                branch: redact::text(&named.release_branch).into_owned(),
                pr_number: named.release_pr_number,
                main_sha: None,
                image_tag: None,
            })
        }
    };
    let by = by.to_string();
    Ok(Wanted::Steer(Steer { by, reason, order }))
}

/// `release_published.v1`, of what is on this branch.
pub fn published(by: &AgentId, said: &ReleasePublished, branch: &str) -> Steer {
    let clean = |text: &str| redact::text(text).into_owned();
    Steer {
        by: by.to_string(),
        reason: String::new(),
        order: Order::Release(director::Release {
            id: clean(&said.tag),
            branch: branch.to_owned(),
            pr_number: None,
            main_sha: Some(clean(&said.main_sha)),
            image_tag: Some(clean(&said.image_tag)),
        }),
    }
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
