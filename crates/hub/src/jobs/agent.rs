//! An agent's program at work: what it may see, what it prints, and how it ended.
//!
//! Knows neither job nor ledger: what it printed is judged elsewhere.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use switchboard_child::preset::Given;
use switchboard_child::stream::{Format, Told};
use switchboard_child::{Cause, Ended, Piece, Pipe, Preset, Program, RUN_ID, Run, Tail};
use switchboard_core::job_history::Length;
use switchboard_core::limits;
use switchboard_wire::redact;
use switchboard_wire::signature::to_hex;
use tokio::sync::mpsc;

use super::workspace;
use crate::config::{self, MOCK};

/// The command of this program that is the preset `mock`.
const MOCK_COMMAND: &str = "mock-agent";
/// What every program needs of the hub's environment.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_*",
    "TERM",
    "TMPDIR",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];
/// The end of stderr, in which reasons and metrics are looked for.
const STDERR_BYTES_MAX: usize = 64 * 1024;
/// A longer line of a program's own events is not looked into.
const LINE_BYTES_MAX: usize = limits::JOB_TEXT_BYTES_MAX;
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;
const PIECES: usize = 16;

/// A program that is to be run for a job.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub program: Program,
    pub format: Format,
    pub request: Vec<u8>,
    pub time_max: Duration,
    pub quiet_max: Duration,
    /// Where a person may follow what it prints.
    pub log: PathBuf,
}

/// What it did.
#[derive(Debug)]
pub(super) struct Printed {
    /// Its response, or what it printed instead.
    pub raw: String,
    pub length: Length,
    pub stderr: String,
    pub ended: Ended,
    pub took: Duration,
    /// What the program itself reported, in its own form.
    pub cost_usd: Option<f64>,
    pub tokens: Option<u64>,
}

impl Call {
    /// The program of a role, to be run in a workspace under a run id.
    pub fn new(agent: &config::Agent, workspace: &Path, run: &str) -> Result<Call, String> {
        let (mut program, format, keys) = program(agent, workspace)?;
        let only = INHERITED.iter().copied().map(str::to_owned);
        program.only = Some(only.chain(keys).chain(agent.env.clone()).collect());
        program.dir = Some(workspace.to_owned());
        program = program.env(RUN_ID, run);
        for (name, value) in workspace::trusted(workspace) {
            // Hooks are the agent's own business, and so is what it finds above.
            if name == "GIT_CONFIG_COUNT" {
                program = program.env(name, "1");
            } else if name.ends_with("_0") {
                program = program.env(name, value);
            }
        }
        Ok(Call {
            program,
            format,
            request: Vec::new(),
            time_max: Duration::MAX,
            quiet_max: Duration::MAX,
            log: PathBuf::new(),
        })
    }

    /// Runs it. `began` hears of its process right after it started.
    pub async fn run(
        self,
        began: impl AsyncFnOnce(Option<u32>),
        stop: impl Future<Output = ()>,
    ) -> io::Result<Printed> {
        let run = Run {
            program: self.program,
            input: self.request,
            time_max: Some(self.time_max),
            quiet_max: Some(self.quiet_max),
        };
        let (pieces, printed) = mpsc::channel(PIECES);
        let at = Instant::now();
        let running = run.begin(pieces)?;
        let (began, heard) = (began(running.number()), Heard::new(self.format, &self.log));
        let (ended, heard, ()) = tokio::join!(running.to_end(stop), heard.all(printed), began);
        Ok(heard.told(ended?, at.elapsed()))
    }
}

/// How the program of a role is called, how it prints, and which variables it cannot do without.
fn program(agent: &config::Agent, dir: &Path) -> Result<(Program, Format, Vec<String>), String> {
    if let Some(line) = &agent.command {
        let program = Program::parse(line).ok_or_else(|| format!("{line:?} is no command"))?;
        return Ok((program, Format::Text, Vec::new()));
    }
    let name = agent.preset.as_deref().unwrap_or_default();
    if name == MOCK {
        let us =
            std::env::current_exe().map_err(|error| format!("this program is gone: {error}"))?;
        let words = [us.into_os_string(), MOCK_COMMAND.into()];
        let args = agent.args.iter().map(OsString::from);
        return Ok((
            Program::new(words.into_iter().chain(args)),
            Format::Text,
            Vec::new(),
        ));
    }
    let mut preset = Preset::named(name).ok_or_else(|| format!("there is no preset {name:?}"))?;
    for options in [&mut preset.checked, &mut preset.yolo] {
        options.extend(agent.args.iter().cloned());
    }
    let given = Given {
        dir: Some(dir),
        is_yolo: agent.yolo,
        ..Given::default()
    };
    Ok((preset.program(&given), preset.output, preset.keys))
}

