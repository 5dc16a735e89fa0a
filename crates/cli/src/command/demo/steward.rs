//! What the demo's own person does, and the two books: what the agents told, and what the hub's log says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use switchboard_client::Client;
use switchboard_client::jetpack::{
    BaselineRequest, Event, NewBaseline, RejectTaskRequest, SteerTaskRequest,
};
use tokio::time::Instant;

use super::world::Told;
use crate::failure::Failure;
use crate::screen::Tone;
use crate::show::now;

/// Tests that there are, and that pass, in the baseline.
pub const TESTS: u32 = 20;
/// A task that waits longer for its next try is made ready by the person.
const PATIENCE_MS: i64 = 5_000;
/// Lines of the story that are kept.
pub const STORY_MAX: usize = 8;
/// Messages have so long to be acknowledged once all tasks are done.
const MAIL_WITHIN: Duration = Duration::from_secs(5);

/// Everything that is known of the demo at a moment.
pub struct Books {
    pub began: Instant,
    pub expected: usize,
    /// Tasks whose first result is sent back.
    red: BTreeSet<u64>,
    ring: Vec<String>,
    pub ours: Ours,
    pub log: Log,
    pub agents: BTreeMap<String, Row>,
    /// What happened, the newest last; those that were not shown yet are counted.
    pub story: VecDeque<(Duration, Tone, String)>,
    pub untold: usize,
    pub first_done: Option<Duration>,
    pub moved: Instant,
}

/// What the agents and the person told.
#[derive(Debug, Default)]
pub struct Ours {
    pub done: BTreeSet<u64>,
    pub failed: u64,
    pub judged: u64,
    pub approved: u64,
    pub refused: u64,
    pub sent: u64,
    pub acknowledged: u64,
}

/// What the hub's log says.
#[derive(Debug, Default)]
pub struct Log {
    pub claimed: u64,
    pub completed: BTreeSet<u64>,
    /// Failed or canceled: nothing of this demo should be.
    pub lost: BTreeSet<u64>,
    pub retried: u64,
    pub judged: u64,
    pub requeued: u64,
    pub silent: u64,
    pub acknowledged: u64,
}

/// One agent in the table.
#[derive(Debug, Default)]
pub struct Row {
    pub at: Option<u64>,
    pub done: u64,
    pub is_silent: bool,
}

/// What a person is asked for.
pub enum Ask {
    Retry(String),
    Approve(String),
    SendBack(String),
}

impl Books {
    pub fn new(began: Instant, expected: usize, red: BTreeSet<u64>, ring: Vec<String>) -> Books {
        Books {
            began,
            expected,
            red,
            ring,
            ours: Ours::default(),
            log: Log::default(),
            agents: BTreeMap::new(),
            story: VecDeque::new(),
            untold: 0,
            first_done: None,
            moved: Instant::now(),
        }
    }

    pub fn note(&mut self, tone: Tone, text: String) {
        self.story.push_back((self.began.elapsed(), tone, text));
        self.untold = (self.untold + 1).min(STORY_MAX);
        if self.story.len() > STORY_MAX {
            self.story.pop_front();
        }
    }

    /// All tasks have ended, and all mail is read.
    pub fn is_over(&self) -> bool {
        let ended = self.log.completed.len() + self.log.lost.len();
        let is_read = self.ours.acknowledged >= self.ours.sent
            && self.log.acknowledged >= self.ours.acknowledged;
        let is_late = self.moved.elapsed() > MAIL_WITHIN;
        // What agents were answered comes after the hub's event.
        let is_told = self.ours.done.len() >= self.log.completed.len();
        ended >= self.expected && ((is_read && is_told) || is_late)
    }

    pub fn tell(&mut self, told: Told) {
        self.moved = Instant::now();
        let ours = &mut self.ours;
        match told {
            Told::Done(number) => {
                ours.done.insert(number);
            }
            Told::Failed => ours.failed += 1,
            Told::Judged => ours.judged += 1,
            Told::Sent => ours.sent += 1,
            Told::Acknowledged => ours.acknowledged += 1,
            Told::Hangs { agent, number } => {
                self.note(Tone::Warn, format!("{agent} has #{number} and hangs"));
            }
            Told::Refused { agent, path, by } => {
                ours.refused += 1;
                let text = format!("{agent} may not edit {path}: {by} has the lease");
                self.note(Tone::Warn, text);
            }
        }
    }

