//! `switchboard job …`: one file per command; here only the table and what they share.

mod activate;
mod approve;
mod cancel;
mod chat;
mod config;
mod correct;
mod create;
mod history;
mod list;
mod metrics;
mod reject;
mod rerun;
mod restep;
mod resubmit;
mod resume;
mod run;
mod select;
mod status;
mod suspend;
mod validate;

use std::{env, io};

use clap::{Args as ClapArgs, Subcommand};
use comfy_table::Cell;
use switchboard_client::{Client, Error};
use switchboard_core::JobState;
use switchboard_wire::logist::history::Exchanged;
use switchboard_wire::logist::http::{
    JobChangedResponse, JobHistoryPage, JobHistoryQuery, JobQuery, SteerJobRequest,
};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Tone, clean, paint, toned};

/// Names the job that commands mean which name none.
const JOB_VARIABLE: &str = "LOGIST_JOB_ID";

pub const EXAMPLES: &str = "\
A job goes through phases: a worker agent does each, a supervisor agent judges it, and a person, the steward, is asked
when it is stuck, over a limit, or ready for approval. Which programs the agents are is said in switchboard.toml:
  [logist.agents.worker]
  preset = \"claude\"
  [logist.agents.supervisor]
  preset = \"claude\"

Examples:
  switchboard job create parser.json
  switchboard job run parser
  switchboard job approve parser";

/// Commands about jobs.
#[derive(Debug, Subcommand)]
pub enum Command {
    Create(create::Args),
    Run(run::Args),
    Status(status::Args),
    List(list::Args),
    History(history::Args),
    Chat(chat::Args),
    Metrics(metrics::Args),
    Approve(approve::Args),
    Reject(reject::Args),
    Resubmit(resubmit::Args),
    Correct(correct::Args),
    Suspend(suspend::Args),
    Resume(resume::Args),
    Cancel(cancel::Args),
    Activate(activate::Args),
    Select(select::Args),
    Config(Box<config::Args>),
    Restep(restep::Args),
    Rerun(rerun::Args),
    Validate(validate::Args),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Create(args) => create::run(args, context).await,
            Command::Run(args) => run::run(args, context).await,
            Command::Status(args) => status::run(args, context).await,
            Command::List(args) => list::run(args, context).await,
            Command::History(args) => history::run(args, context).await,
            Command::Chat(args) => chat::run(args, context).await,
            Command::Metrics(args) => metrics::run(args, context).await,
            Command::Approve(args) => approve::run(args, context).await,
            Command::Reject(args) => reject::run(args, context).await,
            Command::Resubmit(args) => resubmit::run(args, context).await,
            Command::Correct(args) => correct::run(args, context).await,
            Command::Suspend(args) => suspend::run(args, context).await,
            Command::Resume(args) => resume::run(args, context).await,
            Command::Cancel(args) => cancel::run(args, context).await,
            Command::Activate(args) => activate::run(args, context).await,
            Command::Select(args) => select::run(args, context).await,
            Command::Config(args) => config::run(*args, context).await,
            Command::Restep(args) => restep::run(args, context).await,
            Command::Rerun(args) => rerun::run(args, context).await,
            Command::Validate(args) => validate::run(args, context),
        }
    }
}

/// Which job a command is about.
#[derive(Debug, ClapArgs)]
struct Which {
    /// Id of the job [default: LOGIST_JOB_ID, else the selected job]
    #[arg(value_name = "ID")]
    job: Option<String>,
}

impl Which {
    /// The job that is named here or in the environment.
    fn named(self) -> Option<String> {
        let exported = || env::var(JOB_VARIABLE).ok();
        self.job.or_else(exported).filter(|id| !id.is_empty())
    }

    async fn id(self, client: &Client) -> Result<String, Failure> {
        if let Some(id) = self.named() {
            return Ok(id);
        }
        let query = JobQuery {
            limit: Some(1),
            ..JobQuery::default()
        };
        let selected = client.jobs().list(&query).await?.current_job_id;
        selected.ok_or_else(|| Failure::Usage(NO_JOB.to_owned()))
    }
}

const NO_JOB: &str =
    "which job? name its id, set LOGIST_JOB_ID, or select one with 'switchboard job select ID'";

/// A decision that may say why.
#[derive(Debug, ClapArgs)]
struct Decision {
    #[command(flatten)]
    which: Which,
    /// Reason, kept in the job's history
    #[arg(long, short, value_name = "TEXT")]
    reason: Option<String>,
}

impl Decision {
    async fn make(
        self,
        context: &mut Context,
        act: impl AsyncFn(&Client, &str, &SteerJobRequest) -> Result<JobChangedResponse, Error>,
    ) -> Result<(), Failure> {
        let why = SteerJobRequest {
            reason: self.reason,
        };
        let act = async |client: &Client, id: &str| act(client, id, &why).await;
        decide(self.which, context, act).await
    }
}

/// Decides something about a job, and says what became of it.
async fn decide(
    which: Which,
    context: &mut Context,
    act: impl AsyncFn(&Client, &str) -> Result<JobChangedResponse, Error>,
) -> Result<(), Failure> {
    let client = context.client()?;
    let id = which.id(&client).await?;
    let answer = act(&client, &id).await?;
    Ok(changed(&mut context.screen, &answer)?)
}

