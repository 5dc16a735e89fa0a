//! `switchboard job chat`: the exchanges with agents as a conversation.

use clap::Args as ClapArgs;
use serde_json::Value;
use switchboard_wire::logist::history::Exchanged;

use super::{Which, dollars, exchanges, outcome, painted, took};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Tone, clean, paint};

/// Show the exchanges with agents as a conversation
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Where a response was not valid, what the agent printed is shown as it came.

Example:
  switchboard job chat parser --last 2")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Only the last exchanges
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let id = args.which.id(&client).await?;
    let mut history = exchanges(&client, &id, 0).await?.interactions;
    if let Some(last) = args.last {
        history.drain(..history.len().saturating_sub(last));
    }
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&history)?);
    }
    if history.is_empty() {
        let id = clean(&id);
        return Ok(screen.line(format_args!("Job '{id}' has no execution history"))?);
    }
    for one in &history {
        print(screen, one)?;
    }
    Ok(())
}

fn print(screen: &mut Screen, one: &Exchanged) -> std::io::Result<()> {
    let (by, response) = (&one.request.given.metadata, &one.response);
    let heading = format!("#{} {} to {}:", one.sequence, by.phase, by.role);
    screen.line(paint(clean(&heading), Tone::Busy))?;
    let asked = asked(&one.request.prompt);
    indented(screen, &asked)?;
    let action = &response.action;
    let heading = format!("#{} {}: {action}", one.sequence, by.role);
    screen.line(format_args!(
        "{} → {} ({}, {})",
        paint(clean(&heading), Tone::Good),
        painted(outcome(one)),
        dollars(response.cost_usd * 100.0),
        took(response.execution_time_seconds),
    ))?;
    if let Some(why) = &response.error {
        screen.line(paint(format_args!("  {}", clean(why)), Tone::Bad))?;
        indented(screen, &response.raw_response)?;
    } else {
        indented(screen, &response.summary_for_supervisor)?;
    }
    if !response.evidence_files.is_empty() {
        let files = response.evidence_files.join(", ");
        screen.line(paint(format_args!("  files: {}", clean(&files)), Tone::Dim))?;
    }
    screen.line("")
}

/// What a request asks for; one that cannot be read is shown as it is.
fn asked(prompt: &str) -> String {
    let request: Option<Value> = serde_json::from_str(prompt).ok();
    let task = request
        .as_ref()
        .and_then(|request| request["task_description"].as_str());
    task.unwrap_or(prompt).to_owned()
}

fn indented(screen: &mut Screen, text: &str) -> std::io::Result<()> {
    for line in clean(text).lines() {
        screen.line(format_args!("  {line}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn of_a_request_the_task_is_shown_and_else_all_of_it() {
        assert_eq!(
            asked(r#"{"task_description":"do it","job_id":"j"}"#),
            "do it"
        );
        assert_eq!(asked("sealed:AAAA"), "sealed:AAAA");
    }
}
