//! COMPLETE: the holder says it is done; the gate says whether that counts.

use std::sync::Arc;

use super::ending::{end_claim, release_dependants, want_dependants_released, want_end};
use super::{Verb, awake, check_holder, speaker};
use crate::attempt::Outcome;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, LearningId, SnapshotId, TaskId};
use crate::memory::Learning;
use crate::quality::{Baseline, GatePolicy, Judgement, Metrics, Snapshot};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Complete {
    pub agent: AgentId,
    pub task: TaskId,
    pub epoch: Option<u64>,
    /// What was accomplished, as JSON.
    pub result: Box<str>,
    pub learnings: Vec<(LearningId, String)>,
    pub metrics: Option<(SnapshotId, Metrics)>,
    pub policy: Arc<GatePolicy>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    pub judgement: Judgement,
    pub status: TaskStatus,
}

impl Verb for Complete {
    type Reply = Completed;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if self.metrics.is_some() {
            want.baseline();
        }
        if let Some(task) = want.task(&self.task) {
            want_end(want, task);
            want_dependants_released(want, task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Completed, Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        check_holder(task, &self.agent, self.epoch).map_err(|why| Refusal::TaskNotYours {
            task: self.task.clone(),
            why,
        })?;
        let mut changes = Changes::default();
        let mut agent = awake(agent, &mut changes, now);
        let baseline = slice.ranges.baseline.as_ref().and_then(Option::as_ref);
        let judgement = self
            .policy
            .judge(baseline, self.metrics.as_ref().map(|(_, metrics)| metrics));
        let outcome = if judgement.passed {
            Outcome::Completed
        } else {
            Outcome::NeedsPerson
        };
        end_claim(slice, &mut changes, task, outcome, &mut agent, now);
        agent.completed += u64::from(judgement.passed);
        changes.agents.push(agent);
        self.keep_snapshot(&mut changes, baseline, &judgement, now);
        self.keep_learnings(&mut changes, now);
        let status = self.finish(slice, &mut changes, task, &judgement, now);
        Ok((Completed { judgement, status }, changes))
    }
}

impl Complete {
    fn finish(
        &self,
        slice: &Slice,
        changes: &mut Changes,
        task: &Task,
        judgement: &Judgement,
        now: Timestamp,
    ) -> TaskStatus {
        let mut done = task.clone();
        if let Some((id, _)) = &self.metrics {
            done.snapshot = Some(id.clone());
        }
        let (done, event) = match &judgement.why {
            Some(why) if !judgement.passed => {
                done.ask_person(&self.agent, self.result.clone(), why, now)
            }
            Some(_) | None => done.complete(&self.agent, self.result.clone(), now),
        };
        let status = done.status();
        changes.task((done, event));
        if status == TaskStatus::Completed {
            release_dependants(slice, changes, task, now);
        }
        status
    }

    fn keep_snapshot(
        &self,
        changes: &mut Changes,
        baseline: Option<&Baseline>,
        judgement: &Judgement,
        now: Timestamp,
    ) {
        let Some((id, metrics)) = &self.metrics else {
            return;
        };
        changes.snapshots.push(Snapshot {
            id: id.clone(),
            task: Some(self.task.clone()),
            agent: Some(self.agent.clone()),
            metrics: metrics.clone(),
            recorded_at: now,
        });
        if self.policy.move_baseline && judgement.passed && judgement.regressions.is_empty() {
            changes.baseline = Some(Baseline {
                metrics: metrics.clone(),
                set_by: self.agent.to_string(),
                created_at: baseline.map_or(now, |old| old.created_at),
                updated_at: now,
                rev: baseline.map_or(0, |old| old.rev) + 1,
            });
            changes.event(Event::BaselineSet {
                by: self.agent.to_string(),
                snapshot: Some(id.clone()),
            });
        }
    }

    fn keep_learnings(&self, changes: &mut Changes, now: Timestamp) {
        for (id, text) in &self.learnings {
            changes.learnings.push(Learning {
                id: id.clone(),
                text: text.clone(),
                task: Some(self.task.clone()),
                agent: Some(self.agent.clone()),
                created_at: now,
            });
            changes.event(Event::LearningStored {
                text: text.clone(),
                task: Some(self.task.clone()),
                agent: Some(self.agent.clone()),
            });
        }
    }
}
