//! One run of the agent's program on a task: fed, read, and broken off when it has to be.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard_child::preset::{Given, PromptBy};
use switchboard_child::stream::Told;
use switchboard_child::{Cause, Ended, Piece, Pipe, Program, RUN_ID, Run, Tail};
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::jetpack::{Task, TaskPhase};
use tokio::sync::{mpsc, oneshot, watch};

use super::desk::{Desk, Halt, halted};
use super::log::AttemptLog;
use super::{Shop, What};

/// Longest line that is read; a tool's whole output may be in one.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
const TAIL_BYTES_MAX: usize = 16 * 1024;

/// One run, and what is needed for it.
pub(super) struct Drive<'a> {
    pub shop: &'a Arc<Shop>,
    pub desk: &'a Arc<Desk>,
    pub task: &'a Task,
    pub dir: &'a Path,
    pub prompt: &'a str,
    pub session: Option<&'a str>,
    pub time_left: Duration,
    pub halt: &'a watch::Receiver<Option<Halt>>,
}

/// How it went.
pub(super) struct Driven {
    pub end: End,
    pub told: Told,
    /// The end of what it printed.
    pub tail: String,
}

pub(super) enum End {
    Ended(Ended),
    Halted(Halt),
    /// It could not even be started.
    NotStarted(io::Error),
}

impl Drive<'_> {
    pub(super) async fn run(&self, log: &mut AttemptLog) -> io::Result<Driven> {
        let mut reading = Reading {
            told: Told::new(self.shop.config.preset.output),
            lines: [Lines::new(LINE_BYTES_MAX), Lines::new(LINE_BYTES_MAX)],
            tail: Tail::new(TAIL_BYTES_MAX),
        };
        let run = self.prepare()?;
        let (pieces, mut printed) = mpsc::channel(16);
        let (stop, stopping) = oneshot::channel::<()>();
        let stopping = async {
            if stopping.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut stop = Some(stop);
        let mut running = std::pin::pin!(run.to_end(pieces, stopping));
        let mut broken_off: Option<Halt> = None;
        let ended = loop {
            tokio::select! {
                biased;
                why = self.why_to_stop(), if broken_off.is_none() => {
                    broken_off = Some(why);
                    // It may have ended by itself.
                    let _ = stop.take().map(|stop| stop.send(()));
                }
                Some(piece) = printed.recv() => self.take(&mut reading, &piece, log).await,
                ended = &mut running => break ended,
            }
        };
        while let Ok(piece) = printed.try_recv() {
            self.take(&mut reading, &piece, log).await;
        }
        for from in [Pipe::Stdout, Pipe::Stderr] {
            // What it printed last may have no end of its own.
            let end = Piece {
                from,
                bytes: b"\n".to_vec(),
            };
            self.take(&mut reading, &end, log).await;
        }
        let tail = reading.tail.text().unwrap_or_default();
        let end = match (broken_off, ended) {
            (Some(why), _) => End::Halted(why),
            (None, Ok(ended)) => End::Ended(ended),
            (None, Err(error)) => End::NotStarted(error),
        };
        Ok(Driven {
            end,
            told: reading.told,
            tail,
        })
    }

    async fn why_to_stop(&self) -> Halt {
        let mut leave = self.desk.leave.subscribe();
        let ordered = async {
            if leave.wait_for(|leave| *leave).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            why = halted(self.halt) => why,
            () = self.shop.stopping() => Halt::GiveBack("the worker was stopped".to_owned()),
            () = ordered => Halt::GiveBack("the agent was asked to end".to_owned()),
        }
    }

    fn prepare(&self) -> io::Result<Run> {
        let config = &self.shop.config;
        let file = AttemptLog::path(
            &config.state_dir,
            self.task.number,
            self.task.epoch,
            "prompt.md",
        );
        super::log::write_private(&file, self.prompt)?;
        let given = Given {
            prompt_file: Some(&file),
            dir: Some(self.dir),
            task: &self.task.id,
            session: self.session,
            is_yolo: config.is_yolo,
            settings: config.settings.as_deref(),
            mcp: config.mcp.as_deref(),
        };
        let program = config.preset.program(&given);
        let input = match config.preset.prompt {
            PromptBy::Stdin => self.prompt.as_bytes().to_vec(),
            PromptBy::File => Vec::new(),
            PromptBy::Description => self
                .task
                .description
                .clone()
                .unwrap_or_default()
                .into_bytes(),
        };
        let program = Program {
            dir: Some(self.dir.to_owned()),
            ..program
        };
        let program = program
            .env("SWITCHBOARD_TASK", &self.task.id)
            .env("SWITCHBOARD_EPOCH", self.task.epoch.to_string())
            .env("SWITCHBOARD_AGENT", &self.desk.agent)
            .env("SWITCHBOARD_SLOT", self.desk.slot.to_string())
            .env("SWITCHBOARD_URL", self.shop.client.address())
            .env(RUN_ID, &self.desk.agent);
        Ok(Run {
            program,
            input,
            time_max: Some(self.time_left),
            quiet_max: None,
        })
    }

    async fn take(&self, reading: &mut Reading, piece: &Piece, log: &mut AttemptLog) {
        reading.tail.push(&piece.bytes);
        let mut seen = Vec::new();
        let mut feed = reading.lines[piece.from as usize].feed(&piece.bytes);
        while let Some(line) = feed.next() {
            seen.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::Oversize { .. } => "… a line that is too long".to_owned(),
            });
        }
        for line in seen {
            log.line(&line);
            // Only the output is in the documented form.
            let shown = match piece.from {
                Pipe::Stdout => reading.told.line(&line),
                Pipe::Stderr => Some(line),
            };
            let Some(shown) = shown.filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            let percent = reading.told.percent;
            self.desk.change(|current| {
                current.phase = TaskPhase::Implementing;
                current.percent = percent.unwrap_or(current.percent);
                current.text = shown.lines().next().unwrap_or_default().to_owned();
            });
            self.shop
                .say(
                    What::Output,
                    &self.desk.agent,
                    Some(self.task.number),
                    shown,
                )
                .await;
        }
        // Who has said its last word is done anyway.
        let told = &reading.told;
        if !told.is_over && self.shop.is_spent(told.cost_usd.unwrap_or(0.0)) {
            self.desk.halt(&self.task.id, Halt::Spent);
        }
    }
}

struct Reading {
    told: Told,
    lines: [Lines; 2],
    tail: Tail,
}

impl Driven {
    /// Whether the program took longer than it may.
    pub(super) fn is_overtime(&self) -> bool {
        matches!(&self.end, End::Ended(ended) if ended.cause == Cause::Overtime)
    }
}
