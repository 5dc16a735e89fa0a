//! The worker: agent programs on claimed tasks, from the claim to the proof.
//!
//! One agent per slot: it registers, says that it lives, claims by long poll, has its program work in a git worktree of
//! the task ([`Trees`]), commits, runs the gates, and reports through a file that outlives the process ([`Outbox`]).
//! Every call goes through [`Client`]; what the hub makes of them is not known here. [`run`] is the whole of it.

mod attempt;
mod desk;
mod drive;
mod error;
mod gate;
mod log;
mod outbox;
mod prompt;
mod pulse;
mod report;
mod rest;
mod slot;
mod tail;
mod trees;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use switchboard_child::{END_WITHIN, Preset, orphans};
use switchboard_wire::jetpack::{AgentType, Capabilities};
use tokio::sync::{broadcast, mpsc, watch};

use crate::bus::{Backoff, BackoffPolicy};
use crate::{Client, Error};

pub use error::WorkerError;
pub use gate::{Gate, Parse};
pub use outbox::Outbox;
pub use tail::Logs;
pub use trees::{Cleaned, Trees};

/// Notices and events that wait to be read.
const WAITING_MAX: usize = 256;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// What the ids of its agents begin with: the preset's name.
    pub name: String,
    /// The one id to use, for an agent that has a key of its own.
    pub id: Option<String>,
    pub kind: AgentType,
    pub capabilities: Capabilities,
    pub preset: Preset,
    pub is_yolo: bool,
    /// Handed to the program: a file of settings with hooks, and one of MCP servers.
    pub settings: Option<PathBuf>,
    pub mcp: Option<PathBuf>,
    pub slots: u32,
    /// End after one task.
    pub once: bool,
    /// How long a task without an estimate may take.
    pub time_max: Duration,
    /// Nothing is begun, and what runs is stopped, once the programs have told of so much.
    pub cost_max_usd: Option<f64>,
    pub gates: Vec<Gate>,
    /// How often a program is sent back to its work by a red gate.
    pub fixes_max: u32,
    /// Without: programs work in `dir` itself, and nothing is committed.
    pub trees: Option<Trees>,
    pub dir: PathBuf,
    /// Where reports, logs and prompts are.
    pub state_dir: PathBuf,
}

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
pub struct Notice {
    pub what: What,
    pub agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Ready,
    Claimed,
    /// The program said something.
    Output,
    /// The worker does something itself.
    Step,
    Done,
    Failed,
    GivenBack,
    /// The task was taken away, and what was done is not reported.
    Lost,
    Trouble,
}

/// What all slots share.
struct Shop {
    client: Client,
    config: WorkerConfig,
    notices: mpsc::Sender<Notice>,
    stop: watch::Receiver<bool>,
    /// Ids of tasks about which something happened.
    news: broadcast::Sender<String>,
    /// Nobody begins anything before it is over.
    rest: Mutex<rest::Rest>,
    /// The sum of what the programs told.
    cost_usd: Mutex<f64>,
}

/// Works until `stop` says so, or for one task. What happens is sent to `notices`, which has to be read.
pub async fn run(
    client: Client,
    config: WorkerConfig,
    notices: mpsc::Sender<Notice>,
    stop: watch::Receiver<bool>,
) -> Result<(), WorkerError> {
    check(&config)?;
    let boxes = open_boxes(&client, &config).await?;
    let shop = Arc::new(Shop {
        client,
        config,
        notices,
        stop,
        news: broadcast::channel(WAITING_MAX).0,
        rest: Mutex::default(),
        cost_usd: Mutex::new(0.0),
    });
    let listening = tokio::spawn(listen(Arc::clone(&shop)));
    let slots = boxes.into_iter().enumerate().map(|(number, outbox)| {
        let shop = Arc::clone(&shop);
        async move { slot::serve(shop, number + 1, outbox).await }
    });
    let ended = join_all(slots).await;
    listening.abort();
    ended.into_iter().collect()
}

/// What can be known before anything is registered.
fn check(config: &WorkerConfig) -> Result<(), WorkerError> {
    let programs = std::iter::once(&config.preset.argv)
        .chain(config.gates.iter().map(|gate| &gate.run))
        .filter_map(|argv| argv.first());
    for program in programs {
        if !is_installed(program, &config.dir) {
            return Err(WorkerError::NotInstalled(program.clone()));
        }
    }
    match &config.trees {
        Some(trees) => trees.check(),
        None => Ok(()),
    }
}

