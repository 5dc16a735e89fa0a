//! `switchboard task show`: everything about one task.

use std::io;

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{Attempt, AttemptOutcome, Task, TaskDetails, TaskStatus};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, brief, cell, clean, paint, toned};
use crate::show::{instant, lasted, listed, maybe, now, outcome, priority, task_status, verdict};

/// Show one task, with every attempt at it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Example:
  switchboard task show 12")]
pub struct Args {
    /// Id or number
    task: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let details = context.client()?.tasks().get(&args.task).await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&details)?);
    }
    Ok(print(screen, &details)?)
}

fn print(screen: &mut Screen, details: &TaskDetails) -> io::Result<()> {
    let task = &details.task;
    screen.line(format_args!("#{} {}", task.number, clean(&task.title)))?;
    screen.table(&facts(details))?;
    if let Some(description) = &task.description {
        screen.line("")?;
        for line in clean(description).lines() {
            screen.line(format_args!("  {line}"))?;
        }
    }
    if !details.attempts.is_empty() {
        screen.line("")?;
        screen.table(&attempts(&details.attempts))?;
        for attempt in &details.attempts {
            evidence(screen, attempt)?;
            if let Some(text) = &attempt.details {
                screen.line(paint(
                    format_args!("\ndetails of attempt {}:", attempt.epoch),
                    Tone::Dim,
                ))?;
                screen.line(clean(text))?;
            }
        }
    }
    if let Some(result) = &task.result {
        screen.line(paint("\nresult:", Tone::Dim))?;
        screen.line(clean(&pretty(result.get())))?;
    }
    Ok(())
}

/// What was run to show that it is done.
fn evidence(screen: &mut Screen, attempt: &Attempt) -> io::Result<()> {
    if attempt.evidence.is_empty() {
        return Ok(());
    }
    let heading = format_args!("\nevidence of attempt {}:", attempt.epoch);
    screen.line(paint(heading, Tone::Dim))?;
    let mut table = Table::new(["COMMAND", "EXIT", "TOOK", "COMMIT", "SOURCE"], "");
    for one in &attempt.evidence {
        let tone = if one.exit_code == 0 {
            Tone::Good
        } else {
            Tone::Bad
        };
        table.row([
            cell(brief(&one.command, 80)),
            toned(one.exit_code, tone),
            cell(format_args!("{}ms", one.duration_ms)),
            maybe(one.commit.as_deref().map(|commit| brief(commit, 12))),
            cell(one.source),
        ]);
    }
    screen.table(&table)
}

fn pretty(json: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(json);
    value
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| json.to_owned())
}

fn facts(details: &TaskDetails) -> Table {
    let now = now();
    let task: &Task = &details.task;
    let at = |time: Option<_>| time.map(|time| instant(time, now));
    let mut facts = Table::facts();
    facts.fact("id", cell(&task.id));
    facts.fact("status", task_status(task.status));
    facts.fact("verdict", task.verdict.map(verdict));
    facts.fact("priority", priority(task.priority));
    facts.fact("type", cell(task.kind));
    facts.fact("agent", task.assigned_agent.as_ref().map(cell));
    facts.fact(
        "progress",
        task.progress.as_ref().map(|progress| {
            cell(format_args!(
                "{} {}% {}",
                progress.phase,
                progress.percent_complete,
                brief(&progress.description, 80)
            ))
        }),
    );
    facts.fact("skills", listed(&task.required_skills));
    facts.fact("only for", listed(&task.audience));
    facts.fact("files", listed(&task.files));
    facts.fact("branch", task.branch.as_ref().map(cell));
    facts.fact(
        "estimate",
        task.estimated_minutes
            .map(|minutes| cell(format_args!("{minutes} min"))),
    );
    let took = task.claimed_at.zip(task.completed_at);
    facts.fact("took", took.map(|(from, to)| cell(lasted(from, to))));
    facts.fact("waits for", listed(&task.blockers));
    facts.fact("after", listed(&task.dependencies));
    facts.fact("before", listed(&details.dependants));
    facts.fact("retries", cell(retries(details)));
    facts.fact("next retry", at(task.next_retry_at));
    facts.fact("failed by", listed(&task.previous_agents));
    facts.fact(
        "last error",
        task.last_error.as_ref().map(|text| cell(brief(text, 200))),
    );
    facts.fact("created", at(Some(task.created_at)));
    facts.fact("claimed", at(task.claimed_at));
    facts.fact("started", at(task.started_at));
    facts.fact("completed", at(task.completed_at));
    facts.fact("epoch", cell(task.epoch));
    facts
}

/// The failure that ends a task is counted as well, but no retry follows it.
fn retries(details: &TaskDetails) -> String {
    let task = &details.task;
    let last = details.attempts.last().and_then(|attempt| attempt.outcome);
    let is_last = task.status == TaskStatus::Failed
        && matches!(last, Some(AttemptOutcome::Failed | AttemptOutcome::Crashed));
    let used = task.retry_count.saturating_sub(u32::from(is_last));
    format!(
        "{} of {} used",
        used.min(task.max_retries),
        task.max_retries
    )
}

fn attempts(attempts: &[Attempt]) -> Table {
    let now = now();
    let mut table = Table::new(
        ["ATTEMPT", "AGENT", "OUTCOME", "CLAIMED", "TOOK", "MESSAGE"],
        "",
    );
    for attempt in attempts {
        let end = attempt.ended_at.unwrap_or(now);
        table.row([
            cell(attempt.epoch),
            cell(&attempt.agent_id),
            outcome(attempt.outcome),
            cell(attempt.claimed_at),
            cell(lasted(attempt.claimed_at, end)),
            maybe(attempt.message.as_deref().map(|text| brief(text, 80))),
        ]);
    }
    table
}
