//! `switchboard job run`: a job is begun and followed until it ends, or waits for a person.

use std::pin::pin;
use std::time::Duration;

use clap::Args as ClapArgs;
use futures_util::StreamExt as _;
use serde_json::Value;
use switchboard_client::jetpack::{Event, EventPlace, EventQuery};
use switchboard_client::{Client, Error};
use switchboard_core::JobState;
use switchboard_wire::logist::Manifest;
use switchboard_wire::logist::history::Exchanged;
use switchboard_wire::logist::http::{
    ActivateJobRequest, JobQuery, JobVersionQuery, ResumeJobRequest, SteerJobRequest,
};
use tokio::time::Instant;

use super::{NO_JOB, Which, changed, dollars, exchanges, hint, next_step, outcome, painted, took};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Tone, brief, clean, paint};

/// Begin a job, and follow it until it ends or waits for a person
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A draft is activated, a suspended job goes on. Ctrl-C suspends the job and ends its agent; run it again to go on. The agents
are run by the hub, so the job goes on if this command is killed.

Exit codes: 0 when the job succeeded or waits for approval, 1 when it is stuck, over a limit, suspended or canceled, 130
after Ctrl-C.

Examples:
  switchboard job run parser
  switchboard job run --json")]
pub struct Args {
    /// Id of the job [default: LOGIST_JOB_ID, else the first in the queue, else the selected job]
    #[arg(value_name = "ID")]
    job: Option<String>,
}

/// Nothing is missed for longer, whatever was or was not heard.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A job that nobody begins for so long may be waiting for something that is not there.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// After Ctrl-C, as shells say it.
const INTERRUPTED: u8 = 130;

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let which = Which { job: args.job };
    let id = match which.named() {
        Some(id) => id,
        None => first(&client).await?,
    };
    // Before the job is looked at, so that nothing falls between the two.
    let since = newest(&client).await?;
    let seen = begin(&client, &id).await?;
    let screen = &mut context.screen;
    let ended = tokio::select! {
        _ = tokio::signal::ctrl_c() => None,
        ended = follow(&client, screen, &id, since, seen) => Some(ended?),
    };
    let Some(job) = ended else {
        let request = SteerJobRequest {
            reason: Some("Ctrl-C".to_owned()),
        };
        changed(screen, &client.jobs().suspend(&id, &request).await?)?;
        screen.flush()?;
        return Err(Failure::Program(INTERRUPTED));
    };
    if screen.json() {
        screen.value(&job)?;
    }
    match JobState::parse(&job.status) {
        Some(JobState::Success | JobState::ApprovalRequired) if screen.json() => Ok(()),
        Some(JobState::Success | JobState::ApprovalRequired) => {
            screen.line(format_args!(
                "job {} is {}",
                clean(&id),
                painted(&job.status)
            ))?;
            Ok(hint(screen, &id, &job.status)?)
        }
        state => Err(Failure::Ended {
            code: 1,
            what: stopped(&id, &job.status, state),
        }),
    }
}

/// The first in the queue, else the selected one.
async fn first(client: &Client) -> Result<String, Failure> {
    let ready = [JobState::Pending, JobState::ReviewRequired];
    let query = JobQuery {
        status: ready.iter().map(ToString::to_string).collect(),
        limit: Some(1),
        after: None,
    };
    let page = client.jobs().list(&query).await?;
    let first = page.jobs.into_iter().next().map(|job| job.job_id);
    first
        .or(page.current_job_id)
        .ok_or_else(|| Failure::Usage(NO_JOB.to_owned()))
}

async fn newest(client: &Client) -> Result<EventPlace, Error> {
    let newest = EventQuery {
        limit: Some(1),
        ..EventQuery::default()
    };
    let latest = client.events().list(&newest).await?;
    Ok(EventPlace {
        epoch: latest.epoch,
        number: latest.latest,
    })
}

async fn get(client: &Client, id: &str) -> Result<Manifest, Error> {
    Ok(client
        .jobs()
        .get(id, &JobVersionQuery::default())
        .await?
        .job)
}

/// Lets it run, if it does not yet; the last interaction that is known already.
async fn begin(client: &Client, id: &str) -> Result<u64, Failure> {
    let job = get(client, id).await?;
    let known = job.history.iter().filter_map(|event| event.sequence).max();
    let state = JobState::parse(&job.status);
    match state {
        Some(JobState::Draft) => {
            let request = ActivateJobRequest::default();
            client.jobs().activate(id, &request).await?;
        }
        Some(JobState::Suspended) => {
            let request = ResumeJobRequest::default();
            client.jobs().resume(id, &request).await?;
        }
        _ if goes_on(state) => {}
        _ => return Err(Failure::Failed(stopped(id, &job.status, state))),
    }
    Ok(known.unwrap_or_default())
}

