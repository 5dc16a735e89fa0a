//! What a worker says about tasks: taken, refused, under way, done, failed.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::idempotency::Key;
use switchboard_core::verb::{
    Complete, ErrorFlags, ErrorTaken, ReleaseTask, ReportError, ReportProgress,
};
use switchboard_core::{FailureKind, LearningId, Phase, SnapshotId, TaskId, limits};
use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::message::{
    Accomplished, Quality, TaskAccepted, TaskDeclined, TaskProgress, WorkerError,
};
use switchboard_wire::agentbus::redact;
use switchboard_wire::agentbus::{Fault, Flag};

use super::super::frame::send;
use super::super::server::Shared;
use super::Worker;
use crate::call::{Guard, Outcome};
use crate::hub::Error;

/// Tasks it refused on this connection; past it the first is offered again.
const DECLINED_MAX: usize = limits::EXCLUDED_IDS_MAX;

impl Worker {
    pub(super) async fn accepted(&mut self, bus: &Shared, said: TaskAccepted) {
        let Some(held) = self.held_mut(said.issue_number) else {
            return;
        };
        if held.epoch != said.epoch {
            return;
        }
        let is_resumed = held.accepted;
        (held.accepted, held.answer_by) = (true, None);
        self.unanswered = 0;
        self.beat.is_busy();
        if is_resumed {
            // It goes on where it was.
            return;
        }
        self.report(
            bus,
            said.issue_number,
            Some(Phase::Analyzing),
            0,
            String::new(),
        )
        .await;
    }

    pub(super) async fn declined(&mut self, bus: &Shared, said: TaskDeclined) {
        let Some(held) = self.held(said.issue_number) else {
            return;
        };
        if held.epoch != said.epoch {
            return;
        }
        let release = ReleaseTask {
            task: held.task.clone(),
            agent: Some(self.id.clone()),
            epoch: Some(said.epoch),
        };
        let reason = redact::text(&said.reason);
        tracing::info!(
            agent.id = %self.id, task.number = said.issue_number,
            "{} declined task #{}: {reason}", self.id, said.issue_number
        );
        self.decline(release.task.clone());
        self.unanswered = 0;
        let outcome = self.insist(bus, release).await;
        self.settled(bus, said.issue_number, outcome.map(drop))
            .await;
    }

    /// Not to be offered to it again, as long as this connection lasts.
    pub(super) fn decline(&mut self, task: TaskId) {
        self.declined.push_back(task);
        if self.declined.len() > DECLINED_MAX {
            self.declined.pop_front();
        }
    }

    pub(super) async fn progressed(&mut self, bus: &Shared, said: TaskProgress) {
        let Some(held) = self.held_mut(said.issue_number) else {
            return;
        };
        held.answer_by = None;
        self.beat.is_busy();
        let note = said
            .note
            .unwrap_or_else(|| said.progress.step.as_str().to_owned());
        let note = redact::text(&note).into_owned();
        let phase = said.stage.phase();
        let percent = said.progress.points();
        self.report(bus, said.issue_number, phase, percent, note)
            .await;
    }

    async fn report(
        &mut self,
        bus: &Shared,
        number: u64,
        phase: Option<Phase>,
        percent: u8,
        note: String,
    ) {
        let (Some(held), Some(phase)) = (self.held(number), phase) else {
            return;
        };
        let progress = ReportProgress {
            agent: self.id.clone(),
            task: held.task.clone(),
            epoch: Some(held.epoch),
            phase,
            percent,
            note,
            files: Vec::new(),
        };
        // That it is no longer its own is told by its row.
        if let Err(error) = self.insist(bus, progress).await {
            tracing::debug!(%error, "progress on the bus was not stored");
        }
    }

    /// Stage DONE: a result without words.
    pub(super) async fn done(&mut self, bus: &Shared, number: u64, result: &Accomplished) {
        let Some(held) = self.held(number) else {
            return;
        };
        let complete = self.completion(bus, &held.task, Some(held.epoch), result, None);
        let outcome = self.insist(bus, complete).await;
        self.settled(bus, number, outcome.map(drop)).await;
    }