fn is_installed(program: &str, dir: &std::path::Path) -> bool {
    if program.contains('/') {
        return dir.join(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// One outbox per slot: those that dead processes left reports in first, then new ones.
async fn open_boxes(client: &Client, config: &WorkerConfig) -> Result<Vec<Outbox>, WorkerError> {
    let root = config.state_dir.join("outbox");
    let slots = config.slots as usize;
    if let Some(id) = &config.id {
        let outbox = Outbox::open(&root, id).map_err(WorkerError::outbox(&root))?;
        let outbox = outbox.ok_or_else(|| WorkerError::IdTaken(id.clone()))?;
        return Ok(vec![outbox]);
    }
    let left = Outbox::left_behind(&root).map_err(WorkerError::outbox(&root))?;
    let mut boxes = Vec::new();
    for outbox in left {
        // What its programs started must not work beside whoever gets the task next.
        orphans::end(&[outbox.agent()], END_WITHIN).await;
        if !outbox.is_empty() {
            // More than there are slots wait for the next start.
            if boxes.len() < slots {
                boxes.push(outbox);
            }
            continue;
        }
        // Its tasks need not wait until it is found to be silent.
        match client.agents().remove(outbox.agent()).await {
            Err(error) if error.is_transient() => {}
            Ok(_) | Err(_) => outbox.discard(),
        }
    }
    while boxes.len() < slots {
        let id = format!("{}-{}", config.name, fresh());
        let outbox = Outbox::open(&root, &id).map_err(WorkerError::outbox(&root))?;
        boxes.extend(outbox);
    }
    Ok(boxes)
}

/// As much of a fresh id as keeps two workers apart.
fn fresh() -> String {
    let id = ulid::Ulid::generate().to_string().to_lowercase();
    id[id.len() - 10..].to_owned()
}

/// Passes on which tasks the log tells of. A stream that the hub ended is opened anew.
async fn listen(shop: Arc<Shop>) {
    let mut backoff = Backoff::random(BackoffPolicy::default());
    loop {
        let mut events = std::pin::pin!(shop.client.events().follow(None));
        while let Some(Ok(event)) = events.next().await {
            backoff.reset();
            let is_ours = !matches!(event.kind.as_str(), "task_progressed" | "task_created");
            if let Some(task) = event.members.get("task").filter(|_| is_ours)
                && let Some(task) = task.as_str()
            {
                // Nobody listens while nobody works.
                let _ = shop.news.send(task.to_owned());
            }
        }
        tokio::time::sleep(backoff.draw()).await;
    }
}

impl Shop {
    async fn say(&self, what: What, agent: &str, task: Option<u64>, text: impl Into<String>) {
        let notice = Notice {
            what,
            agent: agent.to_owned(),
            task,
            text: text.into(),
        };
        match what {
            What::Output => {}
            What::Trouble
            | What::Ready
            | What::Claimed
            | What::Step
            | What::Done
            | What::Failed
            | What::GivenBack
            | What::Lost => tracing::info!(agent, task, "{}", notice.text),
        }
        // If nobody reads, the work goes on all the same.
        let _ = self.notices.send(notice).await;
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Returns once the worker is to stop.
    async fn stopping(&self) {
        let mut stop = self.stop.clone();
        // Whoever could say so is gone.
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether no more may be spent.
    fn is_spent(&self, more_usd: f64) -> bool {
        let spent = *self.cost_usd.lock() + more_usd;
        self.config.cost_max_usd.is_some_and(|max| spent >= max)
    }
}

/// What the error table of the protocol says an agent does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    RegisterAnew,
    ClaimAnother,
    LogAndContinue,
    WaitAndRetry,
}

impl Step {
    fn after(error: &Error) -> Step {
        match error.code() {
            Some("agent_not_registered") => Step::RegisterAnew,
            Some("task_not_found" | "task_already_claimed") => Step::ClaimAnother,
            _ if error.is_transient() => Step::WaitAndRetry,
            _ => Step::LogAndContinue,
        }
    }
}

#[cfg(test)]
mod tests;
