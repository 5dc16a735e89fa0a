//! What a worker accomplished: taken once, answered each time it is said.

use aws_lc_rs::digest;
use switchboard_core::idempotency::Key;
use switchboard_core::query::TaskRef;
use switchboard_core::verb::Completed;
use switchboard_core::{Refusal, TaskId, TaskState, TaskStatus};
use switchboard_wire::agentbus::message::TaskResult;
use switchboard_wire::agentbus::{from_wire, to_wire};

use super::super::server::BusState;
use super::Worker;
use crate::call::Guard;
use crate::hub::Error;
use crate::runtime::judged;
use crate::stream::what_became;

/// Whether a result counts, and what there is to say about it.
type Verdict = Result<String, String>;

impl Worker {
    /// The worker is done; it hears whether that counts. Nothing is answered while nobody knows: it says it again.
    pub(super) async fn finished(&mut self, bus: &BusState, said: TaskResult) {
        let (number, epoch) = (said.issue_number, said.epoch);
        let held = self.stream.held(number);
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
            None => Some(Err(format!("there is no task #{number}"))),
        };
        let Some(verdict) = verdict else {
            return self.stream.refresh().await;
        };
        let (claim, corr_id) = ((number, epoch), said.corr_id.clone());
        self.tell(to_wire::result_ack(claim, corr_id, verdict.clone()));
        match verdict {
            Ok(_) if is_at_it => drop(self.stream.settle(number, Ok(())).await),
            Ok(_) => {}
            // If it is lost, this tells it so.
            Err(_) if is_at_it => self.stream.refresh().await,
            Err(reason) if task.is_some() => {
                self.tell(to_wire::revoked((number, epoch), reason, said.corr_id));
            }
            Err(_) => {}
        }
    }

    async fn judge(&self, bus: &BusState, task: &TaskId, said: &TaskResult) -> Option<Verdict> {
        let claim = from_wire::Claim {
            agent: self.id(),
            task,
            epoch: said.epoch,
        };
        let quality = said.quality.as_ref();
        let complete = {
            let mut fresh = |kind| bus.ids.fresh(kind);
            from_wire::complete(claim, &said.result, quality, &mut bus.context(&mut fresh))
        };
        let key = Key {
            principal: format!("agent:{}", self.id()).into(),
            operation: "task_result",
            key: format!("{task}-{}", said.epoch).into(),
        };
        let guard = Guard {
            key: Some((key, hash(said))),
            ..Guard::default()
        };
        let run = |complete| bus.hub.call(complete, guard.clone(), render);
        let call = || judged(&bus.hub, complete.clone(), run);
        match self.stream.until_decided(call).await {
            Ok(outcome) => {
                let reason = outcome.print(render).body;
                Some(Ok(String::from_utf8_lossy(&reason).into_owned()))
            }
            Err(Error::Refused(Refusal::KeyReused)) => {
                let reason = "another result of this claim was already accepted";
                Some(Err(reason.to_owned()))
            }
            Err(Error::Refused(refusal)) => self.judge_late(bus, task, said.epoch, refusal).await,
            Err(_) => None,
        }
    }

    /// It was not taken: perhaps because a heartbeat said the same before.
    async fn judge_late(
        &self,
        bus: &BusState,
        task: &TaskId,
        epoch: u64,
        refusal: Refusal,
    ) -> Option<Verdict> {
        let which = TaskRef::Id(task.clone());
        let found = bus.hub.read(move |reader| reader.task(&which)).await.ok()?;
        let Some(task) = found else {
            return Some(Err(refusal.to_string()));
        };
        let is_same = task.epoch == epoch;
        Some(match &task.state {
            TaskState::Completed { by, .. } if is_same && by == self.id() => {
                Ok("it was already completed".to_owned())
            }
            _ if is_same && task.holder() == Some(self.id()) => Err(refusal.to_string()),
            _ => Err(what_became(&task, self.id())),
        })
    }
}

fn render(done: &Completed) -> Vec<u8> {
    held_back(done).unwrap_or_default().into_bytes()
}

/// Why a person must look first at a result that was taken: it did not pass the gate.
pub(super) fn held_back(done: &Completed) -> Option<String> {
    let why = done.judgement.why.as_ref();
    let why = why.filter(|_| done.status == TaskStatus::NeedsPerson)?;
    Some(format!("it needs review by a person: {why}"))
}

/// By which a result is known again.
fn hash(said: &TaskResult) -> [u8; 32] {
    let said = serde_json::to_vec(&(&said.result, &said.quality)).unwrap_or_default();
    let digest = digest::digest(&digest::SHA256, &said);
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}