/// Whether it is an agent's turn, and no person's.
fn goes_on(state: Option<JobState>) -> bool {
    match state {
        Some(
            JobState::Pending | JobState::Running | JobState::ReviewRequired | JobState::Reviewing,
        ) => true,
        None
        | Some(
            JobState::Draft
            | JobState::ApprovalRequired
            | JobState::InterventionRequired
            | JobState::Suspended
            | JobState::HaltedCost
            | JobState::HaltedTime
            | JobState::HaltedIteration
            | JobState::Success
            | JobState::Canceled,
        ) => false,
    }
}

/// Why it does not go on, and what can be done.
fn stopped(id: &str, status: &str, state: Option<JobState>) -> String {
    let step = state.and_then(next_step).map(|step| step.replace("ID", id));
    match step {
        Some(step) => format!("job {id} is {status}; {step}"),
        None => format!(
            "job {id} is already in terminal state {status}; run it again with 'switchboard job rerun {id}'"
        ),
    }
}

/// Shows what happens to it until it is no agent's turn.
async fn follow(
    client: &Client,
    screen: &mut Screen,
    id: &str,
    since: EventPlace,
    mut seen: u64,
) -> Result<Manifest, Failure> {
    let types = ["job_moved", "job_run_began", "job_run_ended", "job_changed"];
    let types = types.map(str::to_owned).to_vec();
    let mut events = pin!(client.events().follow_types(Some(since), types));
    let mut idle = Some(Instant::now());
    loop {
        let job = get(client, id).await?;
        let told = job.history.iter().filter_map(|event| event.sequence).max();
        if told.is_some_and(|told| told > seen) {
            for one in exchanges(client, id, seen).await?.interactions {
                seen = one.sequence;
                idle = Some(Instant::now());
                if !screen.json() {
                    screen.line(line(&one))?;
                }
            }
        }
        let state = JobState::parse(&job.status);
        if !goes_on(state) {
            return Ok(job);
        }
        let is_waiting = matches!(state, Some(JobState::Pending | JobState::ReviewRequired));
        if is_waiting && idle.is_some_and(|since| since.elapsed() > IDLE_AFTER) {
            idle = None;
            anstream::eprintln!("{}", clean(&waits(&job)));
        }
        screen.flush()?;
        let event = tokio::select! {
            event = about(id, &mut events) => event?,
            () = tokio::time::sleep(LOOK_EVERY) => None,
        };
        if let Some(event) = event.filter(|event| event.kind == "job_run_began") {
            idle = Some(Instant::now());
            if !screen.json() {
                screen.line(began(&job, &event))?;
            }
        }
    }
}

/// The next event of this job; none if there will be no more.
async fn about(
    id: &str,
    events: &mut (impl futures_util::Stream<Item = Result<Event, Error>> + Unpin),
) -> Result<Option<Event>, Error> {
    while let Some(event) = events.next().await.transpose()? {
        if event.members.get("job").and_then(Value::as_str) == Some(id) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// An agent is at work.
fn began(job: &Manifest, event: &Event) -> String {
    let member = |name: &str| event.members.get(name);
    let role = member("role").and_then(Value::as_str).unwrap_or("agent");
    let phases = job.spec.phases.as_deref().unwrap_or_default();
    let at = member("phase").and_then(Value::as_u64).unwrap_or_default();
    let phase = usize::try_from(at).ok().and_then(|at| phases.get(at));
    let phase = phase.map_or("", |phase| &phase.name);
    paint(
        format_args!("{}: {} begins", clean(phase), clean(role)),
        Tone::Dim,
    )
}

/// What an agent answered.
fn line(one: &Exchanged) -> String {
    let (by, response) = (&one.request.given.metadata, &one.response);
    let summary = response
        .error
        .as_ref()
        .unwrap_or(&response.summary_for_supervisor);
    format!(
        "{}: {} {} → {} ({}, {}) {}",
        clean(&by.phase),
        clean(&by.role),
        clean(&response.action),
        painted(outcome(one)),
        dollars(response.cost_usd * 100.0),
        took(response.execution_time_seconds),
        paint(brief(summary, 100), Tone::Dim),
    )
}

/// Why nobody may have begun it.
fn waits(job: &Manifest) -> String {
    match &job.task_id {
        Some(task) => format!(
            "its phase is in the queue as task {task}, for any agent that may claim it; see 'switchboard task why {task}'"
        ),
        None => "no agent has begun it yet: other jobs may be first, a failed call may be waiting for its retry, or the hub has no [logist.agents.worker] and [logist.agents.supervisor] in its settings"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_does_not_go_on_says_why_and_what_to_do() {
        for state in JobState::ALL {
            let is_followed = goes_on(Some(*state));
            let why = stopped("j", state.as_str(), Some(*state));
            let is_ended = why.contains("already in terminal state");
            assert_eq!(is_ended, state.is_terminal() || is_followed, "{why}");
            assert!(
                why.contains("switchboard job") && !why.contains("ID'"),
                "{why}"
            );
        }
    }
}
