//! The one binary: `switchboard`. One file per command, in `command/`.
//!
//! This file reads the command line, sets up logging, runs the command and turns its outcome into an exit code:
//! 0 ok, 1 refused or failed, 2 usage, 3 no hub running.

mod command;
mod context;
mod discover;
mod failure;
mod help;
mod import;
mod log;
mod page;
mod project;
mod screen;
mod show;
mod terminal;
mod words;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser};
use tracing_subscriber::EnvFilter;

use crate::command::Command;
use crate::context::{Context, Options};
use crate::failure::Failure;
use crate::screen::{Screen, Tone, paint};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A coordination hub for swarms of AI coding agents.
///
/// Start a hub in your project, give it tasks, and let agents claim each of them exactly once.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  switchboard demo                            see a swarm at work, for less than a minute
  switchboard up                              start a hub for this project
  switchboard task add 'Fix the parser'       give it a task
  switchboard worker claude                   let an agent program do it
  switchboard status --watch                  see what happens

Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 no hub running.
Environment: SWITCHBOARD_URL, SWITCHBOARD_TOKEN, SWITCHBOARD_CA_CERT, SWITCHBOARD_CA_FINGERPRINT,
SWITCHBOARD_DATA_DIR, SWITCHBOARD_LOG_FILTER, NO_COLOR.";

fn main() -> ExitCode {
    let matches = help::command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return help::refuse(&error),
    };
    let json = cli.options.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, json),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { options, command } = cli;
    match command {
        Command::Up(args) => command::up::run(*args, options.data_dir.as_ref()),
        Command::MockAgent(args) => command::mock_agent::run(args),
        Command::Errand(errand) => {
            log_quietly(options.verbose);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| {
                    Failure::Failed(format!("the async runtime cannot start: {error}"))
                })?;
            let mut context = Context::new(options)?;
            runtime.block_on(errand.run(&mut context))?;
            Ok(context.screen.flush()?)
        }
    }
}

/// Commands say what they have to say themselves; their log is for looking into what was sent.
fn log_quietly(verbose: bool) {
    // What the verifier logs comes back as an error, too, and is said there.
    let fallback = if verbose {
        "warn,switchboard=debug,switchboard_client=debug"
    } else {
        "warn,rustls_platform_verifier=off"
    };
    let filter = EnvFilter::try_from_env("SWITCHBOARD_LOG_FILTER")
        .unwrap_or_else(|_| EnvFilter::new(fallback));
    let set = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(verbose)
        .without_time()
        .try_init();
    set.expect("nobody set up logging before");
}