/// What became of a job: the answer as JSON, or a sentence with the next step.
fn changed(screen: &mut Screen, answer: &JobChangedResponse) -> io::Result<()> {
    if screen.json() {
        return screen.value(answer);
    }
    let (id, status) = (clean(&answer.job.job_id), &answer.job.status);
    screen.line(format_args!("job {id} is {}", painted(status)))?;
    hint(screen, &id, status)
}

/// What a person can do next.
fn hint(screen: &mut Screen, id: &str, status: &str) -> io::Result<()> {
    match JobState::parse(status).and_then(next_step) {
        Some(step) => screen.line(step.replace("ID", &clean(id))),
        None => Ok(()),
    }
}

/// The next step of a job that waits for a person, for the job ID.
fn next_step(state: JobState) -> Option<&'static str> {
    Some(match state {
        JobState::Draft => "begin it with 'switchboard job run ID'",
        JobState::ApprovalRequired => {
            "accept its work with 'switchboard job approve ID', or send it back with 'switchboard job reject ID --guidance TEXT'"
        }
        JobState::InterventionRequired => {
            "look at it with 'switchboard job chat ID', then 'switchboard job resubmit ID --guidance TEXT', or 'switchboard job cancel ID'"
        }
        JobState::HaltedCost => {
            "go on with 'switchboard job resubmit ID --cost CENTS', a limit above what was spent"
        }
        JobState::HaltedTime => {
            "go on with 'switchboard job resubmit ID --minutes N', a limit above what was used"
        }
        JobState::HaltedIteration => {
            "go on with 'switchboard job resubmit ID --iterations N', a limit above what was used"
        }
        JobState::Suspended => {
            "go on with 'switchboard job run ID', or let it go on by itself with 'switchboard job resume ID'"
        }
        JobState::Pending
        | JobState::Running
        | JobState::ReviewRequired
        | JobState::Reviewing
        | JobState::Success
        | JobState::Canceled => return None,
    })
}

fn tone(status: &str) -> Tone {
    match JobState::parse(status) {
        None | Some(JobState::Draft | JobState::Canceled | JobState::Suspended) => Tone::Dim,
        Some(JobState::Pending | JobState::ReviewRequired) => Tone::Plain,
        Some(JobState::Running | JobState::Reviewing) => Tone::Busy,
        Some(JobState::Success) => Tone::Good,
        Some(
            JobState::ApprovalRequired
            | JobState::InterventionRequired
            | JobState::HaltedCost
            | JobState::HaltedTime
            | JobState::HaltedIteration,
        ) => Tone::Warn,
    }
}

fn painted(status: &str) -> String {
    paint(clean(status), tone(status))
}

fn state(status: &str) -> Cell {
    toned(status, tone(status))
}

/// What an agent's answer came to.
fn outcome(one: &Exchanged) -> &str {
    let new = one.response.new_status.as_deref();
    one.response.halted.as_deref().or(new).unwrap_or_default()
}

/// Cents, as dollars.
fn dollars(cents: f64) -> String {
    format!("${:.2}", cents / 100.0)
}

/// A duration in the unit that fits: `0.4s`, `12s`, `5m`, `1.5h`.
fn took(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1}s"),
        ..600.0 => format!("{seconds:.0}s"),
        ..36_000.0 => format!("{:.0}m", seconds / 60.0),
        _ => format!("{:.1}h", seconds / 3600.0),
    }
}

/// The whole history of a job behind a sequence, page by page.
async fn exchanges(client: &Client, id: &str, after: u64) -> Result<JobHistoryPage, Error> {
    let mut query = JobHistoryQuery {
        after: Some(after),
        limit: None,
    };
    let mut all = client.jobs().history(id, &query).await?;
    while let Some(next) = all.next {
        query.after = Some(next);
        let later = client.jobs().history(id, &query).await?;
        all.interactions.extend(later.interactions);
        all.next = later.next;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_person_has_a_next_step() {
        let waits = "DRAFT APPROVAL_REQUIRED INTERVENTION_REQUIRED SUSPENDED HALTED_COST HALTED_TIME HALTED_ITERATION";
        let has_one: Vec<&str> = JobState::ALL
            .iter()
            .filter(|state| next_step(**state).is_some())
            .map(|state| state.as_str())
            .collect();
        let mut waits: Vec<&str> = waits.split(' ').collect();
        waits.sort_by_key(|word| JobState::WORDS.iter().position(|known| known == word));
        assert_eq!(has_one, waits);
    }

    #[test]
    fn durations_and_costs_are_short() {
        for (seconds, text) in [
            (0.42, "0.4s"),
            (59.6, "60s"),
            (900.0, "15m"),
            (36_000.0, "10.0h"),
        ] {
            assert_eq!(took(seconds), text);
        }
        assert_eq!(
            (dollars(1.0), dollars(1250.0)),
            ("$0.01".to_owned(), "$12.50".to_owned())
        );
    }
}
