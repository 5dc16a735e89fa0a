//! `switchboard task import`: many tasks from a file. All is checked before anything is sent.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use switchboard_client::Client;
use switchboard_client::jetpack::{
    CreateTasksRequest, NewTask, Priority, Task, TaskStatus, TasksResponse,
};

use crate::context::Context;
use crate::failure::Failure;
use crate::import::{CHUNK_MAX, Format, Plan, Problem, detect, identify, plan, read, text};
use crate::screen::{Table, brief, cell};
use crate::show::{maybe, priority};

/// Longest title in a preview.
const TITLE_MAX: usize = 50;
/// Tasks of a preview that are looked up in the hub.
const LOOKED_UP_MAX: usize = 1000;

/// Add many tasks from a file: JSON, NDJSON or a Markdown list
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The whole file is checked first. If a line is wrong, the error names it and
nothing is imported.
Importing a plan again adds only what is new in it: tasks are known by their id, those without one
by the file and their title.

JSON: an array of tasks, {\"tasks\": [...]}, or one task. NDJSON: one task per line.
  {\"id\":\"parse\",\"title\":\"Parse it\",\"priority\":\"high\",\"requiredSkills\":[\"rust\"]}
  {\"title\":\"Print it\",\"dependencies\":[\"parse\"],\"estimatedMinutes\":30}

Markdown: every list item is a task; [x] items are done and skipped.
  - [ ] Parse the config p:high #rust ~30m id:parse
    Indented text is the description.
    - [ ] Read TOML files
  - Write the docs @builder-2 after:parse type:documentation

Words in a Markdown item:
  p:PRIORITY   #SKILL   id:ID   type:TYPE   branch:BRANCH
  ~TIME        30m, 2h or 1h30m
  @AGENT       may claim it
  after:TASK   a dependency: an id in this file, or an id or number in the hub
  \\#rust       a backslash keeps a word as it is
A nested item inherits priority, skills, type, branch and agents, but not
dependencies.

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
    let text = text(&args.file)
        .map_err(|error| Failure::Failed(format!("{name} cannot be read: {error}")))?;
    let wrong = |problems| Failure::Import {
        file: name.clone(),
        problems,
    };
    let format = args
        .format
        .unwrap_or_else(|| detect((!stdin).then_some(args.file.as_path()), &text));
    let mut drafts = read(&text, format).map_err(wrong)?;
    identify(&mut drafts, &source(&args.file, stdin, &text));
    let mut plan = plan(drafts).map_err(wrong)?;
    let client = match context.client() {
        // What is in the file can be shown without a hub.
        Err(Failure::NoHub(_)) if args.dry_run && plan.outside.is_empty() => None,
        client => Some(client?),
    };
    if let Some(client) = &client {
        let unknown = resolve(&mut plan, client).await?;
        if !unknown.is_empty() {
            return Err(wrong(unknown));
        }
    }
    match client {
        Some(client) if !args.dry_run => {
            let total = plan.chunks.iter().map(Vec::len).sum();
            let made = send(plan, &client, &name).await?;
            summary(&made, total, &name, context)
        }
        client => preview(plan, client.as_ref(), &name, context).await,
    }
}

/// What tells this plan from others: where the file is, or all of what came through a pipe.
fn source(file: &Path, stdin: bool, text: &str) -> String {
    if stdin {
        return text.to_owned();
    }
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    file.to_string_lossy().into_owned()
}

/// Shows what would be made; with a hub also what it has already.
async fn preview(
    plan: Plan,
    client: Option<&Client>,
    name: &str,
    context: &mut Context,
) -> Result<(), Failure> {
    let drafts = plan.chunks.into_iter().flatten();
    let tasks: Vec<NewTask> = drafts.map(|draft| draft.task).collect();
    if context.screen.json() {
        return Ok(context.screen.value(&CreateTasksRequest::Many {
            tasks,
            skip_existing: true,
        })?);
    }
    let mut table = Table::new(
        ["TITLE", "PRIORITY", "SKILLS", "AFTER", "ID", "IN THE HUB"],
        "",
    );
    let mut there = 0;
    for (at, task) in tasks.iter().enumerate() {
        let found = match client.filter(|_| at < LOOKED_UP_MAX) {
            Some(client) => find(client, task).await?,
            None => None,
        };
        there += usize::from(found.is_some());
        table.row([
            cell(brief(&task.title, TITLE_MAX)),
            priority(task.priority.unwrap_or(Priority::Medium)),
            maybe(listed(&task.required_skills)),
            maybe(listed(&task.dependencies)),
            maybe(task.id.as_ref()),
            maybe(found.map(|task| format!("#{} {}", task.number, task.status))),
        ]);
    }
    let screen = &mut context.screen;
    screen.table(&table)?;
    let there = match there {
        0 => String::new(),
        there => format!(", {there} of them there already"),
    };
    Ok(screen.line(format_args!(
        "{} in {name}{there}; nothing was sent",
        counted(tasks.len())
    ))?)
}

fn counted(tasks: usize) -> String {
    match tasks {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    }
}

fn listed(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| items.join(", "))
}

/// The task of this id, if the hub has it.
async fn find(client: &Client, task: &NewTask) -> Result<Option<Task>, Failure> {
    let Some(id) = &task.id else { return Ok(None) };
    match client.tasks().get(id).await {
        Ok(details) => Ok(Some(details.task)),
        Err(error) if error.code() == Some("task_not_found") => Ok(None),
        Err(error) => Err(error.into()),
    }
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
    let mut done = 0;
    let mut made = TasksResponse {
        success: true,
        tasks: Vec::new(),
    };
    for chunk in plan.chunks {
        let first = chunk[0].line;
        let tasks: Vec<NewTask> = chunk.into_iter().map(|draft| draft.task).collect();
        let sent = tasks.len();
        match client.tasks().create_missing(tasks).await {
            Ok(answer) => made.tasks.extend(answer.tasks),
            Err(error) if done == 0 => return Err(error.into()),
            Err(error) => {
                let failure = Failure::from(error);
                return Err(Failure::Failed(format!(
                    "{done} of {total} tasks of {name} were imported; those from line {first} on were not: {failure}"
                )));
            }
        }
        done += sent;
        bar.set_position(done as u64);
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

fn summary(
    made: &TasksResponse,
    total: usize,
    name: &str,
    context: &mut Context,
) -> Result<(), Failure> {
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(made)?);
    }
    let tasks = &made.tasks;
    match (tasks.len(), total) {
        (0, 0) => return Ok(screen.line(format_args!("there is no open task in {name}"))?),
        (0, total) => {
            let tasks = counted(total);
            return Ok(screen.line(format_args!(
                "nothing new in {name}: the hub has its {tasks} already"
            ))?);
        }
        (_, _) => {}
    }
    let there = match total - tasks.len() {
        0 => String::new(),
        there => format!("; the hub has the other {there} already"),
    };
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
        "imported {} from {name}{numbers}: {ready} ready, {waiting} waiting for others{there}",
        counted(tasks.len())
    ))?)
}
