//! Phases in the queue: what is due becomes a task for whoever may claim it, and what becomes of that is taken in.
//!
//! The log says of which jobs to look; each is then read whole, so that a look too many changes nothing. What an ending
//! means is core's to say, what a result says `wire`'s.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::attempt::Attempt;
use switchboard_core::job::{Job, JobGroup, JobRole, JobSpec, RunBy};
use switchboard_core::job_history::{Answer, CallWaits, Interaction, Judged, NewExchange};
use switchboard_core::query::TaskRef;
use switchboard_core::record::{Place, Private as _, RecordRange};
use switchboard_core::verb::job::{BeginJobRun, EndJobRun, FollowJobTask, QueueJobPhase};
use switchboard_core::{JobId, Task, TaskState, limits};
use switchboard_wire::logist::history::{AskedBy, Given};
use switchboard_wire::logist::{queued, request};
use tokio::time::sleep;

use super::agent::Kept;
use super::pack::Packer;
use super::runner::RETRY_AFTER;
use super::{Jobs, roles};
use crate::hub::Error;

/// Nothing waits longer for a look, whatever was or was not heard.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Steps that one job takes in one look.
const STEPS_MAX: usize = 8;

pub(super) async fn run(jobs: Arc<Jobs>) {
    let wakeups = jobs.hub.shared.wakeups();
    let mut bell = wakeups.jobs_bell();
    loop {
        let rest = match jobs.duty.standing().is_held {
            false => {
                wakeups.phases_untold();
                LOOK_EVERY
            }
            true => match jobs.look_at_phases().await {
                Ok(()) => LOOK_EVERY,
                Err(Error::Stopping) => return,
                Err(error) => {
                    tracing::debug!(%error, "phases in the queue are looked at again in a moment");
                    wakeups.phases_untold();
                    RETRY_AFTER
                }
            },
        };
        tokio::select! {
            () = jobs.stopping.cancelled() => return,
            () = jobs.duty.changed() => {}
            changed = bell.changed() => if changed.is_err() { return },
            () = sleep(rest) => {}
        }
    }
}

/// A job with what its next step in the queue needs.
struct Phase {
    job: Job,
    spec: JobSpec,
    last: Option<Interaction>,
    task: Option<Task>,
    attempts: Vec<Attempt>,
}

impl Jobs {
    async fn look_at_phases(&self) -> Result<(), Error> {
        let told = match self.hub.shared.wakeups().phases_told() {
            Some(told) => told,
            None => self.unfinished().await?,
        };
        for id in told {
            self.go_on_in_queue(&id).await?;
        }
        Ok(())
    }

