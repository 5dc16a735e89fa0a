//! `switchboard cert rotate`: new keys for old, of a worker, the director or the authority itself.

use std::path::Path;

use clap::{ArgGroup, Args as ClapArgs};
use serde::Serialize;
use switchboard_hub::bus::authority::{Existing, Old, Order, Overview, Registrar, Role};

use super::{Making, Own, failed, named, show_issued, today, until};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, paint};
use crate::words::one_of;

/// Replace the key and certificate of an id, of the director or of the authority
#[derive(Debug, ClapArgs)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true).args(["id", "director", "authority", "drop_old"])),
    after_help = "\
ID: new files replace those that 'issue' wrote; the old certificate stays valid until it expires, unless --revoke-old.

--director: new connections get the new certificate; open ones are not interrupted.

--authority: a new authority signs from now on. Both sides still trust the previous one until it expires, or until --drop-old once everyone has a new certificate. If its key leaked, --authority --drop-old locks everyone out until they have new certificates and the new ca.pem.

Examples:
  switchboard cert rotate worker-3 --revoke-old
  switchboard cert rotate --director
  switchboard cert rotate --authority
  switchboard cert rotate --drop-old"
)]
pub struct Args {
    /// The id to create a new certificate for
    #[arg(conflicts_with_all = ["director", "authority", "drop_old"])]
    id: Option<String>,
    /// Create a new certificate for the director
    #[arg(long, conflicts_with_all = ["authority", "drop_old"])]
    director: bool,
    /// Create a new authority
    #[arg(long)]
    authority: bool,
    /// Stop trusting older authorities, and everything they signed
    #[arg(long)]
    drop_old: bool,
    /// Revoke the id's other certificates at once
    #[arg(long)]
    revoke_old: bool,
    /// Role of the id [default: unchanged]
    #[arg(long, value_parser = one_of::<Role>(Role::WORDS))]
    role: Option<Role>,
    #[command(flatten)]
    making: Making,
}

impl Args {
    /// Clap forgets what an argument requires once another excludes that.
    fn has_what_is_for_ids(&self) -> bool {
        let Making { days, out } = &self.making;
        self.revoke_old || self.role.is_some() || days.is_some() || out.is_some()
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    success: bool,
    authorities: Vec<Own<'a>>,
    director: Own<'a>,
    /// Live certificates that no trusted authority signed.
    orphaned: usize,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    if args.id.is_none() && args.has_what_is_for_ids() {
        return Err(Failure::Usage(
            "--days, --out, --role and --revoke-old are valid only with an id; see 'switchboard cert rotate --help'".to_owned(),
        ));
    }
    let data_dir = context.data_dir();
    let mut registrar = Registrar::open(&data_dir, today()).map_err(failed)?;
    if let Some(id) = &args.id {
        return renew(args, id, registrar, context);
    }
    let done = match (args.authority, args.drop_old) {
        (true, true) => registrar.rotate_authority(Old::Drop),
        (true, false) => registrar.rotate_authority(Old::Keep),
        (false, true) => registrar.drop_old().map(|_| ()),
        (false, false) => registrar.rotate_director(),
    };
    done.map_err(failed)?;
    let orphaned = registrar.orphans();
    drop(registrar);
    report(args, &data_dir, orphaned, context)
}

/// A new certificate for an id that had one.
fn renew(
    args: &Args,
    id: &str,
    mut registrar: Registrar,
    context: &mut Context,
) -> Result<(), Failure> {
    let name = named(id, args.role.unwrap_or(Role::Operator))?;
    let Some(before) = registrar.role_of(&name) else {
        return Err(Failure::Failed(format!(
            "{id} never had a certificate; create one with 'switchboard cert issue {id}'"
        )));
    };
    let out = args.making.out(&context.here);
    let order = Order {
        name: &name,
        role: args.role.unwrap_or(before),
        lasts: args.making.lasts(),
        out: out.as_deref(),
        existing: Existing::Replace,
    };
    let issued = registrar.issue(&order).map_err(failed)?;
    let revoked = if args.revoke_old {
        for serial in &issued.also_live {
            let reason = Some("replaced by a new one");
            registrar.revoke(serial.as_str(), reason).map_err(failed)?;
        }
        issued.also_live.as_slice()
    } else {
        &[]
    };
    show_issued(&issued, revoked, &mut context.screen)
}

fn report(
    args: &Args,
    data_dir: &Path,
    orphaned: usize,
    context: &mut Context,
) -> Result<(), Failure> {
    let seen = Overview::read(data_dir, today()).map_err(failed)?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&Report {
            success: true,
            authorities: seen.authorities.iter().map(Own::from).collect(),
            director: Own::from(&seen.director),
            orphaned,
        })?);
    }
    let (current, older) = seen
        .authorities
        .split_first()
        .expect("an authority was opened");
    if args.authority {
        screen.line(format_args!(
            "authority {} signs from now on, valid until {}",
            current.serial,
            until(current.not_after)
        ))?;
    }
    if args.authority || args.director {
        screen.line(format_args!(
            "new connections get the director's certificate {}, valid until {}",
            seen.director.serial,
            until(seen.director.not_after)
        ))?;
    }
    for card in older {
        screen.line(format_args!(
            "authority {} stays trusted until {}",
            card.serial,
            until(card.not_after)
        ))?;
    }
    if args.drop_old {
        screen.line(format_args!(
            "only authority {} is trusted now",
            current.serial
        ))?;
    } else if args.authority {
        screen.line("Give each worker a new certificate with 'switchboard cert rotate ID', then stop trusting the old authority with 'switchboard cert rotate --drop-old'.")?;
    }
    if orphaned > 0 && (args.authority || args.drop_old) {
        let text = format!(
            "Certificates of an authority that is no longer trusted: {orphaned}; replace them with 'switchboard cert rotate ID'."
        );
        screen.line(paint(text, Tone::Warn))?;
    }
    Ok(())
}
