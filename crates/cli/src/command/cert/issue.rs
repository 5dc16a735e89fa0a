//! `switchboard cert issue`: a key and a certificate for a worker or an operator.

use clap::Args as ClapArgs;
use switchboard_hub::bus::authority::{Existing, Order, Registrar, Role};

use super::{Making, Place, failed, named, show_issued, today};
use crate::context::Context;
use crate::failure::Failure;
use crate::words::one_of;

/// Make a key and a certificate for a worker or an operator
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Writes ID.pem, ID.key and ca.pem. The id is the sender.id that its holder must use on the bus, in that role and no other. An id may have several certificates at a time, so that it can change from one to the next without a gap.

Examples:
  switchboard cert issue worker-3
  switchboard cert issue ann --role operator --days 30 --out ./ann
  switchboard cert issue worker-3 --json | jq -r .files.key")]
pub struct Args {
    /// The sender.id that it is for
    id: String,
    /// What its holder is
    #[arg(long, default_value = "worker", value_parser = one_of::<Role>(Role::WORDS))]
    role: Role,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    place: Place,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let name = named(&args.id, args.role)?;
    let data_dir = args.place.data_dir(&context.here);
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