    /// All jobs that may have a step to take.
    async fn unfinished(&self) -> Result<HashSet<JobId>, Error> {
        let mut found = HashSet::new();
        for group in [
            JobGroup::Ready,
            JobGroup::Queued,
            JobGroup::Running,
            JobGroup::Steward,
        ] {
            let mut after = None;
            loop {
                let range = RecordRange {
                    after: after.take(),
                    ..Job::in_group(group, limits::PAGE_MAX)
                };
                let page: Vec<Job> = self.hub.read(move |ledger| ledger.privates(&range)).await?;
                let is_full = page.len() == limits::PAGE_MAX;
                after = page.last().filter(|_| is_full).and_then(|last| {
                    let key = last.key();
                    last.position().map(|position| Place { position, key })
                });
                found.extend(page.into_iter().map(|job| job.id));
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    async fn go_on_in_queue(&self, id: &JobId) -> Result<(), Error> {
        for _ in 0..STEPS_MAX {
            let Some(phase) = self.phase(id).await? else {
                return Ok(());
            };
            let goes_on = match &phase.job.task {
                Some(_) => self.follow(&phase).await,
                None => self.put_into_queue(&phase).await,
            };
            match goes_on {
                Ok(true) => {}
                // Somebody else was first.
                Ok(false) | Err(Error::Refused(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What is to be done for a job, if the queue has part in it.
    async fn phase(&self, id: &JobId) -> Result<Option<Phase>, Error> {
        let id = id.to_string();
        let read = self.hub.read(move |ledger| {
            let (Some(job), Some(spec)) = (
                ledger.private::<Job>(id.clone())?,
                ledger.private::<JobSpec>(id)?,
            ) else {
                return Ok(None);
            };
            let waits = spec.run_by == RunBy::Queue && job.group() == JobGroup::Ready;
            let key = Interaction::key_of(&job.id, job.last_sequence);
            let (task, attempts) = match &job.task {
                None if !waits => return Ok(None),
                None => (None, Vec::new()),
                Some(known) => (
                    ledger.task(&TaskRef::Id(known.id.clone()))?,
                    ledger.attempts(known.number)?,
                ),
            };
            let last = ledger.private::<Interaction>(key)?;
            Ok(Some(Phase {
                job,
                spec,
                last,
                task,
                attempts,
            }))
        });
        read.await
    }

    /// Takes in what became of the task; says whether there is more to do.
    async fn follow(&self, phase: &Phase) -> Result<bool, Error> {
        let (mut judged, mut raw) = (None, String::new());
        if let Some(task) = &phase.task
            && matches!(task.state, TaskState::Completed { .. })
        {
            let (answer, response) = queued::answer(task.result.as_deref().unwrap_or_default());
            (judged, raw) = (Some(answer), response);
        }
        let asked = phase
            .task
            .as_ref()
            .and_then(|task| task.about.description.as_deref());
        let followed = self
            .hub
            .run(FollowJobTask {
                job: phase.job.id.clone(),
                attempts: phase.attempts.clone(),
                judged,
                exchange: exchange(phase, asked.unwrap_or_default(), &raw),
                waits: CallWaits {
                    network: self.settings.api_wait,
                    quota: self.settings.quota_wait,
                },
            })
            .await?;
        Ok(followed.again || followed.job.task.is_none())
    }

    /// Makes the task of the next step, with the request as its description.
    async fn put_into_queue(&self, phase: &Phase) -> Result<bool, Error> {
        let Phase {
            job, spec, last, ..
        } = phase;
        let Some(role) = job.next_role() else {
            return Ok(false);
        };
        let prompt = roles::system_prompt(&self.settings.dir, role);
        // The files are where they were made: nobody can look here.
        let asked = request::request(job, spec, role, &prompt, last.as_ref(), |_| true);
        let description = serde_json::to_string(&asked).expect("text and numbers are always JSON");
        if description.len() > limits::DESCRIPTION_BYTES_MAX {
            let why = format!(
                "the request has {} bytes, and a phase in the queue at most {}; shorten the phase, or run the job by agents",
                description.len(),
                limits::DESCRIPTION_BYTES_MAX
            );
            return self.stop(phase, why).await.map(|()| false);
        }
        let does = match role {
            JobRole::Supervisor => "review",
            JobRole::Worker | JobRole::Steward | JobRole::System => "work",
        };
        self.hub
            .run(QueueJobPhase {
                job: job.id.clone(),
                title: format!("{} of job {}, phase {}", does, job.id, asked.phase),
                description,
            })
            .await?;
        Ok(false)
    }

    /// It cannot be put into the queue as it is: a person has to decide.
    async fn stop(&self, phase: &Phase, why: String) -> Result<(), Error> {
        let (job, run) = (phase.job.id.clone(), self.ids.fresh("run"));
        let begin = BeginJobRun {
            job: job.clone(),
            run: run.clone(),
            by: self.hub.shared.name.clone(),
            checkpoint: None,
        };
        if self.hub.run(begin).await?.halted.is_some() {
            return Ok(());
        }
        let end = EndJobRun {
            job,
            run,
            judged: Judged::plain(Answer::Broken { why }),
            exchange: exchange(phase, "", ""),
            checkpoint: None,
            waits: CallWaits::default(),
        };
        self.hub.run(end).await.map(drop)
    }
}

fn exchange(phase: &Phase, prompt: &str, raw: &str) -> NewExchange {
    let (prompt, prompt_length) = Kept::of(prompt);
    let (raw, raw_length) = Kept::of(raw);
    let files = phase.last.as_ref().map(|last| last.evidence_files.clone());
    let run = phase.job.run.as_ref().map(|run| run.role);
    let role = run.or(phase.job.next_role()).unwrap_or(JobRole::Worker);
    let named = phase.spec.phases.get(phase.job.phase);
    let given = Given {
        files_context: files.unwrap_or_default(),
        metadata: AskedBy {
            role: role.to_string(),
            phase: named.map_or(String::new(), |phase| phase.name.clone()),
            ..AskedBy::default()
        },
    };
    NewExchange {
        prompt: Packer::pack(&prompt),
        prompt_length,
        raw: Packer::pack(&raw),
        raw_length,
        request: serde_json::to_string(&given).expect("text is always JSON"),
        workspace: String::new(),
    }
}
