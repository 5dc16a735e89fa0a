//! What is not urgent waits for the next heartbeat and goes with it, in as few frames as it takes.

use std::collections::VecDeque;

use switchboard_wire::agentbus::message::{Inbound, MemoryEvent, TaskProgress, WorkerState};

/// Issues whose progress is held at a time; beyond it the one that waited longest is dropped.
pub const PROGRESS_MAX: usize = 64;
/// Memory events held at a time; beyond it the oldest is dropped.
pub const MEMORY_EVENTS_MAX: usize = 64;

/// Collects telemetry between two heartbeats. Of each issue only the latest progress counts.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    progress: VecDeque<TaskProgress>,
    memories: VecDeque<MemoryEvent>,
}

impl Telemetry {
    /// Progress of an issue; what was held of the same issue is forgotten.
    pub fn progress(&mut self, progress: TaskProgress) {
        self.progress
            .retain(|held| held.issue_number != progress.issue_number);
        if self.progress.len() >= PROGRESS_MAX {
            self.progress.pop_front();
        }
        self.progress.push_back(progress);
    }

    /// Something worth remembering.
    pub fn memory(&mut self, event: MemoryEvent) {
        if self.memories.len() >= MEMORY_EVENTS_MAX {
            self.memories.pop_front();
        }
        self.memories.push_back(event);
    }

    /// A newer word about the same issue came with a state; an older report must not take it back.
    pub fn superseded(&mut self, state: &WorkerState<'_>) {
        self.progress.retain(|held| {
            let about = (held.issue_number, held.attempt) == (state.issue_number, state.attempt);
            !about || (held.stage == state.stage && state.progress.is_none())
        });
    }

    /// Forgets what is held of an issue: its end was told, and what comes after that would be wrong.
    pub fn forget(&mut self, issue_number: u64) {
        self.progress
            .retain(|held| held.issue_number != issue_number);
    }

    /// Joins progress of the heartbeat's own issue into it; returns what needs frames of its own.
    ///
    /// A heartbeat has no place for a note, so progress with one keeps its frame.
    pub fn join(&mut self, state: &mut WorkerState<'static>) -> Vec<Inbound<'static>> {
        let mut frames = Vec::new();
        for held in self.progress.drain(..) {
            if held.issue_number == state.issue_number && held.attempt == state.attempt {
                state.stage = held.stage;
                state.progress = Some(held.progress.clone());
                if held.note.is_none() {
                    continue;
                }
            }
            frames.push(held.into());
        }
        frames.extend(self.memories.drain(..).map(Inbound::from));
        frames
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::Json;
    use switchboard_wire::agentbus::Stage;
    use switchboard_wire::agentbus::message::{MessageType, StepProgress};

    use super::super::clock::state;
    use super::*;

    fn at(issue_number: u64, percent: f64) -> TaskProgress {
        TaskProgress {
            issue_number,
            attempt: 1,
            stage: Stage::Code,
            progress: StepProgress {
                step: "writing".into(),
                percent,
            },
            note: None,
            corr_id: None,
        }
    }

    #[test]
    fn a_hundred_reports_of_one_issue_ride_in_one_heartbeat() {
        // agentbus.limits.batch_telemetry
        let mut telemetry = Telemetry::default();
        for percent in 0..100 {
            telemetry.progress(at(7, f64::from(percent)));
        }
        let mut beat = state(Stage::Code, 7, 1);
        assert!(telemetry.join(&mut beat).is_empty());
        assert_eq!(beat.progress.unwrap().percent, 99.0);
    }

    #[test]
    fn other_issues_and_notes_have_one_frame_each() {
        let mut telemetry = Telemetry::default();
        for percent in [1.0, 2.0, 3.0] {
            telemetry.progress(at(8, percent));
            telemetry.progress(at(9, percent));
        }
        telemetry.progress(TaskProgress {
            note: Some("half way".to_owned()),
            ..at(7, 50.0)
        });
        let mut beat = state(Stage::Code, 7, 1);
        let frames = telemetry.join(&mut beat);
        let issues: Vec<(u64, f64)> = frames
            .iter()
            .map(|frame| match frame {
                Inbound::TaskProgress(told) => (told.issue_number, told.progress.percent),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(issues, [(8, 3.0), (9, 3.0), (7, 50.0)]);
        assert_eq!(beat.progress.unwrap().percent, 50.0);
        assert!(telemetry.join(&mut state(Stage::Code, 7, 1)).is_empty());
    }

    #[test]
    fn an_older_report_does_not_take_a_state_back() {
        let mut telemetry = Telemetry::default();
        telemetry.progress(at(7, 40.0));
        let mut beat = state(Stage::Code, 7, 1);
        telemetry.superseded(&beat);
        telemetry.join(&mut beat);
        assert_eq!(beat.progress.map(|told| told.percent), Some(40.0));
        telemetry.progress(at(7, 50.0));
        let mut beat = state(Stage::Validate, 7, 1);
        telemetry.superseded(&beat);
        assert!(telemetry.join(&mut beat).is_empty());
        assert_eq!((beat.stage, beat.progress), (Stage::Validate, None));
    }

    #[test]
    fn what_is_held_is_bounded_and_the_oldest_goes_first() {
        let mut telemetry = Telemetry::default();
        for issue in 1..=PROGRESS_MAX as u64 + 1 {
            telemetry.progress(at(issue, 1.0));
        }
        for number in 0..=MEMORY_EVENTS_MAX {
            telemetry.memory(MemoryEvent {
                event_type: MessageType::Heartbeat,
                event: Json::from_text(format!("{{\"n\":{number}}}")).unwrap(),
            });
        }
        let frames = telemetry.join(&mut state(Stage::Start, 0, 0));
        assert_eq!(frames.len(), PROGRESS_MAX + MEMORY_EVENTS_MAX);
        assert!(!frames.contains(&at(1, 1.0).into()));
        assert!(frames.contains(&at(2, 1.0).into()));
    }

    #[test]
    fn a_finished_issue_is_not_spoken_of_again() {
        let mut telemetry = Telemetry::default();
        telemetry.progress(at(7, 90.0));
        telemetry.forget(7);
        assert!(telemetry.join(&mut state(Stage::Start, 0, 0)).is_empty());
    }
}
