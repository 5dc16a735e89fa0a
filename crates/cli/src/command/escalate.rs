//! `switchboard escalate`: a failure is tried once more if it may pass, and then told to the architect with its log.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use clap::Args as ClapArgs;
use serde_json::json;
use switchboard_client::broker::Outgoing;
use switchboard_core::USER;
use switchboard_core::limits::cut;
use switchboard_core::recurrence::{is_error, is_transient};
use switchboard_wire::redact;
use switchboard_wire::squidrun::tags::{ESCALATE, FIRST_ERROR};
use switchboard_wire::squidrun::{Roles, Target};

use super::say::{fresh_id, send_or_leave};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::clean;
use crate::show::now;

/// Tell the architect about a failure, after one more try if it may pass by itself
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
COMMAND is run. If it fails and may pass by itself (exit code 75 or 124, a timeout, a connection error), it is run once
more. If it still fails, the architect gets WHAT, the first line that tells of an error, and the end of the log; the
architect's own failures go to 'user'. Without COMMAND the architect is told at once. The same failure three times
within 24 hours is also told to the oracle, and 'switchboard memory search' finds it from then on. If the hub does not
run, the message waits in .squidrun/triggers/.

The exit code is that of COMMAND, 0 if the second try worked.

Examples:
  switchboard escalate --role builder 'deploy fails' -- make deploy
  switchboard escalate --role oracle --log bench.log 'the benchmark never ends'")]
pub struct Args {
    /// What went wrong
    what: String,
    /// Who has the failure [default: SQUIDRUN_ROLE]
    #[arg(long, value_name = "ROLE", env = "SQUIDRUN_ROLE")]
    role: String,
    /// The log whose end the architect gets [default: the output of COMMAND]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Address of the broker [default: as for 'switchboard say']
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// What to run
    #[arg(last = true)]
    command: Vec<String>,
}

/// Of an output or a log, so much of its end is looked at, and so much is told.
const LOOKED_BYTES_MAX: usize = 256 * 1024;
const TOLD_BYTES_MAX: usize = 8 * 1024;
const LINE_BYTES_MAX: usize = 512;
/// What a command left running may hold its output open; it is not waited for longer.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// A run of the command that failed.
struct Failed {
    code: u8,
    how: String,
    output: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    if args.what.trim().is_empty() {
        return Err(Failure::Usage("WHAT is empty".to_owned()));
    }
    let read = |path: &PathBuf| end_of(path).map_err(|error| unreadable(path, &error));
    let mut log = match args.command.is_empty() {
        true => args.log.as_ref().map(read).transpose()?,
        false => None,
    };
    let (mut tries, mut failed) = (0, None);
    while !args.command.is_empty() && tries < 2 {
        tries += 1;
        let Some(run) = attempt(&args.command, context.screen.json()) else {
            return passed(tries, context);
        };
        // The command may have written it just now.
        log = args.log.as_ref().and_then(|path| end_of(path).ok());
        let said = Some(&run.output).filter(|text| !text.trim().is_empty());
        let said = said.or(log.as_ref()).map_or("", |text| text);
        let passes = is_transient(Some(run.code.into()), first_error(said).unwrap_or_default())
            || is_transient(None, last_line(said));
        failed = Some(run);
        if !passes {
            break;
        }
    }
    let message = Outgoing {
        target: target(&args.role).to_owned(),
        content: text(&args, log.as_deref(), failed.as_ref(), tries),
        priority: "urgent".to_owned(),
        message_id: fresh_id(),
    };
    let told = send_or_leave(args.role, message, args.broker, context).await;
    match failed {
        None => told,
        Some(Failed { code, how, .. }) => {
            let what = match told {
                Ok(()) => format!("the command ended with {how}"),
                Err(error) => format!("the command ended with {how}, and nobody was told: {error}"),
            };
            Err(Failure::Ended { code, what })
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{} cannot be read: {error}", path.display()))
}

fn passed(tries: u8, context: &mut Context) -> Result<(), Failure> {
    let screen = &mut context.screen;
    match screen.json() {
        true => Ok(screen.value(&json!({ "success": true, "tries": tries }))?),
        false if tries > 1 => Ok(screen.line("the second try worked; nobody was told")?),
        false => Ok(()),
    }
}

/// The architect; its own failures are for the person.
fn target(role: &str) -> &'static str {
    const ARCHITECT: &str = "architect";
    match Roles::default().target(role) {
        Some(Target::Role(id)) if id.as_str() == ARCHITECT => USER,
        _ => ARCHITECT,
    }
}

fn text(args: &Args, log: Option<&str>, failed: Option<&Failed>, tries: u8) -> String {
    let output = failed.map_or("", |failed| &failed.output);
    let log = log.unwrap_or(output);
    let first = first_error(log).or_else(|| first_error(output));
    let (role, what) = (&args.role, args.what.trim());
    // With the time of it: the same failure a moment later is another one.
    let mut text = format!("[URGENT] [{ESCALATE}] {role}: {what}\nat {}", now());
    if let Some(line) = first {
        text += &format!("\n{FIRST_ERROR}{}", cut(line, LINE_BYTES_MAX));
    }
    if let Some(failed) = failed {
        let command = args.command.join(" ");
        let times = if tries > 1 { ", tried twice" } else { "" };
        let command = cut(&command, LINE_BYTES_MAX);
        text += &format!("\ncommand: {command}\nended with {}{times}", failed.how);
    }
    let from = log.ceil_char_boundary(log.len().saturating_sub(TOLD_BYTES_MAX));
    if !log.trim().is_empty() {
        text += &format!("\n\nend of the log:\n{}", log[from..].trim_end());
    }
    redact::text(&text).into_owned()
}

fn first_error(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| is_error(line))
}

