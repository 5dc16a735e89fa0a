//! `switchboard completions`: what a shell needs to complete our commands.

use clap::{Args as ClapArgs, CommandFactory};
use clap_complete::Shell;

use crate::context::Context;
use crate::failure::Failure;

/// Print a completion script for a shell
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard completions bash > ~/.local/share/bash-completion/completions/switchboard
  switchboard completions zsh > \"${fpath[1]}/_switchboard\"
  switchboard completions fish > ~/.config/fish/completions/switchboard.fish")]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::Cli::command(),
        "switchboard",
        &mut script,
    );
    let script = String::from_utf8_lossy(&script);
    Ok(context.screen.line(script.trim_end())?)
}