/// The beginning of a text, with length and hash of all of it.
pub(super) struct Kept {
    bytes: Vec<u8>,
    total: u64,
    hash: Context,
}

impl Kept {
    pub fn new() -> Kept {
        Kept {
            bytes: Vec::new(),
            total: 0,
            hash: Context::new(&SHA256),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = limits::JOB_TEXT_BYTES_MAX - self.bytes.len();
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.total += bytes.len() as u64;
        self.hash.update(bytes);
    }

    pub fn of(text: &str) -> (String, Length) {
        let mut kept = Kept::new();
        kept.push(text.as_bytes());
        kept.told()
    }

    /// What is no text is shown as the character that stands for it.
    pub fn told(mut self) -> (String, Length) {
        let length = Length {
            bytes: self.total,
            sha256: to_hex(self.hash.finish().as_ref()),
            truncated: self.total > self.bytes.len() as u64,
        };
        if length.truncated {
            // A character that was cut is none.
            self.bytes
                .truncate(self.bytes.len() - cut_short(&self.bytes));
        }
        (String::from_utf8_lossy(&self.bytes).into_owned(), length)
    }
}

/// How many bytes at the end begin a character that is not complete.
fn cut_short(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        Ok(_) | Err(_) => 0,
    }
}

/// What is heard of a program while it runs.
struct Heard {
    stdout: Kept,
    stderr: Tail,
    told: Told,
    format: Format,
    lines: [Vec<u8>; 2],
    log: Option<File>,
    log_left: usize,
}

impl Heard {
    fn new(format: Format, log: &Path) -> Heard {
        let open = || {
            fs::create_dir_all(log.parent()?).ok()?;
            File::create(log).ok()
        };
        Heard {
            stdout: Kept::new(),
            stderr: Tail::new(STDERR_BYTES_MAX),
            told: Told::new(format),
            format,
            lines: [Vec::new(), Vec::new()],
            log: open(),
            log_left: LOG_BYTES_MAX,
        }
    }

    async fn all(mut self, mut printed: mpsc::Receiver<Piece>) -> Heard {
        while let Some(piece) = printed.recv().await {
            let place = match piece.from {
                Pipe::Stdout => 0,
                Pipe::Stderr => 1,
            };
            match piece.from {
                Pipe::Stdout if self.format == Format::Text => self.stdout.push(&piece.bytes),
                Pipe::Stdout => {}
                Pipe::Stderr => self.stderr.push(&piece.bytes),
            }
            for byte in piece.bytes {
                match byte {
                    b'\n' => self.line(place),
                    byte if self.lines[place].len() < LINE_BYTES_MAX => {
                        self.lines[place].push(byte)
                    }
                    _ => {}
                }
            }
        }
        self.line(0);
        self.line(1);
        self
    }

    fn line(&mut self, place: usize) {
        let bytes = std::mem::take(&mut self.lines[place]);
        if bytes.is_empty() {
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
        let shown = match (self.format, place) {
            (Format::Text, _) | (_, 1) => Some(line.into_owned()),
            (Format::Claude | Format::Codex | Format::Gemini, _) => self.told.line(&line),
        };
        let Some(shown) = shown.filter(|shown| shown.len() < self.log_left) else {
            return;
        };
        self.log_left -= shown.len() + 1;
        // A full disk ends the log, and nothing else.
        if let Some(log) = &mut self.log
            && writeln!(log, "{}", redact::text(&shown)).is_err()
        {
            self.log = None;
        }
    }

    fn told(self, ended: Ended, took: Duration) -> Printed {
        let (raw, length) = match self.format {
            Format::Text => self.stdout.told(),
            Format::Claude | Format::Codex | Format::Gemini => {
                Kept::of(&self.told.answer.unwrap_or_default())
            }
        };
        let stderr = self.stderr.text().unwrap_or_default();
        Printed {
            raw,
            length,
            // What a program says of itself stands with what it complains about.
            stderr: match self.told.error {
                Some(error) if stderr.is_empty() => error,
                Some(error) => format!("{stderr}\n{error}"),
                None => stderr,
            },
            ended,
            took,
            cost_usd: self.told.cost_usd,
            tokens: self.told.tokens,
        }
    }
}

impl Printed {
    /// The exit code, unless it was ended.
    pub fn exit(&self) -> Option<i32> {
        match self.ended.cause {
            Cause::Itself => self.ended.status.code(),
            Cause::Stopped | Cause::Overtime | Cause::Silent => None,
        }
    }
}

/// When a process was started, in ticks since the machine was: with its number it is that process and no other.
pub(super) fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
