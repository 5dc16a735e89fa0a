//! `switchboard bus …`: the bus from a terminal. One file per command.

mod call;
mod failed;
mod reach;
mod send;
mod show;
mod status;
mod tail;
mod worker;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Workers and operators connect to the bus over TCP and send one JSON object per line.
With mutual TLS the certificate proves the identity. With auth = \"hmac\" the hello is signed with --token or with the
key of the hub on this machine.

Examples:
  switchboard bus status                      the director, its workers and its queue
  switchboard bus tail                        what goes over the bus, as it happens
  switchboard bus worker                      a small worker, for trying it out
  switchboard bus send pause --reason deploy  stop handing out work";

/// Commands about the bus.
#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::Args),
    Tail(Box<tail::Args>),
    Worker(Box<worker::Args>),
    Send(Box<send::Args>),
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Status(args) => status::run(args, context).await,
            Command::Tail(args) => tail::run(*args, context).await,
            Command::Worker(args) => worker::run(*args, context).await,
            Command::Send(args) => send::run(*args, context).await,
        }
    }
}
