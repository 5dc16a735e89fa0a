//! `switchboard task import`: many tasks from a file. All is checked before anything is sent.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use switchboard_client::Client;
use switchboard_client::jetpack::{CreateTasksRequest, NewTask, TaskStatus, TasksResponse};

use crate::context::Context;
use crate::failure::Failure;
use crate::import::{CHUNK_MAX, FILE_MAX, Format, Plan, Problem, detect, plan, read};
use crate::screen::clean;

/// Add many tasks from a file: JSON, NDJSON or a Markdown list
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The whole file is checked first. If a line is wrong, the error names it and nothing is imported.

JSON     an array of tasks, {\"tasks\": [...]}, or one task; NDJSON is one task per line:
           {\"id\":\"parse\",\"title\":\"Parse it\",\"priority\":\"high\",\"requiredSkills\":[\"rust\"]}
           {\"title\":\"Print it\",\"dependencies\":[\"parse\"],\"estimatedMinutes\":30}
Markdown every list item is a task; [x] items are done and skipped:
           - [ ] Parse the config p:high #rust ~30m id:parse
             Indented text is the description.
             - [ ] Read TOML files
           - Write the docs @builder-2 after:parse type:documentation
         p:PRIORITY  #SKILL  ~TIME (30m, 2h, 1h30m)  @AGENT (may claim it)  after:TASK[,TASK]
         id:ID  type:TYPE  branch:BRANCH; a backslash keeps a word as it is (\\#rust).
         A nested item inherits priority, skills, type, branch and agents, but not dependencies.
         after: takes an id in this file, or an id or number in the hub.

Examples:
  switchboard task import TODO.md
  switchboard task import plan.json --dry-run
  jq -c '.issues[]' export.json | switchboard task import - --format ndjson")]
pub struct Args {
    /// The file; '-' reads stdin
    file: PathBuf,
    /// Format of the file [default: detected by its name, else by its content]
    #[arg(long, short)]
    format: Option<Format>,
    /// Check the file, print what would be created, and send nothing
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let stdin = args.file == Path::new("-");
    let name = if stdin {
        "stdin".to_owned()
    } else {
        args.file.display().to_string()
    };
    let text = text(&args.file, stdin)
        .map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    let wrong = |problems| Failure::Import {
        file: name.clone(),
        problems,
    };
    let format = args
        .format
        .unwrap_or_else(|| detect((!stdin).then_some(args.file.as_path()), &text));
    let drafts = read(&text, format).map_err(wrong)?;
    let mut plan = plan(drafts).map_err(wrong)?;
    if args.dry_run {
        return preview(plan, &name, context);
    }
    let client = context.client()?;
    let unknown = resolve(&mut plan, &client).await?;
    if !unknown.is_empty() {
        return Err(wrong(unknown));
    }
    let made = send(plan, &client, &name).await?;
    summary(&made, &name, context)
}

fn text(file: &Path, stdin: bool) -> io::Result<String> {
    let source: Box<dyn Read> = if stdin {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file)?)
    };
    let mut text = String::new();
    source.take(FILE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other(format!(
            "it is larger than {FILE_MAX} bytes; split it"
        )));
    }
    Ok(text)
}

fn preview(plan: Plan, name: &str, context: &mut Context) -> Result<(), Failure> {
    let tasks: Vec<NewTask> = plan
        .chunks
        .into_iter()
        .flatten()
        .map(|draft| draft.task)
        .collect();
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&CreateTasksRequest::Many { tasks })?);
    }
    for task in &tasks {
        screen.line(clean(&task.title))?;
    }
    Ok(screen.line(format_args!(
        "{} tasks in {name}; nothing was sent",
        tasks.len()
    ))?)
}

/// Finds what the file waits for in the hub; numbers become ids.
async fn resolve(plan: &mut Plan, client: &Client) -> Result<Vec<Problem>, Failure> {
    let mut problems = Vec::new();
    let mut ids = HashMap::new();
    for (name, line) in &plan.outside {
        match client.tasks().get(name).await {
            Ok(details) => {
                ids.insert(name.clone(), details.task.id);
            }
            Err(error) if error.code() == Some("task_not_found") => {
                problems.push(Problem::at(
                    *line,
                    format!("depends on '{name}', which is neither in the file nor in the hub"),
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for dependency in plan
        .chunks
        .iter_mut()
        .flatten()
        .flat_map(|draft| &mut draft.task.dependencies)
    {
        if let Some(id) = ids.get(dependency) {
            dependency.clone_from(id);
        }
    }
    Ok(problems)
}

/// Sends chunk after chunk; a chunk is made as a whole or not at all.
async fn send(plan: Plan, client: &Client, name: &str) -> Result<TasksResponse, Failure> {
    let total: usize = plan.chunks.iter().map(Vec::len).sum();
    let bar = bar(total);
    let mut made = TasksResponse {
        success: true,
        tasks: Vec::new(),
    };
    for chunk in plan.chunks {
        let first = chunk[0].line;
        let tasks = chunk.into_iter().map(|draft| draft.task).collect();
        match client.tasks().create_many(tasks).await {
            Ok(answer) => made.tasks.extend(answer.tasks),
            Err(error) if made.tasks.is_empty() => return Err(error.into()),
            Err(error) => {
                let done = made.tasks.len();
                let failure = Failure::from(error);
                return Err(Failure::Failed(format!(
                    "{done} of {total} tasks of {name} were imported; those from line {first} on were not: {failure}"
                )));
            }
        }
        bar.set_position(made.tasks.len() as u64);
    }
    bar.finish_and_clear();
    Ok(made)
}

/// A bar for imports of more than one call, on a terminal only.
fn bar(total: usize) -> ProgressBar {
    if total <= CHUNK_MAX || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} tasks")
        .expect("the template is well-formed");
    ProgressBar::new(total as u64).with_style(style)
}

fn summary(made: &TasksResponse, name: &str, context: &mut Context) -> Result<(), Failure> {
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(made)?);
    }
    let tasks = &made.tasks;
    if tasks.is_empty() {
        return Ok(screen.line(format_args!("there is no open task in {name}"))?);
    }
    let ready = tasks
        .iter()
        .filter(|task| task.status == TaskStatus::Ready)
        .count();
    let waiting = tasks.len() - ready;
    let numbers = match (
        tasks.iter().map(|task| task.number).min(),
        tasks.iter().map(|task| task.number).max(),
    ) {
        (Some(first), Some(last)) if first < last => format!(" (#{first} to #{last})"),
        (Some(only), _) => format!(" (#{only})"),
        (None, _) => String::new(),
    };
    Ok(screen.line(format_args!(
        "imported {} tasks from {name}{numbers}: {ready} ready, {waiting} waiting for others",
        tasks.len()
    ))?)
}
