//! PROGRESS, COMPLETE and FAIL.

use std::sync::Arc;

use switchboard_core::{LearningId, SnapshotId, TaskId, limits, verb};

use super::Context;
use super::check::{self, agent_id, each, filled, maybe_text, path_or_body};
use crate::jetpack::{
    CompleteRequest, Evidence, FailRequest, ProgressRequest, QualityMetrics, TaskResult,
};
use crate::{Malformed, other};

fn task(path: Option<&str>, body: Option<&str>) -> Result<TaskId, Malformed> {
    path_or_body("taskId", path, body).map(TaskId::from)
}

/// PROGRESS.
pub fn progress(
    path: Option<&str>,
    request: ProgressRequest,
) -> Result<verb::ReportProgress, Malformed> {
    let progress = request.progress;
    check::text(
        "progress.description",
        &progress.description,
        limits::NOTE_BYTES_MAX,
    )?;
    check::files("progress.filesModified", &progress.files_modified)?;
    Ok(verb::ReportProgress {
        agent: agent_id("agentId", &request.agent_id)?,
        task: task(path, request.task_id.as_deref())?,
        epoch: request.epoch,
        phase: progress.phase.into(),
        percent: check::percent("progress.percentComplete", progress.percent_complete)?,
        note: progress.description,
        files: progress.files_modified,
    })
}

/// COMPLETE.
pub fn complete(
    path: Option<&str>,
    request: CompleteRequest,
    context: &mut Context<'_>,
) -> Result<verb::Complete, Malformed> {
    check_result(&request.result)?;
    let figures = request.quality_metrics.map(metrics).transpose()?;
    let evidence = evidence(request.evidence)?;
    let mut result = request.result;
    // The hub's own word.
    result.other.remove(VERDICT);
    if !evidence.is_empty() {
        let verdict = switchboard_core::Verdict::of(&evidence).as_str();
        result.other.insert(VERDICT.to_owned(), verdict.into());
    }
    let printed = serde_json::to_string(&result).expect("a result is made of strings");
    Ok(verb::Complete {
        agent: agent_id("agentId", &request.agent_id)?,
        task: task(path, request.task_id.as_deref())?,
        epoch: request.epoch,
        result: printed.into(),
        learnings: result
            .learnings
            .into_iter()
            .map(|text| (LearningId::from((context.fresh)("lrn")), text))
            .collect(),
        metrics: figures.map(|figures| (SnapshotId::from((context.fresh)("qs")), figures)),
        evidence,
        policy: Arc::clone(context.policy),
        finding: None,
    })
}

/// The member of a result that says what the evidence comes to.
const VERDICT: &str = "verdict";

/// Whether its result came with evidence; what the verdict is, its attempts tell.
pub fn has_verdict(task: &switchboard_core::Task) -> bool {
    let result = task.result.as_deref();
    result.is_some_and(|result| result.contains(VERDICT))
}

fn evidence(given: Vec<Evidence>) -> Result<Vec<switchboard_core::Evidence>, Malformed> {
    each(
        "evidence",
        &given,
        limits::EVIDENCE_PER_TASK_MAX,
        |place, one| {
            filled(
                &format!("{place}.command"),
                &one.command,
                limits::NOTE_BYTES_MAX,
            )?;
            maybe_text(
                &format!("{place}.commit"),
                one.commit.as_ref(),
                limits::ID_BYTES_MAX,
            )
        },
    )?;
    let given = given.into_iter();
    let kept = given.map(|one| switchboard_core::Evidence {
        command: one.command,
        exit_code: one.exit_code,
        duration_ms: one.duration_ms,
        commit: one.commit,
        source: one.source.into(),
    });
    Ok(kept.collect())
}

fn check_result(result: &TaskResult) -> Result<(), Malformed> {
    check::files("result.filesCreated", &result.files_created)?;
    check::files("result.filesModified", &result.files_modified)?;
    check::files("result.filesDeleted", &result.files_deleted)?;
    check::text("result.summary", &result.summary, limits::NOTE_BYTES_MAX)?;
    each(
        "result.learnings",
        &result.learnings,
        limits::LEARNINGS_PER_TASK_MAX,
        |place, learning| filled(place, learning, limits::NOTE_BYTES_MAX),
    )?;
    other::check("result", &result.other)
}

fn metrics(metrics: QualityMetrics) -> Result<switchboard_core::Metrics, Malformed> {
    let Some(failing) = metrics.tests_ran.checked_sub(metrics.tests_passed) else {
        return Err(Malformed::field(
            "qualityMetrics.testsPassed",
            "must be at most testsRan",
        ));
    };
    if let Some(coverage) = metrics.test_coverage {
        check::percent("qualityMetrics.testCoverage", coverage)?;
    }
    Ok(switchboard_core::Metrics {
        build_success: metrics.build_success,
        type_errors: metrics.type_errors,
        lint_errors: metrics.lint_errors,
        lint_warnings: metrics.lint_warnings.unwrap_or(0),
        tests_passing: metrics.tests_passed,
        tests_failing: failing,
        test_coverage: metrics.test_coverage,
    })
}

/// FAIL.
pub fn fail(path: Option<&str>, request: FailRequest) -> Result<verb::Fail, Malformed> {
    let failure = request.failure;
    check::text("failure.message", &failure.message, limits::NOTE_BYTES_MAX)?;
    maybe_text(
        "failure.details",
        failure.details.as_ref(),
        limits::DETAILS_BYTES_MAX,
    )?;
    maybe_text(
        "failure.suggestedAction",
        failure.suggested_action.as_ref(),
        limits::NOTE_BYTES_MAX,
    )?;
    Ok(verb::Fail {
        agent: agent_id("agentId", &request.agent_id)?,
        task: task(path, request.task_id.as_deref())?,
        epoch: request.epoch,
        kind: failure.kind.into(),
        message: failure.message,
        details: failure.details,
        recoverable: failure.recoverable,
        suggested_action: failure.suggested_action,
        is_free: failure.spends_retry == Some(false),
    })
}
