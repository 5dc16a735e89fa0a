//! `switchboard job resubmit`: a job that is stuck or over a limit goes on.

use clap::Args as ClapArgs;
use switchboard_wire::logist::http::ResubmitJobRequest;

use super::{Which, decide};
use crate::context::Context;
use crate::failure::Failure;

/// Let a job that is stuck or over a limit go on
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A job over a limit goes on where it was kept, once the limit is above what was used up.

Examples:
  switchboard job resubmit parser --guidance 'the grammar is in docs/grammar.md'
  switchboard job resubmit parser --cost 2500 --minutes 120")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// What the next agent is told with its request
    #[arg(long, short, value_name = "TEXT")]
    guidance: Option<String>,
    #[command(flatten)]
    limits: Limits,
}

/// New limits; those that are not named stay.
#[derive(Debug, ClapArgs)]
pub struct Limits {
    /// New limit of cost for the whole job, in cents
    #[arg(long, value_name = "CENTS")]
    pub cost: Option<f64>,
    /// New limit of time for the whole job
    #[arg(long, value_name = "N")]
    pub minutes: Option<f64>,
    /// New limit of agent runs for the whole job
    #[arg(long, value_name = "N")]
    pub iterations: Option<u32>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let request = ResubmitJobRequest {
        guidance: args.guidance,
        cost_threshold: args.limits.cost,
        time_threshold_minutes: args.limits.minutes,
        max_iterations: args.limits.iterations,
    };
    decide(args.which, context, async |client, id| {
        client.jobs().resubmit(id, &request).await
    })
    .await
}
