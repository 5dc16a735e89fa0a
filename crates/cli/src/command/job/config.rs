//! `switchboard job config`: what a job is to be is changed.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use switchboard_core::JobState;
use switchboard_wire::logist::http::ChangeJobRequest;

use super::create::read_spec;
use super::resubmit::Limits;
use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;
use crate::words::one_of;

/// Change a job: its text, its limits, its place in the queue, its state
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Only what is named changes. Any state may be set; an agent that works on the job is ended then.

Examples:
  switchboard job config parser --cost 2500 --iterations 80
  switchboard job config parser --rank 0
  switchboard job config parser --status PENDING --phase build
  switchboard job config parser --spec parser.json")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// New description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// New objective
    #[arg(long, value_name = "TEXT")]
    objective: Option<String>,
    #[command(flatten)]
    limits: Limits,
    /// New place in the queue: 0 is the front, -1 the end
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    rank: Option<i64>,
    /// New state
    #[arg(long, value_parser = one_of::<String>(JobState::WORDS))]
    status: Option<String>,
    /// Name of the phase that it is in from now on
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// Take all else from a spec, as 'switchboard job create' reads it; '-' reads stdin
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let spec = args.spec.as_deref().map(read_spec).transpose()?;
    let mut spec = spec.unwrap_or_default();
    spec.job_id = None;
    spec.description = args.description.or(spec.description);
    spec.objective = args.objective.or(spec.objective);
    spec.cost_threshold = args.limits.cost.or(spec.cost_threshold);
    spec.time_threshold_minutes = args.limits.minutes.or(spec.time_threshold_minutes);
    spec.max_iterations = args.limits.iterations.or(spec.max_iterations);
    let request = ChangeJobRequest {
        job_spec: Some(spec).filter(|spec| *spec != Default::default()),
        status: args.status,
        current_phase: args.phase,
        rank: args.rank,
    };
    if request == ChangeJobRequest::default() {
        let why = "nothing to change: name a new --description, --objective, --cost, --minutes, --iterations, --rank, --status, --phase or --spec";
        return Err(Failure::Usage(why.to_owned()));
    }
    decide(args.which, context, async |client, id| {
        client.jobs().change(id, &request).await
    })
    .await
}
