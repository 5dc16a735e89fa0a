//! `switchboard lease release`: ends a lease, whoever holds it.

use clap::Args as ClapArgs;
use switchboard_client::Client;
use switchboard_client::jetpack::{LeaseQuery, ReleaseLeaseRequest};

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::clean;

/// End a lease, whoever holds it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard lease release src/main.rs")]
pub struct Args {
    /// The path, as 'switchboard lease list' shows it
    path: String,
    /// The agent that holds it [default: the current holder]
    #[arg(long, short, value_name = "AGENT")]
    agent: Option<String>,
}

/// Most leases that are looked through for the holder of one.
const LEASES_MAX: u32 = 100_000;

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let agent_id = match args.agent {
        Some(agent) => agent,
        None => holder(&client, &args.path).await?,
    };
    let request = ReleaseLeaseRequest {
        agent_id,
        file_path: args.path,
        fencing_token: None,
    };
    let answer = client.leases().release(&request).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    let (path, agent) = (clean(&request.file_path), clean(&request.agent_id));
    if answer.released {
        Ok(screen.line(format_args!("{path} is free; {agent} held it"))?)
    } else {
        Ok(screen.line(format_args!("{path} was not leased by {agent}"))?)
    }
}

async fn holder(client: &Client, path: &str) -> Result<String, Failure> {
    let page = gather(LEASES_MAX, async |after, limit| {
        client
            .leases()
            .list(&LeaseQuery {
                after,
                limit: Some(limit),
                ..LeaseQuery::default()
            })
            .await
    })
    .await?;
    let wanted = path.trim_start_matches("./").trim_end_matches('/');
    let lease = page
        .leases
        .into_iter()
        .find(|lease| lease.file_path == wanted || lease.file_path == path);
    lease.map(|lease| lease.agent_id).ok_or_else(|| {
        Failure::Failed(format!(
            "nobody holds a lease on {path}; see 'switchboard lease list'"
        ))
    })
}
