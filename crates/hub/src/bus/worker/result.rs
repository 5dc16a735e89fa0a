//! What a worker accomplished: taken once, answered each time it is said.

use aws_lc_rs::digest;
use switchboard_core::idempotency::Key;
use switchboard_core::query::TaskRef;
use switchboard_core::verb::Completed;
use switchboard_core::{Refusal, TaskId, TaskState, TaskStatus};
use switchboard_wire::agentbus::message::{TaskResult, TaskResultAck};

use super::super::frame::send;
use super::super::server::Shared;
use super::{Held, Worker};
use crate::call::Guard;
use crate::hub::Error;
use crate::stream::what_became;

/// Whether a result counts, and what there is to say about it.
struct Verdict {
    accepted: bool,
    reason: Option<String>,
}

impl Worker {
    /// The worker is done; it hears whether that counts. Nothing is answered while nobody knows: it says it again.
    pub(super) async fn finished(&mut self, bus: &Shared, said: TaskResult) {
        let (number, epoch) = (said.issue_number, said.epoch);
        let held = self.held(number);
        let is_at_it = held.is_some_and(|held| held.epoch == epoch);
        let task = match held {
            Some(held) => Some(held.task.clone()),
            None => {
                let which = TaskRef::Number(number);
                match bus.hub.read(move |reader| reader.task(&which)).await {
                    Ok(task) => task.map(|task| task.id),
                    Err(_) => return,
                }
            }
        };
        let verdict = match &task {
            Some(task) => self.judge(bus, task, &said).await,
            None => Some(Verdict::no(format!("there is no task #{number}"))),
        };
        let Some(verdict) = verdict else {
            return self.refresh(bus).await;
        };
        let accepted = verdict.accepted;
        let reason = verdict.reason.clone().unwrap_or_default();
        send(&self.outbox, verdict.ack(&said));
        match task {
            Some(_) if is_at_it && accepted => self.settled(bus, number, Ok(())).await,
            // If it is lost, this tells it so.
            Some(_) if is_at_it => self.refresh(bus).await,
            Some(task) if !accepted => {
                let lost = Held::lost(&said, task);
                self.tell_revoked(&lost, reason);
            }
            Some(_) | None => {}
        }
    }

    async fn judge(&self, bus: &Shared, task: &TaskId, said: &TaskResult) -> Option<Verdict> {
        let quality = said.quality.as_ref();
        let complete = self.completion(bus, task, Some(said.epoch), &said.result, quality);
        let key = Key {
            principal: format!("agent:{}", self.id).into(),
            operation: "task_result",
            key: format!("{task}-{}", said.epoch).into(),
        };
        let guard = Guard {
            key: Some((key, hash(said))),
            ..Guard::default()
        };
        match self.once(bus, complete, guard, render).await {
            Ok(outcome) => Some(Verdict::yes(&outcome.print(render).body)),
            Err(Error::Refused(Refusal::KeyReused)) => {
                let reason = "another result of this claim was already accepted";
                Some(Verdict::no(reason.to_owned()))
            }
            Err(Error::Refused(refusal)) => self.judge_late(bus, task, said.epoch, refusal).await,
            Err(_) => None,
        }
    }

    /// It was not taken: perhaps because a heartbeat said the same before.
    async fn judge_late(
        &self,
        bus: &Shared,
        task: &TaskId,
        epoch: u64,
        refusal: Refusal,
    ) -> Option<Verdict> {
        let which = TaskRef::Id(task.clone());
        let found = bus.hub.read(move |reader| reader.task(&which)).await.ok()?;
        let Some(task) = found else {
            return Some(Verdict::no(refusal.to_string()));
        };
        let is_done = task.epoch == epoch
            && matches!(&task.state, TaskState::Completed { by, .. } if *by == self.id);
        if is_done {
            return Some(Verdict::yes(b"it was already completed"));
        }
        if task.holder() == Some(&self.id) && task.epoch == epoch {
            return Some(Verdict::no(refusal.to_string()));
        }
        Some(Verdict::no(what_became(&task, &self.id)))
    }
}

impl Verdict {
    fn yes(reason: &[u8]) -> Verdict {
        let reason = String::from_utf8_lossy(reason).into_owned();
        Verdict {
            accepted: true,
            reason: Some(reason).filter(|reason| !reason.is_empty()),
        }
    }

    fn no(reason: String) -> Verdict {
        Verdict {
            accepted: false,
            reason: Some(reason),
        }
    }

    fn ack(self, said: &TaskResult) -> TaskResultAck {
        TaskResultAck {
            issue_number: said.issue_number,
            epoch: said.epoch,
            accepted: self.accepted,
            reason: self.reason,
            corr_id: said.corr_id.clone(),
        }
    }
}

/// What is said of a result that was taken: nothing, unless a person must look at it first.
fn render(done: &Completed) -> Vec<u8> {
    match (&done.judgement.why, done.status) {
        (Some(why), TaskStatus::NeedsPerson) => {
            format!("it needs review by a person: {why}").into_bytes()
        }
        _ => Vec::new(),
    }
}

/// By which a result is known again.
fn hash(said: &TaskResult) -> [u8; 32] {
    let said = serde_json::to_vec(&(&said.result, &said.quality)).unwrap_or_default();
    let digest = digest::digest(&digest::SHA256, &said);
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}
