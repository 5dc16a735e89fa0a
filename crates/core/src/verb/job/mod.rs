//! The steps of a job: one file each.
//!
//! Each decides on the job's row, and what it made of it is put together in one place, [`Turn`]: the row with its
//! version, what moved it, and what becomes of its task in the queue. What follows from an agent's answer, by whichever
//! way it came, is in [`answer`].

use super::Verb;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::refusal::Refusal;

mod adopt;
mod answer;
mod begin_run;
mod change;
mod create;
mod decide;
mod end_run;
mod follow;
#[cfg(test)]
mod laws;
mod note;
mod note_run;
mod prune;
mod queue;
#[cfg(test)]
mod queue_tests;
mod rank;
mod recover;
mod select;
#[cfg(test)]
mod testing;
mod turn;

pub use adopt::{AdoptHistory, AdoptJob};
pub use begin_run::{BeginJobRun, Begun as JobRunBegun};
pub use change::ChangeJob;
pub use create::CreateJob;
pub use decide::{DecideJob, Decision};
pub use end_run::{EndJobRun, Ended as JobRunEnded};
pub use follow::{FollowJobTask, Followed as JobTaskFollowed};
pub use note::NoteJob;
pub use note_run::NoteJobRun;
pub use prune::PruneJobs;
pub use queue::{QueueJobPhase, Queued as JobPhaseQueued};
pub use recover::RecoverJob;
pub use select::SelectJob;
pub use turn::JobActor;

fn no(job: &JobId, why: JobRefusal) -> Refusal {
    let job = job.clone();
    Refusal::Job { job, why }
}
