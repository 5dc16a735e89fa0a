//! Work for show: through all stages in a few seconds.

use std::time::Duration;

use switchboard_client::bus::state;
use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::message::{Accomplished, StepProgress, TaskAssigned};
use tokio::time::timeout;

use super::job::{Job, Mishap, Note, Notes, Outcome, Stop};

/// How long each stage takes.
const PACE: Duration = Duration::from_secs(1);

const STAGES: [(Stage, &str); 9] = [
    (Stage::Start, "starting"),
    (Stage::UpgradeCheckpoint, "looking for upgrades"),
    (Stage::SyncMain, "catching up with main"),
    (Stage::ContextLoad, "reading"),
    (Stage::Code, "writing"),
    (Stage::Validate, "testing"),
    (Stage::Commit, "committing"),
    (Stage::PrCreate, "opening a pull request"),
    (Stage::ReviewRequest, "asking for review"),
];

pub fn start(task: TaskAssigned) -> Job {
    let (number, attempt) = (task.issue_number, task.attempt);
    Job::start(task, move |notes, stop| async move {
        walk(number, attempt, &notes, stop).await
    })
}

async fn walk(number: u64, attempt: u32, notes: &Notes, mut stop: Stop) -> Outcome {
    for (place, (stage, step)) in STAGES.into_iter().enumerate() {
        let mut at = state(stage, number, attempt);
        at.progress = Some(StepProgress {
            step: step.into(),
            percent: (place * 100 / STAGES.len()) as f64,
        });
        let told = notes.send(Note::At(at)).await;
        if told.is_err() || timeout(PACE, &mut stop).await.is_ok() {
            return Outcome::Failed(Mishap::default());
        }
    }
    Outcome::Done(Accomplished {
        summary: "pretended: stepped through all stages and did nothing".to_owned(),
        ..Accomplished::default()
    })
}
