//! What a worker says about tasks: taken, refused, under way, done, failed.

use switchboard_core::idempotency::Key;
use switchboard_core::verb::{Complete, ErrorTaken, ReportError, ReportProgress};
use switchboard_wire::agentbus::message::{TaskAccepted, TaskDeclined, TaskProgress, WorkerError};
use switchboard_wire::agentbus::{Fault, Flag, from_wire, to_wire};
use switchboard_wire::redact;

use super::super::server::BusState;
use super::Worker;
use super::result::held_back;
use crate::call::{Guard, Outcome};
use crate::hub::Error;

impl Worker {
    pub(super) async fn accepted(&mut self, said: &TaskAccepted) {
        let Some(is_news) = self.stream.accepts(said.issue_number, said.epoch) else {
            return;
        };
        self.beat.is_busy();
        // One that was resumed goes on where it was.
        if let Some(claim) = self.claim(said.issue_number).filter(|_| is_news) {
            self.report(from_wire::accepted(claim)).await;
        }
    }

    pub(super) async fn declined(&mut self, said: &TaskDeclined) {
        if self.stream.declines(said.issue_number, said.epoch).await {
            let (id, number) = (self.id(), said.issue_number);
            let reason = redact::text(&said.reason);
            tracing::info!(agent.id = %id, task.number = number, "{id} declined task #{number}: {reason}");
        }
    }

    pub(super) async fn progressed(&mut self, said: &TaskProgress) {
        if self.stream.answers(said.issue_number).is_none() {
            return;
        }
        self.beat.is_busy();
        let claim = self.claim(said.issue_number);
        if let Some(report) = claim.and_then(|claim| from_wire::progress(claim, said)) {
            self.report(report).await;
        }
    }

    async fn report(&self, report: ReportProgress) {
        // That it is no longer its own is told by its row.
        if let Err(error) = self.stream.insist(report).await {
            tracing::debug!(%error, "progress on the bus was not stored");
        }
    }

    /// Stage DONE: a result without words. The worker hears of it only if a person must look at it first.
    pub(super) async fn done(&mut self, number: u64, complete: Complete) {
        let epoch = complete.epoch.unwrap_or_default();
        let outcome = self.stream.complete(complete).await;
        if let Some(why) = outcome.as_ref().ok().and_then(held_back) {
            self.tell(to_wire::result_ack((number, epoch), None, Ok(why)));
        }
        self.settled(number, outcome.map(drop)).await;
    }

    pub(super) async fn failed(&mut self, bus: &BusState, said: WorkerError) {
        let claim = self.claim(said.error.issue_number);
        let report = from_wire::error(self.id(), claim, said, bus.backoff());
        self.report_error(bus, report).await;
    }

    /// The same report counts once, however often it comes.
    pub(super) async fn report_error(&mut self, bus: &BusState, report: ReportError) {
        let number = report.number;
        let key = Key {
            principal: format!("agent:{}", self.id()).into(),
            operation: "worker_error",
            key: report.error.as_str().into(),
        };
        let guard = Guard {
            key: Some((key, [0; 32])),
            ..Guard::default()
        };
        let call = || bus.hub.call(report.clone(), guard.clone(), render);
        match self.stream.until_decided(call).await {
            Ok(Outcome::Fresh(ErrorTaken::Noted, _)) => {}
            // The first answer may have been in doubt.
            Ok(Outcome::Replayed(_)) => self.stream.refresh().await,
            Ok(Outcome::Fresh(..)) => self.settled(number, Ok(())).await,
            Err(error) => self.settled(number, Err(error)).await,
        }
    }

    /// A claim ended, or was none any more; if it still is, the worker hears why.
    async fn settled(&mut self, number: u64, outcome: Result<(), Error>) {
        if let Some(refusal) = self.stream.settle(number, outcome).await {
            let fault = Fault::new(Flag::BadPayload, format!("#{number}: {refusal}"));
            self.tell(fault.into_error());
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
