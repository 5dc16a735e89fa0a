//! `switchboard worker`: agent programs on claimed tasks, each in a git worktree.

mod clean;
mod presets;
mod tail;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use switchboard_child::{Preset, Program};
use switchboard_client::jetpack::{AgentType, Capabilities};
use switchboard_client::worker::{Gate, Notice, Trees, What, WorkerConfig, WorkerError};
use switchboard_client::{Client, worker};
use switchboard_hub::config::{Config, GateSetting, Overrides};
use tokio::sync::{mpsc, watch};

use crate::context::{Context, exported_agent};
use crate::failure::Failure;
use crate::project;
use crate::screen::{Screen, Tone, brief, clean as plain, paint};
use crate::show::time;
use crate::terminal::stopped;

/// Longest estimate that a worker takes a task with; the estimate is its time limit.
const ESTIMATE_MINUTES_MAX: u32 = 24 * 60;
const SLOTS_MAX: i64 = 64;
const TEXT_MAX: usize = 200;
const NOTICES_MAX: usize = 64;

/// Run agent programs on claimed tasks, each in a git worktree
#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Registers one agent per slot, claims tasks and runs the program on each, in .switchboard/worktrees/NUMBER-TITLE on branch
sb/NUMBER-TITLE. What the program leaves is committed there; nothing is merged or pushed. With gates, a task is done only
when they succeed on the committed tree; the program is sent back to a red one, and what ran is kept as evidence.

PRESET is claude, codex, gemini, sh (runs the task's description as a script), or one of your own in switchboard.toml; see
--presets. --exec is split as a shell would, and nothing in it is expanded: {prompt_file}, {dir} and {task} become whole
arguments; without {prompt_file} the prompt comes on stdin. The program finds SWITCHBOARD_TASK, _EPOCH, _AGENT, _SLOT and
_URL in its environment.

A report that cannot be delivered waits in a file for the hub, or for the next start. Ctrl-C or SIGTERM stops the programs
and gives their tasks back; no retry is spent.

Examples:
  switchboard worker claude -n 4 --skill rust
  switchboard worker --exec 'my-agent {prompt_file}' --gate 'cargo test'
  switchboard worker sh --once --no-worktree
  switchboard worker --presets
  switchboard worker --tail
  switchboard worker clean"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The agent program to run
    #[arg(value_name = "PRESET", conflicts_with = "exec")]
    preset: Option<String>,
    /// A command line of your own to run instead
    #[arg(long, value_name = "LINE")]
    exec: Option<String>,
    /// Show the presets and end
    #[arg(long)]
    presets: bool,
    /// Agents at work at a time
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=SLOTS_MAX))]
    slots: u32,
    /// A skill of the agents; may be repeated
    #[arg(long = "skill", short, value_name = "SKILL")]
    skills: Vec<String>,
    /// Take browser tests too
    #[arg(long)]
    browser: bool,
    /// Exit after one task
    #[arg(long, conflicts_with = "slots")]
    once: bool,
    /// Minutes that a task without an estimate may take
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=i64::from(ESTIMATE_MINUTES_MAX)))]
    timeout: u32,
    /// A command that has to succeed before a task counts as done; may be repeated, beside those of the settings
    #[arg(long = "gate", value_name = "LINE")]
    gates: Vec<String>,
    /// How often the program is sent back to a red gate
    #[arg(long, value_name = "TIMES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=20))]
    fix: u32,
    /// Stop once the programs have reported so much cost, in US dollars
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Switch off the program's own permission checks
    #[arg(long)]
    yolo: bool,
    /// A settings file with hooks to hand to the program
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// A file of MCP servers to hand to the program
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
    /// Work in the current directory itself, and commit nothing
    #[arg(long)]
    no_worktree: bool,
    /// Leave worktrees where they are once their work is committed
    #[arg(long, conflicts_with = "no_worktree")]
    keep: bool,
    /// Show what the programs say; without a program to run, what those of workers say that run already
    #[arg(long)]
    tail: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Clean(clean::Args),
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    if let Some(Command::Clean(args)) = args.command {
        return clean::run(args, context).await;
    }
    if args.tail && !args.presets && args.preset.is_none() && args.exec.is_none() {
        return tail::run(context).await;
    }
    let trees = match args.no_worktree {
        true => None,
        false if args.presets => None,
        false => Some(Trees::around(&context.here).await.map_err(failed)?),
    };
    // Never those of a worktree, which an agent could have edited.
    let home = trees
        .as_ref()
        .map_or(&context.here, |trees| &trees.repository);
    let settings = settings(home)?;
    if args.presets {
        return presets::show(&settings, &mut context.screen);
    }
    let (client, state_dir, id) = reach(context)?;
    let config = config(&args, context, &settings, trees, state_dir, id)?;
    serve(client, config, args.tail, &mut context.screen).await
}

