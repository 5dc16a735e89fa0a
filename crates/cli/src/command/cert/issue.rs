//! `switchboard cert issue`: a key and a certificate for a worker or an operator.

use clap::Args as ClapArgs;
use switchboard_hub::bus::authority::{Existing, Order, Registrar, Role};

use super::{Making, failed, named, show_issued, today};
use crate::context::Context;
use crate::failure::Failure;
use crate::words::one_of;

/// Create a key and a certificate for a worker or an operator
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Writes ID.pem, ID.key and ca.pem. On the bus its holder must use this id as sender.id, and this role.
An id may have several valid certificates, so that it can switch to a new one without an interruption.

Examples:
  switchboard cert issue worker-3
  switchboard cert issue ann --role operator --days 30 --out ./ann
  switchboard cert issue worker-3 --json | jq -r .files.key")]
pub struct Args {
    /// The sender.id of its holder
    id: String,
    /// The role of its holder
    #[arg(long, default_value = "worker", value_parser = one_of::<Role>(Role::WORDS))]
    role: Role,
    #[command(flatten)]
    making: Making,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let name = named(&args.id, args.role)?;
    let data_dir = context.data_dir();
    let out = args.making.out(&context.here);
    let mut registrar = Registrar::open(&data_dir, today()).map_err(failed)?;
    let order = Order {
        name: &name,
        role: args.role,
        lasts: args.making.lasts(),
        out: out.as_deref(),
        existing: Existing::Refuse,
    };
    let issued = registrar.issue(&order).map_err(failed)?;
    show_issued(&issued, &[], &mut context.screen)
}
