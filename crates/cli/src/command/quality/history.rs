//! `switchboard quality history`: what completions measured, newest first.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::SnapshotQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::page::gather;
use crate::screen::{Table, Tone, cell, toned};
use crate::show::{age, maybe, now};

/// Show the measurements of completed tasks, newest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard quality history
  switchboard quality history --task 12")]
pub struct Args {
    /// Only of this task
    #[arg(long, short, value_name = "TASK")]
    task: Option<String>,
    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let page = gather(args.limit, async |after, limit| {
        client
            .quality()
            .history(&SnapshotQuery {
                task_id: args.task.clone(),
                after,
                limit: Some(limit),
            })
            .await
    })
    .await?;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&page)?);
    }
    let now = now();
    let headings = [
        "AGE", "TASK", "AGENT", "BUILD", "PASSING", "FAILING", "TYPES", "LINT", "WARNINGS",
        "COVERAGE",
    ];
    let mut table = Table::new(headings, "no measurements yet");
    for one in &page.snapshots {
        table.row([
            cell(age(one.recorded_at, now)),
            maybe(one.task_id.as_deref()),
            maybe(one.agent_id.as_deref()),
            if one.build_success {
                toned("works", Tone::Good)
            } else {
                toned("broken", Tone::Bad)
            },
            cell(one.tests_passing),
            cell(one.tests_failing),
            cell(one.type_errors),
            cell(one.lint_errors),
            cell(one.lint_warnings),
            maybe(one.test_coverage.map(|percent| format!("{percent}%"))),
        ]);
    }
    Ok(screen.table(&table)?)
}
