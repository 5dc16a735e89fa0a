//! `switchboard bus send`: an operator's command, and what became of it.

use clap::{Args as ClapArgs, ValueEnum};
use switchboard_wire::agentbus::OperatorOrder;
use switchboard_wire::agentbus::message::{OperatorCommand, Release};

use super::call::Call;
use super::failed::failed;
use super::reach::Door;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;

/// Send the director a command
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Commands:
  pause             stop handing out work until 'resume'; running tasks continue
  resume            hand out work again
  cooldown          stop handing out work for a while
  snapshot          ask for a snapshot
  shutdown-worker   ask one worker to shut down
  release           set the release that is under way

Examples:
  switchboard bus send pause --reason 'deploying'
  switchboard bus send cooldown --seconds 300 --reason 'GitHub is down'
  switchboard bus send shutdown-worker --target worker-3
  switchboard bus send release --release 2026.3 --branch release/2026.3 --pr 812")]
pub struct Args {
    /// The command
    command: Word,
    /// The worker that 'shutdown-worker' is for
    #[arg(long, value_name = "WORKER")]
    target: Option<String>,
    /// Reason, shown to others and logged
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Length of a cooldown in seconds [default: 60]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// The release's id
    #[arg(long, value_name = "ID")]
    release: Option<String>,
    /// The release's branch [default: release/ID]
    #[arg(long, value_name = "BRANCH", requires = "release")]
    branch: Option<String>,
    /// The number of the release's pull request
    #[arg(long, value_name = "N", requires = "release")]
    pr: Option<u64>,
    #[command(flatten)]
    door: Door,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Word {
    Pause,
    Resume,
    Cooldown,
    Snapshot,
    ShutdownWorker,
    Release,
}

impl Args {
    fn command(&self) -> Result<OperatorCommand, Failure> {
        let order = match self.command {
            Word::Pause => OperatorOrder::Pause,
            Word::Resume => OperatorOrder::Resume,
            Word::Cooldown => OperatorOrder::Cooldown,
            Word::Snapshot => OperatorOrder::Snapshot,
            Word::ShutdownWorker => OperatorOrder::ShutdownWorker,
            Word::Release => OperatorOrder::Release,
        };
        let only = |option: &str, given: bool, word: Word| match (given, self.command == word) {
            (true, false) => Err(Failure::Usage(format!(
                "{option} is valid only with '{}'",
                name(word)
            ))),
            (true, true) | (false, _) => Ok(()),
        };
        only("--target", self.target.is_some(), Word::ShutdownWorker)?;
        only("--seconds", self.seconds.is_some(), Word::Cooldown)?;
        only("--release", self.release.is_some(), Word::Release)?;
        let missing = match self.command {
            Word::ShutdownWorker if self.target.is_none() => Some("--target WORKER"),
            Word::Release if self.release.is_none() => Some("--release ID"),
            Word::Pause
            | Word::Resume
            | Word::Cooldown
            | Word::Snapshot
            | Word::ShutdownWorker
            | Word::Release => None,
        };
        if let Some(missing) = missing {
            let word = name(self.command);
            return Err(Failure::Usage(format!("'{word}' requires {missing}")));
        }
        let release = self.release.as_ref().map(|id| Release {
            release_id: id.clone(),
            release_branch: self
                .branch
                .clone()
                .unwrap_or_else(|| format!("release/{id}")),
            release_pr_number: self.pr,
        });
        Ok(OperatorCommand {
            target: self.target.clone(),
            seconds: self.seconds,
            release,
            ..OperatorCommand::plain(order, &self.reason)
        })
    }
}

fn name(word: Word) -> String {
    let value = word.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let command = args.command()?;
    let call = Call::begin(&args.door, context).await?;
    let answered = call.operator.command(command).await;
    let ack = answered.map_err(|error| failed(&error, &call.reach))?;
    call.operator.close().await;
    if !ack.ok {
        return Err(Failure::Failed(format!(
            "the director refused: {}",
            clean(&ack.message)
        )));
    }
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&ack)?);
    }
    Ok(screen.line(clean(&ack.message))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn command(line: &str) -> Result<OperatorCommand, Failure> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().args.command()
    }

    #[test]
    fn options_go_with_their_command() {
        let release = command("release --release 2026.3 --pr 812").unwrap();
        let release = release.release.unwrap();
        assert_eq!(release.release_branch, "release/2026.3");
        assert_eq!(release.release_pr_number, Some(812));
        assert_eq!(command("cooldown --seconds 5").unwrap().seconds, Some(5));
        let target = command("shutdown-worker --target w").unwrap().target;
        assert_eq!(target.as_deref(), Some("w"));
        for line in [
            "pause --target w",
            "pause --seconds 5",
            "resume --release 1",
            "shutdown-worker",
            "release",
        ] {
            assert!(matches!(command(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