/// One sentence for the person; with `--json` also an object for the program.
fn report(failure: &Failure, json: bool) -> ExitCode {
    let code = failure.exit_code();
    if code != 0 && !failure.is_silent() {
        anstream::eprintln!(
            "{} {}",
            paint("error:", Tone::Bad),
            screen::clean(&failure.to_string())
        );
        if json && !failure.is_told() {
            // If stdout is closed, the exit code and the sentence have to do.
            let _ = Screen::new(true).value(&failure.body());
        }
    }
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_with_an_example() {
        fn check(command: &clap::Command, path: &str) {
            for inner in command
                .get_subcommands()
                .filter(|inner| inner.get_name() != "help")
            {
                let path = format!("{path} {}", inner.get_name());
                let help = inner
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    help.contains("Example") && help.contains(&path),
                    "{path} has no example:\n{help}"
                );
                check(inner, &path);
            }
        }
        check(&Cli::command(), "switchboard");
    }

    #[test]
    fn the_commands_of_the_document_are_all_there() {
        for line in [
            "up --http 127.0.0.1:0 --store sqlite:x.db --data-dir d --project p --config c.toml --auth hmac --tls-self-signed --host hub.example --abandon-move --log json",
            "init --force",
            "demo --agents 12 --tasks 60 --speed 1 --seed 1 --keep --json",
            "status --watch --json",
            "task add title --priority high --skill rust --after a --json",
            "task import - --format ndjson",
            "task list --status ready,blocked",
            "task show 7",
            "task why 7 --agent a",
            "task cancel 7 8 --reason x",
            "task retry 7",
            "task release 7",
            "task approve 7",
            "task reject 7 --fail",
            "agent add a",
            "agent list",
            "agent show a",
            "agent stop a",
            "agent remove a",
            "token create ci --scope viewer",
            "token create --scope sql",
            "token list",
            "token revoke t",
            "key rotate --data-dir d --store postgres://h/d --json",
            "bus status --json",
            "bus tail --json --types heartbeat,worker_error --worker worker-3",
            "bus worker --id w --skill rust --addr 127.0.0.1:8731 --run true --once",
            "bus send shutdown-worker --target w --reason r",
            "bus status --cert c --key k --ca a",
            "cert init --name bus.example",
            "cert issue worker-3 --role operator --days 30 --out d --json",
            "cert rotate worker-3 --revoke-old",
            "cert rotate --director",
            "cert rotate --authority --drop-old",
            "cert revoke worker-3 --reason x",
            "cert list --json",
            "message send hello --to a",
            "message list",
            "message show m",
            "lease list",
            "lease release src/a.rs",
            "events --follow",
            "quality baseline",
            "quality history",
            "memory search parser",
            "backup file.db --without-key",
            "restore file.db --to x.db --data-dir d",
            "migrate --to postgres://h/d --store sqlite:x.db --verify-only --json",
            "doctor",
            "completions bash",
        ] {
            let words = std::iter::once("switchboard").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    /// Command lines that stand in a page: in blocks, and as code within sentences, where arguments may be left out.
    fn command_lines(page: &str) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let mut fenced = false;
        for line in page.lines() {
            let text = line.trim_start();
            fenced ^= text.starts_with("```");
            let text = text.strip_prefix("$ ").unwrap_or(text);
            if (fenced || line.starts_with("    ")) && text.starts_with("switchboard ") {
                found.push((text.to_owned(), true));
                continue;
            }
            let spans = line.split('`').skip(1).step_by(2);
            let spans = spans.filter(|span| span.starts_with("switchboard "));
            found.extend(spans.map(|span| (span.to_owned(), false)));
        }
        found
    }

    /// `None` if the line is as the command takes it.
    fn wrong(line: &str, is_whole: bool) -> Option<String> {
        use clap::error::ErrorKind;
        let ends = |word: &String| !["|", "&", "&&", ";", ">", "||"].contains(&word.as_str());
        let words = shlex::split(line)?.into_iter().take_while(ends);
        let error = Cli::try_parse_from(words).err()?;
        let is_short = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        );
        let is_right = is_short && !is_whole;
        (!is_right && error.kind() != ErrorKind::DisplayHelp).then(|| format!("{line}: {error}"))
    }

    #[test]
    fn every_command_line_of_the_pages_and_the_help_is_understood() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let in_docs = std::fs::read_dir(format!("{root}/docs")).expect("there are docs");
        let mut pages: Vec<_> = in_docs.map(|entry| entry.unwrap().path()).collect();
        for name in [
            "README.md",
            "SECURITY.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ] {
            pages.push(format!("{root}/{name}").into());
        }
        pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
        let mut lines = Vec::new();
        for page in &pages {
            lines.extend(command_lines(&std::fs::read_to_string(page).unwrap()));
        }
        assert!(lines.len() > 60, "only {} were found", lines.len());
        fn examples(command: &clap::Command, lines: &mut Vec<(String, bool)>) {
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines().map(str::trim_start) {
                let line = line.split("  ").next().unwrap_or_default();
                if line.starts_with("switchboard ") {
                    lines.push((line.to_owned(), true));
                }
            }
            command
                .get_subcommands()
                .for_each(|inner| examples(inner, lines));
        }
        examples(&Cli::command(), &mut lines);
        let wrong: Vec<String> = lines
            .iter()
            .filter_map(|(line, whole)| wrong(line, *whole))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