fn last_line(text: &str) -> &str {
    let mut lines = text.lines().rev();
    lines
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
}

fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(
        length.saturating_sub(LOOKED_BYTES_MAX as u64),
    ))?;
    let mut end = Vec::new();
    file.take(LOOKED_BYTES_MAX as u64).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// Runs the command once, its output shown as it comes. `None` if it worked.
fn attempt(command: &[String], json: bool) -> Option<Failed> {
    let (program, arguments) = command.split_first()?;
    let started = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            // As shells say it.
            let code = if error.kind() == io::ErrorKind::NotFound {
                127
            } else {
                126
            };
            let output = format!("error: {program} cannot be run: {error}");
            anstream::eprintln!("{}", clean(&output));
            let how = format!("exit code {code}");
            return Some(Failed { code, how, output });
        }
    };
    let (parts, shown) = channel();
    if let Some(output) = child.stdout.take() {
        let parts = parts.clone();
        thread::spawn(move || match json {
            true => copy(output, io::stderr(), &parts),
            false => copy(output, io::stdout(), &parts),
        });
    }
    if let Some(output) = child.stderr.take() {
        thread::spawn(move || copy(output, io::stderr(), &parts));
    }
    let waiting = thread::spawn(move || child.wait());
    let output = gather(&shown, || waiting.is_finished());
    let status = waiting.join().ok().and_then(Result::ok);
    if status.is_some_and(|status| status.success()) {
        return None;
    }
    let code = status.map_or(1, code_of);
    let how = format!("exit code {code}");
    Some(Failed { code, how, output })
}

/// Both outputs, in the order in which they come, until they end or whoever holds them open is not the command.
fn gather(parts: &Receiver<Vec<u8>>, is_over: impl Fn() -> bool) -> String {
    let mut end = Vec::new();
    loop {
        match parts.recv_timeout(DRAIN_WITHIN) {
            Ok(part) => end.extend(part),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !is_over() => {}
            Err(_) => return String::from_utf8_lossy(&end).into_owned(),
        }
        let over = end.len().saturating_sub(LOOKED_BYTES_MAX);
        end.drain(..over);
    }
}

fn copy(mut from: impl io::Read, mut to: impl Write, parts: &std::sync::mpsc::Sender<Vec<u8>>) {
    let mut chunk = [0; 4096];
    // An output that breaks has ended; one that nobody reads is still kept.
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        let _ = to.write_all(&chunk[..count]).and_then(|()| to.flush());
        let _ = parts.send(chunk[..count].to_vec());
    }
}

/// Its own, or as shells tell of a signal.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let by_signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(by_signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(role: &str) -> Args {
        Args {
            what: "deploy fails".to_owned(),
            role: role.to_owned(),
            log: None,
            broker: None,
            command: vec!["make".to_owned(), "deploy".to_owned()],
        }
    }

    #[test]
    fn the_architect_reads_what_failed_and_the_end_of_the_log() {
        let failed = Failed {
            code: 2,
            how: "exit code 2".to_owned(),
            output: "step 1\nerror: no space left\nmore\nERROR again\n".to_owned(),
        };
        let told = text(&args("builder"), None, Some(&failed), 2);
        assert!(told.starts_with("[URGENT] [ESCALATE] builder: deploy fails\nat "));
        let expected = "first error: error: no space left\n\
            command: make deploy\nended with exit code 2, tried twice\n\nend of the log:\n";
        assert!(told.contains(expected), "{told}");
        assert!(told.ends_with("ERROR again"), "{told}");
        let long = "ü".repeat(TOLD_BYTES_MAX);
        let told = text(&args("builder"), Some(&long), None, 0);
        assert!(told.len() < TOLD_BYTES_MAX + 200 && told.contains("end of the log:\nü"));
        assert_eq!((target("lead"), target("builder")), (USER, "architect"));
    }

    #[test]
    fn a_command_is_known_by_its_end_and_its_output() {
        let run = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            attempt(&words, true).map(|failed| (failed.code, failed.output))
        };
        assert_eq!(run(&["true"]), None);
        assert_eq!(run(&["sh", "-c", "exit 75"]), Some((75, String::new())));
        let (code, output) = run(&["sh", "-c", "echo out; kill -9 $$"]).expect("it fails");
        assert_eq!((code, output.as_str()), (137, "out\n"));
        let (code, output) = run(&["/nowhere/at/all"]).expect("it fails");
        assert!(code == 127 && output.contains("cannot be run"), "{output}");
        // What it leaves running holds its output open.
        let (code, _) = run(&["sh", "-c", "sleep 600 & exit 3"]).expect("it fails");
        assert_eq!(code, 3);
    }
}
