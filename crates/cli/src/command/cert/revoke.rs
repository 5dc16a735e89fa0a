//! `switchboard cert revoke`: ends certificates, and the connections that they opened.

use clap::Args as ClapArgs;
use serde::Serialize;
use switchboard_hub::bus::authority::{Record, Registrar, Role};

use super::{Certificate, failed, today};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Revoke certificates; their holders are disconnected within a second
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
An id revokes all of its live certificates, a serial number (see 'switchboard cert list') only that one.
This cannot be undone, but you can issue the id a new certificate at any time.

Examples:
  switchboard cert revoke worker-3 --reason 'laptop lost'
  switchboard cert revoke 5c1f0a9b3d2e4f60718a")]
pub struct Args {
    /// An id, or a certificate's serial number
    #[arg(value_name = "ID|SERIAL")]
    which: String,
    /// Reason, shown by 'switchboard cert list'
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    success: bool,
    revoked: Vec<Certificate<'a>>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = context.data_dir();
    let mut registrar = Registrar::open(&data_dir, today()).map_err(failed)?;
    let done = registrar.revoke(&args.which, args.reason.as_deref());
    let records: Vec<Record> = done.map_err(failed)?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&Report {
            success: true,
            revoked: records.iter().map(Certificate::from).collect(),
        })?);
    }
    for record in &records {
        screen.line(format_args!(
            "certificate {} of {} {} is revoked",
            record.serial,
            record.role,
            clean(record.name.as_str())
        ))?;
    }
    if let Some(last) = records.last().filter(|last| registrar.is_over(&last.name)) {
        let id = clean(last.name.as_str());
        let role = match last.role {
            Role::Worker => "",
            Role::Operator => " --role operator",
        };
        screen.line(format_args!(
            "\n{id} has no other: it is disconnected within a second. For a new one run 'switchboard cert issue {id}{role}'."
        ))?;
    }
    Ok(())
}
