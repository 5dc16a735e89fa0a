//! `switchboard gate …`: four sign-offs before a restart.

use std::path::Path;
use std::process::{Command as Program, Stdio};

use clap::{Args as ClapArgs, Subcommand};
use switchboard_client::jetpack::{GateResponse, GateStep, OpenGateRequest, SignGateRequest};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, cell, clean, toned};
use crate::show::{now, relative};
use crate::words::one_of;

pub const EXAMPLES: &str = "\
Before a restart the builder signs 'tests', the architect 'verified', the oracle 'risk' and then 'docs', in this order
and for one commit. Another commit, or opening the gate again, clears all of them. Uncommitted work is refused.

Examples:
  switchboard gate open
  switchboard gate sign tests --role builder
  switchboard gate status";

/// Commands about the gate before a restart.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open the gate for the current commit; earlier sign-offs are cleared
    #[command(after_help = "Example:\n  switchboard gate open")]
    Open,
    Sign(Sign),
    /// Show what is signed and what is missing; exit code 1 until everything is signed
    #[command(after_help = "Example:\n  switchboard gate status")]
    Status,
}

/// Sign a step for the current commit
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard gate sign verified --role architect --note 'read every line'")]
pub struct Sign {
    /// What is signed
    #[arg(value_parser = one_of::<GateStep>(GateStep::WORDS))]
    step: GateStep,
    /// Who signs [default: SQUIDRUN_ROLE]
    #[arg(long, value_name = "ROLE", env = "SQUIDRUN_ROLE")]
    role: String,
    /// What to know about it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl Command {
    pub async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let client = context.client()?;
        match self {
            Command::Status => {
                let answer = client.gate().await?;
                let is_done = answer.gate.as_ref().is_some_and(|gate| gate.next.is_none());
                print(&answer, context)?;
                match is_done {
                    true => Ok(()),
                    false => Err(Failure::Failed("the gate is not passed".to_owned())),
                }
            }
            Command::Open => {
                let commit = committed(&context.here)?;
                let answer = client.open_gate(&OpenGateRequest { commit }).await?;
                print(&answer, context)
            }
            Command::Sign(sign) => {
                let request = SignGateRequest {
                    agent_id: sign.role,
                    step: sign.step,
                    commit: committed(&context.here)?,
                    note: sign.note,
                };
                let answer = client.sign_gate(&request).await?;
                print(&answer, context)
            }
        }
    }
}

/// The commit of the worktree around here, if nothing is left to commit.
fn committed(here: &Path) -> Result<String, Failure> {
    let status = git(here, &["status", "--porcelain"])?;
    if let Some(first) = status.lines().next() {
        return Err(Failure::Failed(format!(
            "the worktree has uncommitted changes, such as '{}'; commit first",
            clean(first.trim())
        )));
    }
    Ok(git(here, &["rev-parse", "HEAD"])?.trim().to_owned())
}

fn git(here: &Path, words: &[&str]) -> Result<String, Failure> {
    let output = Program::new("git")
        .args(words)
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Failed(format!("git cannot be run: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Failure::Failed(format!(
            "git {}: {}",
            words.join(" "),
            clean(String::from_utf8_lossy(&output.stderr).trim())
        ))),
    }
}

fn print(answer: &GateResponse, context: &mut Context) -> Result<(), Failure> {
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(answer)?);
    }
    let Some(gate) = &answer.gate else {
        return Ok(screen.line("no gate is open; open one with 'switchboard gate open'")?);
    };
    let now = now();
    let mut table = Table::new(["STEP", "SIGNED", "BY", "NOTE"], "");
    for word in GateStep::WORDS {
        let signed = gate.signed.iter().find(|it| it.step.as_str() == *word);
        match signed {
            Some(it) => table.row([
                cell(word),
                toned(relative(it.at, now), Tone::Good),
                cell(&it.by),
                cell(&it.note),
            ]),
            None => table.row([cell(word), toned("no", Tone::Dim), cell(""), cell("")]),
        }
    }
    screen.table(&table)?;
    let commit = clean(gate.commit.get(..12).unwrap_or(&gate.commit)).into_owned();
    let line = match (gate.next, &gate.next_by) {
        (Some(step), Some(by)) => format!("next for commit {commit}: '{step}', signed by {by}"),
        _ => format!("commit {commit} may be restarted"),
    };
    Ok(screen.line(line)?)
}
