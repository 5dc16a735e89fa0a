//! `switchboard task add`: one new task.

use std::io::Read;

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{NewTask, OnDependencyFailure, Priority, TaskType};

use super::changed;
use crate::context::Context;
use crate::failure::Failure;
use crate::import::minutes;
use crate::words::one_of;

/// Longest description that is read from stdin.
const DESCRIPTION_MAX: u64 = 1024 * 1024;

/// Add one task
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard task add 'Fix the parser'
  switchboard task add 'Write the docs' --priority low --skill writing --after 12
  git log -1 --format=%b | switchboard task add 'Review the last commit' --type review --description -")]
pub struct Args {
    /// What is to be done, in one line
    title: String,
    /// More about it; '-' reads it from stdin
    #[arg(long, short, value_name = "TEXT")]
    description: Option<String>,
    /// How soon it is wanted
    #[arg(long, short, value_parser = one_of::<Priority>(Priority::WORDS))]
    priority: Option<Priority>,
    /// The kind of work
    #[arg(long = "type", short = 't', value_name = "TYPE", value_parser = one_of::<TaskType>(TaskType::WORDS))]
    kind: Option<TaskType>,
    /// A skill that the agent must have; may be repeated
    #[arg(long = "skill", short, value_name = "SKILL", value_delimiter = ',')]
    skills: Vec<String>,
    /// A task that has to be completed first, by id or number; may be repeated
    #[arg(long = "after", short, value_name = "TASK", value_delimiter = ',')]
    after: Vec<String>,
    /// A file that it will touch; may be repeated
    #[arg(long = "file", short, value_name = "PATH")]
    files: Vec<String>,
    /// How long it may take: 30m, 2h, 1h30m or minutes
    #[arg(long, short, value_name = "TIME", value_parser = minutes)]
    estimate: Option<u32>,
    /// How often it is tried again after a failure
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// The branch to work on
    #[arg(long, short, value_name = "BRANCH")]
    branch: Option<String>,
    /// An agent that may claim it [default: any]; may be repeated
    #[arg(long = "for", value_name = "AGENT", value_delimiter = ',')]
    audience: Vec<String>,
    /// What becomes of it when a task it waits for fails for good
    #[arg(long, value_name = "WHAT", value_parser = one_of::<OnDependencyFailure>(OnDependencyFailure::WORDS))]
    on_dependency_failure: Option<OnDependencyFailure>,
    /// An id of your choice [default: made by the hub]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// An id that ties it to other things
    #[arg(long, value_name = "ID")]
    corr_id: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let mut dependencies = Vec::new();
    for task in &args.after {
        dependencies.push(client.tasks().get(task).await?.task.id);
    }
    let task = NewTask {
        id: args.id,
        title: args.title,
        description: args.description.map(description).transpose()?,
        priority: args.priority,
        kind: args.kind,
        required_skills: args.skills,
        dependencies,
        files: args.files,
        estimated_minutes: args.estimate,
        max_retries: args.max_retries,
        branch: args.branch,
        audience: args.audience,
        on_dependency_failure: args.on_dependency_failure,
        corr_id: args.corr_id,
    };
    let answer = client.tasks().create(&task).await?;
    Ok(changed(&mut context.screen, &answer)?)
}

fn description(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut read = String::new();
    std::io::stdin()
        .take(DESCRIPTION_MAX)
        .read_to_string(&mut read)
        .map_err(|error| {
            Failure::Failed(format!(
                "the description cannot be read from stdin: {error}"
            ))
        })?;
    Ok(read.trim_end().to_owned())
}
