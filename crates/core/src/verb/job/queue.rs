//! The next step of a job goes into the queue, as a task for whoever may claim it.

use super::turn::{Turn, ask};
use super::{Verb, no};
use crate::changes::Changes;
use crate::description::Description;
use crate::id::JobId;
use crate::job::refusal::JobRefusal;
use crate::job::step::Act;
use crate::job::{Halt, Job, JobRole, JobSpec, JobTask};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{OnDependencyFailure, TaskKind};
use crate::time::Timestamp;
use crate::verb::{CreateTasks, NewTask};
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueJobPhase {
    pub job: JobId,
    pub title: String,
    /// The request, as an agent reads it.
    pub description: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    pub job: Job,
    /// Nothing was queued: this limit is reached.
    pub halted: Option<Halt>,
}

impl Verb for QueueJobPhase {
    type Reply = Queued;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let spec = want.private::<JobSpec>(self.job.to_string()).cloned();
        if let (Some(job), Some(spec)) = (ask(want, &self.job), spec) {
            self.task(&job, &spec).asks(want, now);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Queued, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        turn.next(JobRole::System, Act::Begin)?;
        if let Some(task) = &turn.job.task {
            let why = JobRefusal::IsQueued(task.id.clone());
            return Err(no(&self.job, why));
        }
        if self.description.len() > limits::DESCRIPTION_BYTES_MAX {
            return Err(Refusal::TooMany {
                what: "bytes in the request of a queued phase",
                limit: limits::DESCRIPTION_BYTES_MAX,
            });
        }
        if let Some(halt) = turn.halt() {
            let (job, changes) = turn.end("switchboard", "a limit is reached");
            return Ok((
                Queued {
                    job,
                    halted: Some(halt),
                },
                changes,
            ));
        }
        let made = self.task(&turn.job, turn.spec()).decide(slice, now)?;
        turn.changes.absorb(made.1);
        turn.job.task = made.0.first().map(|task| JobTask {
            id: task.id.clone(),
            number: task.number,
            epoch: 0,
        });
        turn.job.runs += 1;
        turn.job.restore = None;
        turn.job.look_at = None;
        let (job, changes) = turn.end("switchboard", "queued");
        Ok((Queued { job, halted: None }, changes))
    }
}

impl QueueJobPhase {
    fn task(&self, job: &Job, spec: &JobSpec) -> CreateTasks {
        let reviews = job.next_role() == Some(JobRole::Supervisor);
        let barred = job.worker.iter().filter(|_| reviews).cloned().collect();
        let kind = if reviews {
            TaskKind::Review
        } else {
            TaskKind::Custom
        };
        CreateTasks {
            tasks: vec![NewTask {
                id: JobTask::id_of(job),
                about: Description {
                    title: limits::cut(&self.title, limits::TITLE_BYTES_MAX).to_owned(),
                    description: Some(self.description.clone()),
                    max_retries: spec.max_retries.min(limits::RETRIES_MAX),
                    kind,
                    barred,
                    ..Description::default()
                },
                dependencies: Vec::new(),
                on_dependency_failure: OnDependencyFailure::Block,
                corr_id: job.corr_id.clone(),
            }],
        }
    }
}
