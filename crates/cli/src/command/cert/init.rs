//! `switchboard cert init`: makes the authority and the director's certificate, or says what is there.

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_hub::bus::authority::{Found, Overview, Registrar};

use super::{Own, Place, failed, today, until};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, paint};

/// Make the authority and the director's certificate
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Doing it again changes nothing, except that a director's certificate that is missing, ends soon or lacks a name is made anew. The authority's key (bus/ca.key in the data directory) is the one secret that everything rests on: back it up, show it to nobody.

Examples:
  switchboard cert init
  switchboard cert init --name bus.example.org --name 10.0.0.5      (for clients that compare names)")]
pub struct Args {
    /// A name or address that workers call the director by; may be repeated
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    #[command(flatten)]
    place: Place,
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
    let data_dir = args.place.data_dir(&context.here);
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
        "authority {} {}, good until {}",
        authority.serial,
        became(begun.authority),
        until(authority.not_after)
    ))?;
    screen.line(format_args!(
        "director's certificate {} {}, good until {}",
        seen.director.serial,
        became(begun.director),
        until(seen.director.not_after)
    ))?;
    screen.line(format_args!("it is called {}", seen.hosts.join(", ")))?;
    if lost_list {
        let text = "The list of certificates was missing and begins anew: nobody has one that counts; issue them again.";
        screen.line(paint(text, Tone::Warn))?;
    }
    if begun.authority == Found::Made {
        screen.line("")?;
        screen.line("Next: 'switchboard cert issue WORKER' for each worker, and security = \"mTLS\" under [agent_bus].")?;
    }
    Ok(())
}

fn became(found: Found) -> &'static str {
    match found {
        Found::Made => "was made",
        Found::Replaced => "was made anew",
        Found::There => "is there",
    }
}
