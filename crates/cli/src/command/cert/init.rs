//! `switchboard cert init`: makes the authority and the director's certificate, or says what is there.

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_hub::bus::authority::{Found, Overview, Registrar};

use super::{Own, failed, today, until};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, paint};

/// Create the certificate authority (CA) and the director's certificate
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It is safe to repeat: it only replaces a director's certificate that is missing, expires soon or lacks a name.
Whoever has the authority's key (bus/ca.key in the data directory) can issue certificates: back it up and keep it secret.

Examples:
  switchboard cert init
  switchboard cert init --name bus.example.org --name 10.0.0.5      (for clients that verify host names)")]
pub struct Args {
    /// A host name or address of the director, as workers use it; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    success: bool,
    made_authority: bool,
    made_director: bool,
    /// The list of what was issued was missing, and begins anew.
    lost_list: bool,
    authority: Own<'a>,
    director: Own<'a>,
    names: &'a [String],
    folder: std::path::PathBuf,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = context.data_dir();
    let (registrar, begun) = Registrar::init(&data_dir, &args.names, today()).map_err(failed)?;
    drop(registrar);
    let seen = Overview::read(&data_dir, today()).map_err(failed)?;
    let authority = seen
        .authorities
        .first()
        .expect("an authority was found or made");
    let lost_list = begun.list == Found::Made && begun.authority == Found::There;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&Report {
            success: true,
            made_authority: begun.authority != Found::There,
            made_director: begun.director != Found::There,
            lost_list,
            authority: Own::from(authority),
            director: Own::from(&seen.director),
            names: &seen.hosts,
            folder: data_dir.join("bus"),
        })?);
    }
    screen.line(format_args!(
        "authority {} {}, valid until {}",
        authority.serial,
        became(begun.authority),
        until(authority.not_after)
    ))?;
    screen.line(format_args!(
        "director's certificate {} {}, valid until {}",
        seen.director.serial,
        became(begun.director),
        until(seen.director.not_after)
    ))?;
    screen.line(format_args!("its host names: {}", seen.hosts.join(", ")))?;
    if lost_list {
        let text = "The list of certificates was missing and is now empty: no certificate issued before is valid; issue them again.";
        screen.line(paint(text, Tone::Warn))?;
    }
    if begun.authority == Found::Made {
        screen.line("")?;
        screen.line("Next: run 'switchboard cert issue WORKER' for each worker, and set security = \"mTLS\" under [agent_bus].")?;
    }
    Ok(())
}

fn became(found: Found) -> &'static str {
    match found {
        Found::Made => "was created",
        Found::Replaced => "was replaced",
        Found::There => "exists",
    }
}
