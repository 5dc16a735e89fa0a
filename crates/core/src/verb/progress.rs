//! PROGRESS: the holder says how far it is.

use super::{Verb, check_holder, refused_sign_of_life, sign_of_life, speaker};
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
        if let Err(why) = check_holder(task, &self.agent, self.epoch) {
            refused_sign_of_life(agent, &mut changes, now);
            return Ok((Progressed::Abort(why), changes));
        }
        sign_of_life(agent, &mut changes, now);
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
        changes.put(task);
        changes.events.extend(event);
        Ok((Progressed::Continue, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::MarkSilent;
    use super::super::testing::{Standing, Swarm, progress, word};
    use super::*;
    use crate::limits;
    use crate::task::TaskStatus;

    fn answer(swarm: &mut Swarm, report: ReportProgress) -> &'static str {
        match swarm.ok(report) {
            Progressed::Continue => "continue",
            Progressed::Abort(why) => why.word(),
        }
    }

    #[test]
    fn only_the_holder_goes_on_by_state() {
        // jetpack.progress.response, jetpack.progress.reassigned
        for status in TaskStatus::ALL {
            let (holder, other) = match status {
                TaskStatus::Claimed | TaskStatus::InProgress => ("continue", "not_holder"),
                TaskStatus::RetryWait => ("task_reassigned", "not_holder"),
                TaskStatus::Waiting | TaskStatus::Ready | TaskStatus::NeedsPerson => {
                    ("not_holder", "not_holder")
                }
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                    ("already_finished", "already_finished")
                }
            };
            let mut swarm = Swarm::with_task(*status);
            let before = swarm.task("T").clone();
            assert_eq!(answer(&mut swarm, progress("B", "T")), other, "B, {status}");
            assert_eq!(*swarm.task("T"), before, "an abort changes nothing");
            assert_eq!(
                answer(&mut swarm, progress("A", "T")),
                holder,
                "A, {status}"
            );
        }
        let outcome = Swarm::with_agent(Standing::Gone).run(progress("A", "T"));
        assert_eq!(word(&outcome), "agent_not_registered");
        let outcome = Swarm::with_agent(Standing::Live).run(progress("A", "T"));
        assert_eq!(word(&outcome), "task_not_found");
    }

    #[test]
    fn a_refused_report_of_a_silent_agent_is_no_sign_of_life() {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.wait(limits::SILENT_AFTER * 2);
        swarm.ok(MarkSilent);
        assert_eq!(answer(&mut swarm, progress("A", "T")), "task_reassigned");
        assert!(!swarm.agent("A").is_live());
        assert!(swarm.said().is_empty());
    }

    #[test]
    fn only_the_current_epoch_goes_on() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        for (epoch, expected) in [(0, "stale_epoch"), (1, "continue"), (2, "stale_epoch")] {
            let report = ReportProgress {
                epoch: Some(epoch),
                ..progress("A", "T")
            };
            assert_eq!(answer(&mut swarm, report), expected, "epoch {epoch}");
        }
    }

    #[test]
    fn progress_is_stored_and_starts_the_task_once() {
        // jetpack.progress.stored
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.wait(Duration::from_secs(3));
        swarm.ok(progress("A", "T"));
        let started = swarm.now;
        swarm.wait(Duration::from_secs(3));
        swarm.ok(ReportProgress {
            phase: Phase::Testing,
            percent: 80,
            ..progress("A", "T")
        });
        let task = swarm.task("T");
        assert_eq!(task.started_at, Some(started));
        assert_eq!(task.status(), TaskStatus::InProgress);
        let kept = task.progress.as_ref().expect("progress was reported");
        assert_eq!(
            (kept.phase, kept.percent, &*kept.note),
            (Phase::Testing, 80, "half way")
        );
        assert_eq!(kept.files, ["src/a.rs"]);
    }

    #[test]
    fn every_accepted_report_is_one_event() {
        // jetpack.progress.broadcast
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        for _ in 0..3 {
            swarm.ok(progress("A", "T"));
            assert_eq!(swarm.said(), ["task_progressed"]);
        }
        swarm.ok(progress("B", "T"));
        assert!(swarm.said().is_empty());
    }
}