    pub(super) fn completion(
        &self,
        bus: &Shared,
        task: &TaskId,
        epoch: Option<u64>,
        result: &Accomplished,
        quality: Option<&Quality>,
    ) -> Complete {
        let learnings = result.learnings.iter().map(|text| {
            let id = LearningId::from(bus.ids.fresh("lrn"));
            (id, redact::text(text).into_owned())
        });
        Complete {
            agent: self.id.clone(),
            task: task.clone(),
            epoch,
            result: redact::json(&result.to_ledger()).into(),
            learnings: learnings.collect(),
            metrics: quality.map(|quality| {
                let id = SnapshotId::from(bus.ids.fresh("snp"));
                (id, quality.metrics())
            }),
            policy: Arc::clone(&bus.policy),
        }
    }

    pub(super) async fn failed(&mut self, bus: &Shared, said: WorkerError) {
        let error = said.error;
        let held = self.held(error.issue_number);
        let details = serde_json::json!({
            "errorId": error.error_id, "errorType": error.error_type, "stage": error.stage,
            "attempt": error.attempt, "exitCode": error.exit_code, "containerId": error.container_id,
            "worktreePath": error.worktree_path, "stdoutTail": error.last_stdout_tail,
            "stderrTail": error.last_stderr_tail,
        });
        let report = ReportError {
            agent: self.id.clone(),
            task: held.map(|held| held.task.clone()),
            epoch: held.map(|held| held.epoch),
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
            backoff: bus.backoff(Duration::from_secs(error.retry_after_seconds.unwrap_or(0))),
            error_type: error.error_type,
            error: error.error_id,
        };
        self.report_error(bus, report).await;
    }

    /// Stage BLOCKED: a person must look at it.
    pub(super) async fn blocked(&mut self, bus: &Shared, number: u64, attempt: u32, why: String) {
        let Some(held) = self.held(number) else {
            return;
        };
        let report = ReportError {
            agent: self.id.clone(),
            task: Some(held.task.clone()),
            epoch: Some(held.epoch),
            number,
            error: format!("blocked-{}-{}", held.task, held.epoch),
            kind: FailureKind::TaskError,
            error_type: "blocked".to_owned(),
            stage: Stage::Blocked.to_string(),
            attempt,
            message: redact::text(&why).into_owned(),
            details: None,
            remedy: None,
            flags: ErrorFlags {
                transient: false,
                retry: false,
                escalate: true,
            },
            backoff: bus.backoff(Duration::ZERO),
        };
        self.report_error(bus, report).await;
    }

    /// The same report counts once, however often it comes.
    async fn report_error(&mut self, bus: &Shared, report: ReportError) {
        let number = report.number;
        let guard = Guard {
            key: Some((
                Key {
                    principal: format!("agent:{}", self.id).into(),
                    operation: "worker_error",
                    key: report.error.as_str().into(),
                },
                [0; 32],
            )),
            ..Guard::default()
        };
        let outcome = self.once(bus, report, guard, render).await;
        match outcome {
            Ok(Outcome::Fresh(ErrorTaken::Noted, _)) => {}
            // The first answer may have been in doubt.
            Ok(Outcome::Replayed(_)) => self.refresh(bus).await,
            Ok(Outcome::Fresh(..)) => self.settled(bus, number, Ok(())).await,
            Err(error) => self.settled(bus, number, Err(error)).await,
        }
    }

    /// A claim ended, or was none any more.
    pub(super) async fn settled(&mut self, bus: &Shared, number: u64, outcome: Result<(), Error>) {
        let at = self.held.iter().position(|held| held.number == number);
        match outcome {
            Ok(()) => {
                at.map(|at| self.held.remove(at));
                self.give_way();
                self.seek_work(bus).await;
            }
            Err(Error::Refused(refusal)) => {
                // If it is lost, this tells it so.
                self.refresh(bus).await;
                if self.held(number).is_some() {
                    let fault = Fault::new(Flag::BadPayload, format!("#{number}: {refusal}"));
                    send(&self.outbox, fault.into_error());
                }
            }
            // It was said, and nobody knows what became of it: the ledger will tell.
            Err(_) => self.refresh(bus).await,
        }
    }
}

fn render(taken: &ErrorTaken) -> Vec<u8> {
    let word = match taken {
        ErrorTaken::Retry { .. } => "retry",
        ErrorTaken::Failed => "failed",
        ErrorTaken::NeedsPerson => "needs_person",
        ErrorTaken::Noted => "noted",
    };
    word.as_bytes().to_vec()
}
