//! `switchboard up`
use crate::context::Options;
use crate::failure::Failure;
use clap::Args as ClapArgs;
/// x
#[derive(Debug, ClapArgs)]
pub struct Args {}
pub fn run(_: Box<Args>, _: &Options) -> Result<(), Failure> {
    Ok(())
}
