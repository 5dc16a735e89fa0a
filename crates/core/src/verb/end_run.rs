//! A program that a coordinator ran has ended, and everything that it started.

use super::Verb;
use crate::changes::Changes;
use crate::incident::Alarm;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::run::Run;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndRun {
    pub id: String,
    /// How it ended, if nobody wanted it to.
    pub crash: Option<String>,
}

impl Verb for EndRun {
    /// Whether it was on record.
    type Reply = bool;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let run = want.private::<Run>(self.id.clone()).cloned();
        if let Some(alarm) = run.and_then(|run| self.alarm(&run)) {
            alarm.asks(want);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(bool, Changes), Refusal> {
        let mut changes = Changes::default();
        let Some(run) = Want::new(slice).private::<Run>(self.id.clone()) else {
            return Ok((false, changes));
        };
        changes.remove::<Record>(Run::at(self.id.clone()));
        if let Some(alarm) = self.alarm(run) {
            alarm.raise(slice, &mut changes, now);
        }
        Ok((true, changes))
    }
}

impl EndRun {
    fn alarm(&self, run: &Run) -> Option<Alarm> {
        let message = self.crash.clone()?;
        Some(Alarm {
            kind: "agent_crash",
            subject: run.agent.to_string(),
            corr_id: None,
            message,
        })
    }
}
