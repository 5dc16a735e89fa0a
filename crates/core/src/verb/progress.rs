//! PROGRESS: the holder says how far it is.

use super::{Verb, check_holder, sign_of_life, speaker};
use crate::changes::Changes;
use crate::id::{AgentId, TaskId};
use crate::refusal::{NotYours, Refusal};
use crate::slice::Slice;
use crate::task::{Phase, Progress};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportProgress {
    pub agent: AgentId,
    pub task: TaskId,
    pub epoch: Option<u64>,
    pub phase: Phase,
    pub percent: u8,
    pub note: String,
    pub files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progressed {
    Continue,
    /// The task is no longer this agent's: abort.
    Abort(NotYours),
}

impl Verb for ReportProgress {
    type Reply = Progressed;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
        if let Some(task) = want.task(&self.task) {
            want.lane_of(task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Progressed, Changes), Refusal> {
        let agent = speaker(slice, &self.agent)?;
        let task = slice
            .task(&self.task)
            .ok_or_else(|| Refusal::TaskNotFound {
                task: self.task.clone(),
            })?;
        let mut changes = Changes::default();
        sign_of_life(agent, &mut changes, now);
        if let Err(why) = check_holder(task, &self.agent, self.epoch) {
            return Ok((Progressed::Abort(why), changes));
        }
        let progress = Progress {
            phase: self.phase,
            percent: self.percent,
            note: self.note.clone(),
            files: self.files.clone(),
            told_at: now,
            told_percent: self.percent,
        };
        // jetpack PROGRESS broadcasts every accepted report, so the quiet rule is for heartbeats only.
        let mut task = task.clone();
        task.progress = None;
        let (task, event) = task.advance(progress, now);
        changes.tasks.push(task);
        changes.events.extend(event);
        Ok((Progressed::Continue, changes))
    }
}
