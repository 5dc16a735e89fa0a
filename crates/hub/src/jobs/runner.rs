//! Begins runs: as many at a time as there is room for, in the order of the queue, where this hub has the duty.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use switchboard_child::{END_WITHIN, orphans};
use switchboard_core::job::{Job, JobGroup, JobRole, JobSpec, RunBy};
use switchboard_core::query::Readable;
use switchboard_core::record::{Place, Private as _, RecordRange};
use switchboard_core::verb::job::RecoverJob;
use switchboard_core::{JobId, Timestamp, limits};
use switchboard_store::Error as StoreError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Jobs, run};
use crate::config;
use crate::hub::Error;

/// Jobs that are looked at in one go.
const PAGE: usize = 64;
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Nothing waits longer for a look, whatever was or was not heard.
const LOOK_EVERY: Duration = Duration::from_secs(60);

pub(super) async fn run(jobs: Arc<Jobs>) {
    let mut bell = jobs.hub.shared.wakeups().jobs_bell();
    let mut runs = JoinSet::new();
    let mut has_recovered = false;
    loop {
        let is_held = jobs.duty.standing().is_held;
        if !is_held {
            // Whoever has it now ends what is left, and goes on.
            jobs.runs
                .lock()
                .values()
                .for_each(CancellationToken::cancel);
        }
        let rest = match is_held {
            true => jobs.look_for_work(&mut runs, &mut has_recovered).await,
            false => {
                has_recovered = false;
                Ok(LOOK_EVERY)
            }
        };
        let rest = match rest {
            Ok(rest) => rest,
            Err(Error::Stopping) => break,
            Err(error) => {
                tracing::debug!(%error, "jobs are looked at again in a moment");
                RETRY_AFTER
            }
        };
        tokio::select! {
            () = jobs.stopping.cancelled() => break,
            () = jobs.duty.changed() => {}
            changed = bell.changed() => if changed.is_err() { break },
            () = jobs.ended.notified() => {}
            Some(_) = runs.join_next(), if !runs.is_empty() => {}
            () = sleep_until(Instant::now() + rest) => {}
        }
    }
    jobs.runs
        .lock()
        .values()
        .for_each(CancellationToken::cancel);
    while runs.join_next().await.is_some() {}
}

impl Jobs {
    /// Begins what may begin; says when to look again.
    async fn look_for_work(
        self: &Arc<Self>,
        runs: &mut JoinSet<()>,
        has_recovered: &mut bool,
    ) -> Result<Duration, Error> {
        if !*has_recovered {
            self.recover().await?;
            *has_recovered = true;
        }
        let room = (self.settings.runs as usize).saturating_sub(self.runs.lock().len());
        if room == 0 || self.settings.agents.is_empty() {
            return Ok(LOOK_EVERY);
        }
        let (now, mut next) = (self.hub.time(), None);
        let mut found = self.waiting(now, room, &mut next).await?;
        if found.len() < room {
            found.extend(self.ready(room - found.len()).await?);
        }
        for job in found {
            let stop = CancellationToken::new();
            self.runs.lock().insert(job.id.clone(), stop.clone());
            let jobs = Arc::clone(self);
            runs.spawn(async move {
                run::one(&jobs, &job, &stop).await;
                jobs.runs.lock().remove(&job.id);
                jobs.ended.notify_one();
            });
        }
        Ok(next.map_or(LOOK_EVERY, |at: Timestamp| at.since(now).min(LOOK_EVERY)))
    }

    /// Those whose wait is over, and when the next one is.
    async fn waiting(
        &self,
        now: Timestamp,
        room: usize,
        next: &mut Option<Timestamp>,
    ) -> Result<Vec<Job>, Error> {
        let range = Job::in_group(JobGroup::Waiting, PAGE);
        let waiting: Vec<Job> = self.hub.read(move |ledger| ledger.privates(&range)).await?;
        let is_over = |job: &Job| job.look_at.is_none_or(|at| at <= now);
        *next = waiting
            .iter()
            .filter(|job| !is_over(job))
            .find_map(|job| job.look_at);
        let over = waiting
            .into_iter()
            .filter(|job| is_over(job) && self.may_run(job));
        Ok(over.take(room).collect())
    }

    async fn ready(&self, room: usize) -> Result<Vec<Job>, Error> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let range = RecordRange {
                after: after.take(),
                ..Job::in_group(JobGroup::Ready, PAGE)
            };
            let (page, ours) = self.hub.read(move |ledger| ours(ledger, &range)).await?;
            after = page.last().filter(|_| page.len() == PAGE).and_then(|last| {
                let key = last.key();
                last.position().map(|position| Place { position, key })
            });
            let ours = page.into_iter().filter(|job| ours.contains(&job.id));
            found.extend(ours.filter(|job| self.may_run(job)));
            if found.len() >= room || after.is_none() {
                found.truncate(room);
                return Ok(found);
            }
        }
    }

    /// Whether an agent of this hub may go on with it.
    fn may_run(&self, job: &Job) -> bool {
        let agent = job.next_role().and_then(|role| self.agent(role));
        job.task.is_none() && agent.is_some() && !self.runs.lock().contains_key(&job.id)
    }

    /// The program of a role.
    pub(super) fn agent(&self, role: JobRole) -> Option<&config::Agent> {
        self.settings.agents.get(&role.as_str().to_lowercase())
    }

    /// Ends what a hub before this one left running, and has its jobs begin again.
    async fn recover(&self) -> Result<(), Error> {
        loop {
            let range = Job::in_group(JobGroup::Running, limits::PAGE_MAX);
            let running: Vec<Job> = self.hub.read(move |ledger| ledger.privates(&range)).await?;
            let here = self.running();
            let left = running
                .iter()
                .filter(|job| job.task.is_none() && !here.contains(&job.id));
            let runs = left.filter_map(|job| Some((job.id.clone(), job.run.as_ref()?.id.clone())));
            let runs: Vec<_> = runs.collect();
            if runs.is_empty() {
                return Ok(());
            }
            let ids: Vec<&str> = runs.iter().map(|(_, run)| run.as_str()).collect();
            let (found, left) = orphans::end(&ids, END_WITHIN).await;
            if found > 0 {
                tracing::warn!(
                    "ended {found} processes of jobs that a hub before this one left running"
                );
            }
            if left > 0 {
                // Their jobs must not begin beside them.
                tracing::error!("{left} processes of jobs could not be ended; it is tried again");
                sleep(RETRY_AFTER).await;
                continue;
            }
            for (job, run) in runs {
                let recover = RecoverJob {
                    job,
                    run,
                    by: self.hub.shared.name.clone(),
                    why: "the hub that ran it was killed".to_owned(),
                };
                match self.hub.run(recover).await {
                    // It was ended meanwhile.
                    Ok(_) | Err(Error::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

/// Jobs, and which of them agents of a hub do.
fn ours(
    ledger: &dyn Readable<Error = StoreError>,
    range: &RecordRange,
) -> Result<(Vec<Job>, HashSet<JobId>), StoreError> {
    let (jobs, mut ours) = (ledger.privates::<Job>(range)?, HashSet::new());
    for job in &jobs {
        let spec = ledger.private::<JobSpec>(job.id.to_string())?;
        if spec.is_some_and(|spec| spec.run_by == RunBy::Agents) {
            ours.insert(job.id.clone());
        }
    }
    Ok((jobs, ours))
}
