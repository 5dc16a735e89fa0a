//! The steps of a job: one file each.

use super::Verb;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::refusal::Refusal;

mod create;
#[cfg(test)]
mod testing;

pub use create::CreateJob;

fn no(job: &JobId, why: JobRefusal) -> Refusal {
    let job = job.clone();
    Refusal::Job { job, why }
}
