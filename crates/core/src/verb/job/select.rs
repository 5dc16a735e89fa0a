//! The job that is meant where none is named.

use super::{Verb, no};
use crate::changes::Changes;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::job::{Job, JobShelf};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectJob {
    pub job: Option<JobId>,
}

impl Verb for SelectJob {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<JobShelf>("");
        if let Some(job) = &self.job {
            want.private::<Job>(job.to_string());
        }
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut want = Want::new(slice);
        if let Some(job) = &self.job
            && want.private::<Job>(job.to_string()).is_none()
        {
            return Err(no(job, JobRefusal::NotFound));
        }
        let mut changes = Changes::default();
        let shelf = want.private::<JobShelf>("").cloned().unwrap_or_default();
        if shelf.current != self.job {
            changes.put(JobShelf {
                current: self.job.clone(),
                ..shelf
            });
        }
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::word;
    use super::super::testing::{plain, row};
    use super::*;

    #[test]
    fn only_a_job_that_is_there_is_selected() {
        let mut swarm = plain();
        for (job, expected) in [
            (Some("J"), "ok"),
            (Some("K"), "job_not_found"),
            (None, "ok"),
        ] {
            let job = job.map(JobId::from);
            let outcome = swarm.run(SelectJob { job: job.clone() });
            assert_eq!(word(&outcome), expected, "{job:?}");
            if outcome.is_ok() {
                assert_eq!(row::<JobShelf>(&swarm, "").current, job);
            }
        }
    }
}