fn settings(home: &Path) -> Result<Config, Failure> {
    let overrides = Overrides {
        project: Some(home.to_owned()),
        ..Overrides::default()
    };
    let loaded = project::load(home, None, overrides);
    Ok(loaded
        .map_err(|error| Failure::Failed(error.to_string()))?
        .config)
}

/// The hub, where the state of workers for it is, and the agent that has a key in the environment.
fn reach(context: &Context) -> Result<(Client, PathBuf, Option<String>), Failure> {
    let exported = exported_agent();
    let id = exported.as_ref().map(|(id, _)| id.clone());
    let client = context.client_as(exported)?;
    let state_dir = match context.options.url {
        None => context.data_dir(),
        Some(_) => elsewhere(&client.address())?,
    };
    Ok((client, state_dir, id))
}

/// Of a hub whose data directory is not here.
fn elsewhere(address: &str) -> Result<PathBuf, Failure> {
    let given = |name| {
        std::env::var_os(name)
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
    };
    let state = given("XDG_STATE_HOME").or_else(|| Some(given("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Failure::Failed(
            "there is no place for reports that wait; set HOME or XDG_STATE_HOME".to_owned(),
        )
    })?;
    let name: String = address
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    Ok(state.join("switchboard").join(name))
}

fn config(
    args: &Args,
    context: &Context,
    settings: &Config,
    trees: Option<Trees>,
    state_dir: PathBuf,
    id: Option<String>,
) -> Result<WorkerConfig, Failure> {
    let (name, preset) = program(args, settings)?;
    if id.is_some() && args.slots > 1 {
        return Err(Failure::Usage(
            "SWITCHBOARD_AGENT is one agent; leave it unset to run several".to_owned(),
        ));
    }
    let setup = settings.worker.setup.as_deref();
    let setup = setup.map(|line| Program::parse(line).ok_or_else(|| wrong("worker.setup", line)));
    let setup = setup.transpose()?;
    let trees = trees.map(|mut trees| {
        trees.setup = setup;
        trees.keep = args.keep;
        trees
    });
    let typed = args
        .gates
        .iter()
        .map(|line| Gate::from_line(line).ok_or_else(|| wrong("--gate", line)));
    let gates = settings
        .gates
        .iter()
        .map(gate)
        .chain(typed)
        .collect::<Result<_, _>>()?;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| context.here.join(path));
    Ok(WorkerConfig {
        kind: kind(&name),
        name,
        id,
        capabilities: Capabilities {
            skills: args.skills.clone(),
            max_task_minutes: ESTIMATE_MINUTES_MAX,
            can_run_tests: true,
            can_run_build: true,
            can_access_browser: args.browser,
        },
        preset,
        is_yolo: args.yolo,
        settings: path(&args.settings),
        mcp: path(&args.mcp_config),
        slots: args.slots,
        once: args.once,
        time_max: Duration::from_secs(60) * args.timeout,
        cost_max_usd: args.max_cost,
        gates,
        fixes_max: args.fix,
        trees,
        dir: context.here.clone(),
        state_dir,
    })
}

