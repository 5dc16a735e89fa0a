//! Jobs: made, shown, and decided on by a person. What follows of it, [`crate::jobs`] does.

use std::path::Path;

use serde::de::DeserializeOwned;
use switchboard_core::job::refusal::JobRefusal;
use switchboard_core::job::{Job, JobGroup, JobShelf, JobSpec};
use switchboard_core::job_history::{Exchange, Interaction, JobEntry, RecoveryPoint};
use switchboard_core::query::Readable;
use switchboard_core::record::{Place, RecordRange};
use switchboard_core::verb::job::{DecideJob, SelectJob};
use switchboard_core::{JobId, Record, Refusal, limits};
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::Done;
use switchboard_wire::jetpack::from_wire::page_size;
use switchboard_wire::logist::from_wire::{self, Decided, JobList};
use switchboard_wire::logist::http::{
    ActivateJobRequest, ChangeJobRequest, CorrectJobRequest, CreateJobRequest, JobChangedResponse,
    JobHistoryPage, JobHistoryQuery, JobPage, JobQuery, JobResponse, JobVersionQuery,
    RejectJobRequest, RerunJobRequest, ResubmitJobRequest, ResumeJobRequest, SteerJobRequest,
    StewardQuery, StewardResponse, standing,
};
use switchboard_wire::logist::spec::job_id;
use switchboard_wire::logist::{Manifest, history, http, manifest};

use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState};
use crate::call::to_json;
use crate::hub;
use crate::jobs::Packer;

/// A new job, or the one of this id with another spec.
pub async fn create(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<CreateJobRequest>(&app, &call).await?;
    let id = match &request.job_spec.job_id {
        Some(given) => job_id("job_spec.job_id", given)?,
        None => JobId::from(app.ids.fresh("job")),
    };
    app.jobs.look(Some(&id)).await?;
    let wanted = id.clone();
    let known = app.hub.read(move |ledger| known(ledger, &wanted)).await?;
    let Some((_, spec)) = known else {
        let asked = request.directory.as_deref().map(Path::new);
        let directory = app.jobs.place(&id, asked);
        let directory = directory.map_err(|why| Malformed::field("directory", why))?;
        let verb = from_wire::create(request, id, directory.display().to_string())?;
        return written(&app, change.run(verb, 201, changed).await).await;
    };
    let request = ChangeJobRequest {
        job_spec: Some(request.job_spec),
        ..ChangeJobRequest::default()
    };
    let actor = from_wire::steward(change.caller.name(), None);
    let verb = from_wire::change(request, spec, actor)?;
    written(&app, change.run(verb, 201, changed).await).await
}

/// Answers when the files say so, too.
async fn written(app: &App, reply: Result<Reply, Failure>) -> Result<Reply, Failure> {
    app.jobs.write().await;
    reply
}

fn changed(job: &Job) -> Vec<u8> {
    to_json(&JobChangedResponse {
        success: true,
        job: standing(job),
    })
}

pub async fn change(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<ChangeJobRequest>(&app, &call).await?;
    let id = job_id("id", &call.id()?)?;
    app.jobs.look(Some(&id)).await?;
    let wanted = id.clone();
    let known = app.hub.read(move |ledger| known(ledger, &wanted)).await?;
    let (_, spec) = known.ok_or_else(|| unknown(id))?;
    let actor = from_wire::steward(change.caller.name(), None);
    let verb = from_wire::change(request, spec, actor)?;
    written(&app, change.run(verb, 200, changed).await).await
}

pub async fn select(app: AppState, call: Call) -> Result<Reply, Failure> {
    let change = Change::new(&app, &call).await?;
    let job = Some(job_id("id", &call.id()?)?);
    let done = |(): &()| to_json(&Done { success: true });
    app.jobs.look(None).await?;
    written(&app, change.run(SelectJob { job }, 200, done).await).await
}

/// What a person decides, by the name of the step.
macro_rules! decisions {
    ($($step:ident: $request:ty;)+) => {$(
        pub async fn $step(app: AppState, call: Call) -> Result<Reply, Failure> {
            decide::<$request>(&app, &call, from_wire::$step).await
        }
    )+};
}

decisions! {
    activate: ActivateJobRequest;
    approve: SteerJobRequest;
    reject: RejectJobRequest;
    resubmit: ResubmitJobRequest;
    correct: CorrectJobRequest;
    cancel: SteerJobRequest;
    suspend: SteerJobRequest;
    resume: ResumeJobRequest;
    restep: SteerJobRequest;
    rerun: RerunJobRequest;
}

async fn decide<T: DeserializeOwned>(
    app: &App,
    call: &Call,
    read: fn(T) -> Result<Decided, Malformed>,
) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<T>(app, call).await?;
    let (decision, why) = read(request)?;
    let job = job_id("id", &call.id()?)?;
    app.jobs.look(Some(&job)).await?;
    let verb = DecideJob {
        job,
        actor: from_wire::steward(change.caller.name(), why),
        decision,
    };
    written(app, change.run(verb, 200, changed).await).await
}

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let wanted = from_wire::list(call.query::<JobQuery>()?)?;
    app.jobs.glance(None).await?;
    let page = app.hub.read(move |ledger| page(ledger, &wanted)).await?;
    Ok(Reply::ok(&page))
}

