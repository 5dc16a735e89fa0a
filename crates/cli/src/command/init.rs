//! `switchboard init`
use crate::context::Context;
use crate::failure::Failure;
use clap::Args as ClapArgs;
/// x
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[arg(long)]
    force: bool,
}
pub fn run(_: Args, _: &mut Context) -> Result<(), Failure> {
    Ok(())
}