    /// Takes an event of the hub, and says what a person has to do about it.
    pub fn hear(&mut self, event: &Event) -> Option<Ask> {
        self.moved = Instant::now();
        let text = |name: &str| event.members.get(name).and_then(|it| it.as_str());
        let number = event.members.get("number").and_then(|it| it.as_u64());
        let number = number.unwrap_or_default();
        let agent = text("agent").unwrap_or_default().to_owned();
        let task = || text("task").unwrap_or_default().to_owned();
        let log = &mut self.log;
        match event.kind.as_str() {
            "agent_registered" => {
                self.agents.entry(agent).or_default();
            }
            "agent_silent" => {
                log.silent += 1;
                self.agents.entry(agent.clone()).or_default().is_silent = true;
                self.note(Tone::Bad, format!("{agent} gives no sign of life"));
            }
            "task_claimed" => {
                log.claimed += 1;
                self.agents.entry(agent).or_default().at = Some(number);
            }
            "task_completed" => {
                log.completed.insert(number);
                let is_first = self.first_done.is_none();
                self.first_done.get_or_insert(self.began.elapsed());
                self.leaves(number);
                self.agents.entry(agent.clone()).or_default().done += 1;
                let done = self.log.completed.len();
                if is_first {
                    self.note(
                        Tone::Good,
                        format!("{agent} has done #{number}, the first task"),
                    );
                } else if done.is_multiple_of(10) {
                    self.note(
                        Tone::Plain,
                        format!("{done} of {} tasks done", self.expected),
                    );
                }
            }
            "task_failed" | "task_canceled" => {
                log.lost.insert(number);
                self.leaves(number);
                let why = text("message").unwrap_or_default();
                self.note(Tone::Bad, format!("#{number} failed: {why}"));
            }
            "task_retry_planned" => {
                log.retried += 1;
                self.leaves(number);
                let why = text("message").unwrap_or_default();
                self.note(
                    Tone::Warn,
                    format!("#{number} failed ({why}) and is tried again"),
                );
                let until = event.members.get("until");
                let until = until.and_then(|at| serde_json::from_value(at.clone()).ok());
                let until = until.unwrap_or_else(now);
                return (until.0 - now().0 > PATIENCE_MS).then(|| Ask::Retry(task()));
            }
            "task_requeued" => {
                log.requeued += 1;
                self.leaves(number);
                let why = text("why").unwrap_or_default();
                self.note(Tone::Warn, format!("#{number} is back in the queue: {why}"));
            }
            "task_needs_person" => {
                log.judged += 1;
                self.leaves(number);
                return Some(self.judge(number, task()));
            }
            "message_acknowledged" if self.ring.contains(&agent) => log.acknowledged += 1,
            _ => {}
        }
        None
    }

    fn judge(&mut self, number: u64, task: String) -> Ask {
        if self.red.remove(&number) {
            self.note(Tone::Bad, format!("#{number} has failing tests: sent back"));
            return Ask::SendBack(task);
        }
        self.note(Tone::Good, format!("#{number} needs review: approved"));
        self.ours.approved += 1;
        self.ours.done.insert(number);
        Ask::Approve(task)
    }

    /// Nobody is at this task any more.
    fn leaves(&mut self, number: u64) {
        for row in self.agents.values_mut() {
            row.at = row.at.filter(|at| *at != number);
        }
    }
}

/// Does what a person is asked for.
pub async fn act(client: &Client, ask: Ask) -> Result<(), Failure> {
    let because = |reason: &str| SteerTaskRequest {
        reason: Some(reason.to_owned()),
    };
    match ask {
        Ask::Retry(task) => {
            client
                .tasks()
                .retry(&task, &because("no need to wait"))
                .await?
        }
        Ask::Approve(task) => {
            client
                .tasks()
                .approve(&task, &because("good enough"))
                .await?
        }
        Ask::SendBack(task) => {
            let request = RejectTaskRequest {
                reason: Some("tests fail".to_owned()),
                retry: None,
            };
            client.tasks().reject(&task, &request).await?
        }
    };
    Ok(())
}

/// What results are compared with.
pub async fn set_baseline(client: &Client) -> Result<(), Failure> {
    let baseline = NewBaseline {
        build_success: true,
        type_errors: 0,
        lint_errors: 0,
        lint_warnings: None,
        tests_passing: TESTS,
        tests_failing: 0,
        test_coverage: None,
    };
    let request = BaselineRequest::Figures(baseline);
    client.quality().set_baseline(&request).await?;
    Ok(())
}