/// The program to run, and the name that its agents have.
fn program(args: &Args, settings: &Config) -> Result<(String, Preset), Failure> {
    match (&args.preset, &args.exec) {
        (Some(name), _) => {
            let known = presets::all(settings)?;
            let found = known.into_iter().find(|(known, _)| known == name);
            found.ok_or_else(|| {
                Failure::Usage(format!("there is no preset '{name}'; see 'switchboard worker --presets', or use --exec"))
            })
        }
        (None, Some(line)) => {
            let preset = Preset::exec(line).ok_or_else(|| wrong("--exec", line))?;
            let stem = preset.argv.first().and_then(|program| Path::new(program).file_stem());
            let stem = stem.unwrap_or_default().to_string_lossy().to_lowercase();
            let name: String = stem.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            Ok((if name.is_empty() { "worker".to_owned() } else { name }, preset))
        }
        (None, None) => Err(Failure::Usage(
            "name a preset, such as 'switchboard worker claude', or a program with --exec; --presets shows them".to_owned(),
        )),
    }
}

fn kind(name: &str) -> AgentType {
    match name {
        "claude" => AgentType::ClaudeCode,
        "codex" => AgentType::Codex,
        "gemini" => AgentType::Gemini,
        _ => AgentType::Custom,
    }
}

fn gate(setting: &GateSetting) -> Result<Gate, Failure> {
    let gate = Gate::from_line(&setting.run).ok_or_else(|| wrong("gate.run", &setting.run))?;
    let parse = match &setting.parse {
        Some(word) => serde_json::from_value(word.as_str().into())
            .map_err(|_| Failure::Failed(format!("gate.parse: expected cargo, pytest, jest, go, tsc, eslint, ruff or exit, found '{word}'")))?,
        None => gate.parse,
    };
    Ok(Gate {
        name: setting.name.clone().unwrap_or(gate.name),
        parse,
        ..gate
    })
}

fn wrong(what: &str, line: &str) -> Failure {
    Failure::Usage(format!(
        "{what}: expected a command line, found '{line}'; is a quote left open?"
    ))
}

async fn serve(
    client: Client,
    config: WorkerConfig,
    tail: bool,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let (notices, mut heard) = mpsc::channel(NOTICES_MAX);
    let (stop, stopping) = watch::channel(false);
    let mut working = std::pin::pin!(worker::run(client, config, notices, stopping));
    let mut asked = std::pin::pin!(stopped());
    loop {
        tokio::select! {
            biased;
            Some(notice) = heard.recv() => show(&notice, tail, screen)?,
            ended = &mut working => {
                while let Ok(notice) = heard.try_recv() {
                    show(&notice, tail, screen)?;
                }
                return ended.map_err(failed);
            }
            () = &mut asked => {
                // Whoever asks again does not want to wait.
                if stop.send_replace(true) {
                    return Err(Failure::Failed("stopped before the tasks were given back".to_owned()));
                }
                asked.set(stopped());
            }
        }
    }
}

fn show(notice: &Notice, tail: bool, screen: &mut Screen) -> Result<(), Failure> {
    if screen.json() {
        return Ok(screen.value_line(notice)?);
    }
    let tone = match notice.what {
        What::Output if !tail => return Ok(()),
        What::Output => Tone::Plain,
        What::Ready | What::Step => Tone::Dim,
        What::Claimed => Tone::Busy,
        What::Done => Tone::Good,
        What::GivenBack | What::Lost | What::Trouble => Tone::Warn,
        What::Failed => Tone::Bad,
    };
    let number = notice
        .task
        .map(|number| format!(" #{number}"))
        .unwrap_or_default();
    let text = match notice.what {
        What::Output => plain(&notice.text).into_owned(),
        _ => brief(&notice.text, TEXT_MAX),
    };
    for line in text.lines() {
        screen.line(format_args!(
            "{} {}{number} {}",
            time(),
            notice.agent,
            paint(line, tone)
        ))?;
    }
    Ok(screen.flush()?)
}

fn failed(error: WorkerError) -> Failure {
    match error {
        WorkerError::Hub(error) => Failure::Hub(error),
        WorkerError::NotInstalled(_)
        | WorkerError::IdTaken(_)
        | WorkerError::NoRepository(_)
        | WorkerError::NoCommit(_)
        | WorkerError::Outbox { .. }
        | WorkerError::Git(_)
        | WorkerError::Once { .. } => Failure::Failed(error.to_string()),
    }
}