pub async fn for_steward(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let limit = page_size(call.query::<StewardQuery>()?.limit)?;
    let mut found = app
        .hub
        .read(move |ledger| ledger.for_steward(limit))
        .await?;
    found.truncate(limit);
    Ok(Reply::ok(&StewardResponse {
        success: true,
        items: found.iter().map(http::for_steward).collect(),
    }))
}

/// Group by group, each in its own order.
fn page<E>(ledger: &dyn Readable<Error = E>, wanted: &JobList) -> Result<JobPage, E> {
    let shelf = ledger.private::<JobShelf>("")?;
    let mut page = JobPage {
        success: true,
        jobs: Vec::new(),
        current_job_id: shelf
            .and_then(|shelf| shelf.current)
            .map(|job| job.to_string()),
        next: None,
    };
    let mut scanned = 0;
    for (group, mut after) in wanted.groups() {
        loop {
            let range = RecordRange {
                after: after.take(),
                newest_first: group == JobGroup::Ended,
                ..Job::in_group(group, wanted.limit + 1)
            };
            let found = ledger.privates::<Job>(&range)?;
            let is_all = found.len() < range.limit;
            for job in found {
                if page.jobs.len() == wanted.limit || scanned == limits::PAGE_SCAN_MAX {
                    return Ok(page);
                }
                scanned += 1;
                if wanted.takes(job.state) {
                    page.jobs.push(standing(&job));
                }
                after = Record::from(job).place();
                page.next = after.as_ref().map(|place| format!("{group}.{place}"));
            }
            if is_all {
                break;
            }
        }
    }
    page.next = None;
    Ok(page)
}

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let is_strict = from_wire::is_strict(&call.query::<JobVersionQuery>()?)?;
    let id = job_id("id", &call.id()?)?;
    app.jobs.glance(Some(&id)).await?;
    let wanted = id.clone();
    let read = app.hub.read(move |ledger| whole(ledger, &wanted));
    let found = read.await?.ok_or_else(|| unknown(id))?;
    Ok(Reply::ok(&JobResponse {
        success: true,
        job: match is_strict {
            true => manifest::strict(found),
            false => found,
        },
    }))
}

/// A job with the newest of what happened to it.
fn whole<E>(ledger: &dyn Readable<Error = E>, id: &JobId) -> Result<Option<Manifest>, E> {
    let Some((job, spec)) = known(ledger, id)? else {
        return Ok(None);
    };
    let most = limits::JOB_INTERACTIONS_MAX;
    let newest = RecordRange::newest::<Interaction>(id.to_string(), most);
    let mut interactions = ledger.privates::<Interaction>(&newest)?;
    let newest = RecordRange::newest::<JobEntry>(id.to_string(), most);
    let mut entries = ledger.privates::<JobEntry>(&newest)?;
    interactions.reverse();
    entries.reverse();
    Ok(Some(manifest::manifest(
        &job,
        &spec,
        &interactions,
        &entries,
    )))
}

fn known<E>(ledger: &dyn Readable<Error = E>, id: &JobId) -> Result<Option<(Job, JobSpec)>, E> {
    let job = ledger.private::<Job>(id.to_string())?;
    let spec = ledger.private::<JobSpec>(id.to_string())?;
    Ok(job.zip(spec))
}

fn unknown(job: JobId) -> hub::Error {
    let why = JobRefusal::NotFound;
    hub::Error::Refused(Refusal::Job { job, why })
}

/// With the texts of each, as many as fit into a page.
pub async fn history(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let (after, limit) = from_wire::history(&call.query::<JobHistoryQuery>()?)?;
    let id = job_id("id", &call.id()?)?;
    let wanted = id.clone();
    let read = app
        .hub
        .read(move |ledger| exchanges(ledger, &wanted, after, limit));
    let found = read.await?.ok_or_else(|| unknown(id))?;
    Ok(Reply::ok(&found))
}

fn exchanges<E>(
    ledger: &dyn Readable<Error = E>,
    id: &JobId,
    after: u64,
    limit: usize,
) -> Result<Option<JobHistoryPage>, E> {
    let Some((job, spec)) = known(ledger, id)? else {
        return Ok(None);
    };
    let points = ledger.privates(&RecoveryPoint::of_job(id, limits::JOB_INTERACTIONS_MAX))?;
    let mut page = JobHistoryPage {
        success: true,
        job_id: id.to_string(),
        created_at: job.created_at.into(),
        interactions: Vec::new(),
        recovery_points: points
            .iter()
            .map(|point| history::point(point, &spec))
            .collect(),
        next: None,
    };
    let rows = ledger.privates::<Interaction>(&RecordRange {
        after: i64::try_from(after).ok().map(behind),
        ..Interaction::of_job(id, limit + 1)
    })?;
    let mut bytes = 0;
    for row in &rows {
        if page.interactions.len() == limit || bytes > limits::RECEIVE_BYTES {
            page.next = page.interactions.last().map(|last| last.sequence);
            break;
        }
        let key = Interaction::key_of(id, row.sequence);
        let Some(exchange) = ledger.private::<Exchange>(key)? else {
            continue;
        };
        let text = |packed| Packer::shown(packed, id).unwrap_or_default();
        let (prompt, raw) = (text(&exchange.prompt), text(&exchange.raw));
        bytes += prompt.len() + raw.len();
        page.interactions
            .push(history::exchanged(row, &exchange, prompt, raw));
    }
    Ok(Some(page))
}

/// Behind all rows of a position.
fn behind(position: i64) -> Place {
    let key = "\u{10FFFF}".into();
    Place { position, key }
}
