//! One attempt at a task: leases, worktree, program, commit, gates.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_child::git::{is_full, why};
use switchboard_child::preset::PromptBy;
use switchboard_child::stream::{Limit, Told};
use switchboard_wire::jetpack::{
    AcquireLeaseRequest, Evidence, EvidenceSource, Failure, FailureType, QualityMetrics, Task,
    TaskPhase, TaskResult, TaskType,
};
use switchboard_wire::redact;
use tokio::sync::watch;
use tokio::time::Instant;

use super::desk::{Desk, Halt, halted};
use super::drive::{Drive, Driven, End};
use super::error::TreeError;
use super::gate::{Figures, exit_code};
use super::log::AttemptLog;
use super::slot::Background;
use super::trees::{Authorship, Changed, Committed, Tree, Trees};
use super::{Shop, What, prompt, pulse};

const MINUTE: Duration = Duration::from_secs(60);
/// A lease is taken for so long, and renewed at half of it.
const LEASE_FOR: Duration = Duration::from_secs(3600);
/// Longest text of a report.
const TEXT_CHARS_MAX: usize = 4000;

/// What an attempt came to.
pub(super) enum Outcome {
    Done(Box<Finished>),
    Failed(Failure),
    /// No retry is spent.
    GiveBack(String),
    /// Nobody wants the result.
    Lost(String),
}

pub(super) struct Finished {
    pub result: TaskResult,
    pub metrics: Option<QualityMetrics>,
    pub evidence: Vec<Evidence>,
}

pub(super) async fn work(
    shop: &Arc<Shop>,
    desk: &Arc<Desk>,
    task: &Task,
    halt: watch::Receiver<Option<Halt>>,
) -> Outcome {
    let watching = pulse::watch_over(
        Arc::clone(shop),
        Arc::clone(desk),
        task.id.clone(),
        task.epoch,
    );
    let telling = pulse::tell(Arc::clone(shop), Arc::clone(desk));
    let _background = [tokio::spawn(watching), tokio::spawn(telling)].map(Background);
    let attempt = Attempt {
        shop,
        desk,
        task,
        halt,
    };
    if let Err(why) = attempt.lease().await {
        return Outcome::GiveBack(why);
    }
    let renewing = renew(Arc::clone(shop), desk.agent.clone(), task.clone());
    let _renewing = Background(tokio::spawn(renewing));
    let Some(trees) = &shop.config.trees else {
        return attempt.in_dir(&shop.config.dir, None).await;
    };
    let dependency = attempt.branch_of_dependency().await;
    match trees.open(task, dependency.as_deref()).await {
        Ok(tree) => {
            let outcome = attempt.in_dir(&tree.path.clone(), Some(&tree)).await;
            attempt.close(tree).await;
            outcome
        }
        Err(error @ (TreeError::Locked(_) | TreeError::InUse(_) | TreeError::InTheWay(_))) => {
            Outcome::GiveBack(error.to_string())
        }
        Err(error @ (TreeError::Setup(_) | TreeError::Git(_) | TreeError::File { .. })) => {
            let text = why(&trees.dir, error.to_string());
            match is_full(&text) {
                true => Outcome::GiveBack(text),
                false => unable(text),
            }
        }
    }
}

struct Attempt<'a> {
    shop: &'a Arc<Shop>,
    desk: &'a Arc<Desk>,
    task: &'a Task,
    halt: watch::Receiver<Option<Halt>>,
}

/// What was found of work that counts.
struct Green {
    changed: Changed,
    evidence: Vec<Evidence>,
    figures: Vec<Figures>,
}

/// Whether what the program left counts.
enum Check {
    Green(Box<Green>),
    Red { what: String, output: String },
    Halted(Halt),
}

impl Attempt<'_> {
    /// The program's runs, until its work counts or it had all its chances.
    async fn in_dir(&self, dir: &Path, tree: Option<&Tree>) -> Outcome {
        let config = &self.shop.config;
        let path = AttemptLog::path(&config.state_dir, self.task.number, self.task.epoch, "log");
        let mut log = match AttemptLog::open(&path) {
            Ok(log) => log,
            Err(error) => {
                let text = format!("{}: {error}", path.display());
                return unable(text);
            }
        };
        let (agent, slot) = (&self.desk.agent, self.desk.slot);
        log.line(&super::tail::heading(agent, slot, config.preset.output));
        let branch = tree.map(|tree| tree.branch.as_str());
        let mut text = prompt::task(self.task, &self.desk.agent, branch, &config.gates);
        let mut session: Option<String> = None;
        let deadline = Instant::now() + self.time_max();
        let mut fixes = 0;
        loop {
            let drive = Drive {
                shop: self.shop,
                desk: self.desk,
                task: self.task,
                dir,
                prompt: &text,
                session: session.as_deref(),
                time_left: deadline.saturating_duration_since(Instant::now()),
                halt: &self.halt,
            };
            let driven = match drive.run(&mut log).await {
                Ok(driven) => driven,
                Err(error) => return unable(error.to_string()),
            };
            *self.shop.cost_usd.lock() += driven.told.cost_usd.unwrap_or(0.0);
            let summary = summary(&driven.told);
            if let Some(outcome) = self.ended_badly(&driven) {
                self.commit_rest(tree, &summary).await;
                return outcome;
            }
            self.shop.rest.lock().worked();
            self.desk.at(TaskPhase::Testing, "checking what was done");
            let (what, output) = match self.check(dir, tree, &summary, deadline).await {
                Ok(Check::Green(done)) => {
                    return finished(*done, report(branch, &driven.told, summary));
                }
                Ok(Check::Red { what, output }) => (what, output),
                Ok(Check::Halted(why)) => return self.let_go(why),
                Err(error) => return unable(why(dir.parent().unwrap_or(dir), error)),
            };
            log.line(&format!("-- {what} failed\n{output}"));
            let can_fix = config.preset.prompt != PromptBy::Description;
            if fixes == config.fixes_max || !can_fix {
                return failed(
                    FailureType::QualityFailure,
                    format!("{what} failed"),
                    &output,
                );
            }
            fixes += 1;
            let again = format!(
                "{what} failed; back to work, {fixes} of {}",
                config.fixes_max
            );
            self.say(What::Step, again).await;
            session = driven
                .told
                .session
                .filter(|_| !config.preset.resume.is_empty());
            let red = prompt::red(&what, &output);
            text = match session {
                Some(_) => red,
                None => format!(
                    "{}\n{red}",
                    prompt::task(self.task, &self.desk.agent, branch, &config.gates)
                ),
            };
        }
    }

    /// jetpack: the estimate is the limit, where there is one.
    fn time_max(&self) -> Duration {
        let estimate = self.task.estimated_minutes.filter(|minutes| *minutes > 0);
        estimate.map_or(self.shop.config.time_max, |minutes| MINUTE * minutes)
    }

    /// The leases of the task's files, all or the reason why not; what was got ends with the claim.
    async fn lease(&self) -> Result<(), String> {
        for file in &self.task.files {
            let request = lease_of(&self.desk.agent, self.task, file);
            let answer = self.shop.client.leases().acquire(&request).await;
            let answer = answer.map_err(|error| format!("{file} cannot be leased: {error}"))?;
            if !answer.success {
                let holder = answer.held_by.unwrap_or_default();
                return Err(format!("{file} is leased by {holder}"));
            }
        }
        Ok(())
    }

    /// The branch that the only dependency was done on.
    async fn branch_of_dependency(&self) -> Option<String> {
        let [only] = &self.task.dependencies[..] else {
            return None;
        };
        let details = self.shop.client.tasks().get(only).await.ok()?;
        let result: serde_json::Value = serde_json::from_str(details.task.result?.get()).ok()?;
        result["branch"].as_str().map(str::to_owned)
    }

    /// Whatever else than "it says that it is done".
    fn ended_badly(&self, driven: &Driven) -> Option<Outcome> {
        let told = &driven.told;
        let tail = &driven.tail;
        let ended = match &driven.end {
            End::Halted(why) => return Some(self.let_go(why.clone())),
            End::NotStarted(error) => {
                let program = self
                    .shop
                    .config
                    .preset
                    .argv
                    .first()
                    .map_or("", String::as_str);
                let text = format!("{program} cannot be started: {error}");
                return Some(failed(FailureType::ResourceError, text, tail));
            }
            End::Ended(ended) => ended,
        };
        if driven.is_overtime() {
            let text = format!(
                "it took longer than {} minutes",
                self.time_max().as_secs() / 60
            );
            return Some(failed(FailureType::TaskTimeout, text, tail));
        }
        let is_good = ended.status.success() && told.error.is_none();
        if is_good {
            return None;
        }
        if let Some(limit) = told.limit {
            self.rest(limit);
            let text = told.error.clone().unwrap_or_default();
            return Some(exhausted(format!("usage limit: {text}"), tail));
        }
        let kind = match ended.status.code() {
            Some(_) => FailureType::TaskError,
            None => FailureType::AgentCrash,
        };
        let text = told.error.clone().unwrap_or_else(|| {
            format!(
                "the program ended with exit code {}",
                exit_code(ended.status)
            )
        });
        Some(failed(kind, text, tail))
    }

    fn let_go(&self, why: Halt) -> Outcome {
        match why {
            Halt::GiveBack(why) => Outcome::GiveBack(why),
            Halt::Lost(why) => Outcome::Lost(why),
            Halt::Spent => {
                let text = "the programs told of more cost than --max-cost allows".to_owned();
                exhausted(text, "")
            }
        }
    }

    /// All slots of this program rest until its limit ends.
    fn rest(&self, limit: Limit) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut rest = self.shop.rest.lock();
        rest.limited(limit.reset, Instant::now(), wall.unwrap_or_default());
    }

    /// Commits, and holds what was committed against the gates.
    async fn check(
        &self,
        dir: &Path,
        tree: Option<&Tree>,
        summary: &str,
        deadline: Instant,
    ) -> Result<Check, String> {
        let (mut evidence, mut figures) = (Vec::new(), Vec::new());
        let (mut commit, mut changed) = (None, Changed::default());
        let gates = &self.shop.config.gates;
        if let (Some(tree), Some(trees)) = (tree, &self.shop.config.trees) {
            let began = std::time::Instant::now();
            let at = match trees.commit(tree, &self.authorship(summary)).await? {
                Committed::At(commit) => commit,
                Committed::Refused(output) => {
                    return Ok(Check::Red {
                        what: "git commit".to_owned(),
                        output,
                    });
                }
            };
            changed = trees.changed(tree, &at).await?;
            if self.task.kind == TaskType::Code && changed == Changed::default() {
                let output = "Nothing was changed, and this task asks for a change.".to_owned();
                return Ok(Check::Red {
                    what: "the task".to_owned(),
                    output,
                });
            }
            // That the tree is clean is no proof of anything by itself.
            if !gates.is_empty() {
                let is_clean = trees.is_clean(tree).await?;
                evidence.push(Evidence {
                    command: "git status --porcelain".to_owned(),
                    exit_code: i32::from(!is_clean),
                    duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    commit: Some(at.clone()),
                    source: EvidenceSource::Worker,
                });
                Trees::disturb(tree);
            }
            commit = Some(at);
        }
        for gate in gates {
            self.say(What::Step, format!("gate: {}", gate.name)).await;
            let left = deadline
                .saturating_duration_since(Instant::now())
                .max(MINUTE);
            let stop = async {
                tokio::select! {
                    _ = halted(&self.halt) => {}
                    () = self.shop.stopping() => {}
                }
            };
            let verdict = gate.judge(dir, commit.as_deref(), left, stop).await;
            if let Some(why) = self.halt.borrow().clone() {
                return Ok(Check::Halted(why));
            }
            if self.shop.is_stopping() {
                return Ok(Check::Halted(Halt::GiveBack(
                    "the worker was stopped".to_owned(),
                )));
            }
            if verdict.evidence.exit_code != 0 {
                return Ok(Check::Red {
                    what: gate.name.clone(),
                    output: verdict.output,
                });
            }
            evidence.push(verdict.evidence);
            figures.push(verdict.figures);
        }
        Ok(Check::Green(Box::new(Green {
            changed,
            evidence,
            figures,
        })))
    }

    /// What is there when an attempt ends early is kept on its branch, for the next one.
    async fn commit_rest(&self, tree: Option<&Tree>, summary: &str) {
        let (Some(tree), Some(trees)) = (tree, &self.shop.config.trees) else {
            return;
        };
        let text = match trees.commit(tree, &self.authorship(summary)).await {
            Ok(Committed::At(_)) => return,
            Ok(Committed::Refused(output)) => output,
            Err(error) => error,
        };
        self.say(
            What::Trouble,
            format!("what is in the worktree stays uncommitted: {text}"),
        )
        .await;
    }

    async fn close(&self, tree: Tree) {
        let path = tree.path.clone();
        let Some(trees) = &self.shop.config.trees else {
            return;
        };
        match trees.close(tree).await {
            Ok(None) => {}
            Ok(Some(why)) => {
                self.say(What::Step, format!("{} stays: {why}", path.display()))
                    .await
            }
            Err(error) => {
                self.say(What::Trouble, format!("{} stays: {error}", path.display()))
                    .await
            }
        }
    }

    fn authorship<'a>(&'a self, summary: &'a str) -> Authorship<'a> {
        Authorship {
            task: self.task,
            agent: &self.desk.agent,
            summary,
        }
    }

    async fn say(&self, what: What, text: String) {
        self.shop
            .say(what, &self.desk.agent, Some(self.task.number), text)
            .await;
    }
}

/// Keeps the leases, until it is dropped.
async fn renew(shop: Arc<Shop>, agent: String, task: Task) {
    loop {
        tokio::time::sleep(LEASE_FOR / 2).await;
        for file in &task.files {
            // The next report finds out if it is lost.
            let _ = shop
                .client
                .leases()
                .acquire(&lease_of(&agent, &task, file))
                .await;
        }
    }
}

fn lease_of(agent: &str, task: &Task, file: &str) -> AcquireLeaseRequest {
    AcquireLeaseRequest {
        agent_id: agent.to_owned(),
        task_id: Some(task.id.clone()),
        epoch: Some(task.epoch),
        file_path: file.to_owned(),
        duration_ms: i64::try_from(LEASE_FOR.as_millis()).unwrap_or(i64::MAX),
    }
}

fn finished(found: Green, told: TaskResult) -> Outcome {
    let result = TaskResult {
        files_created: found.changed.created,
        files_modified: found.changed.modified,
        files_deleted: found.changed.deleted,
        ..told
    };
    Outcome::Done(Box::new(Finished {
        result,
        metrics: Figures::metrics(&found.figures),
        evidence: found.evidence,
    }))
}

/// What the program told of, without the files.
fn report(branch: Option<&str>, told: &Told, summary: String) -> TaskResult {
    let mut result = TaskResult {
        summary,
        ..TaskResult::default()
    };
    let others = [
        ("branch", branch.map(Into::into)),
        ("tokens", told.tokens.map(Into::into)),
        ("costUsd", told.cost_usd.map(Into::into)),
    ];
    for (name, value) in others {
        if let Some(value) = value {
            result.other.insert(name.to_owned(), value);
        }
    }
    result
}

fn summary(told: &Told) -> String {
    let text = told
        .summary
        .as_deref()
        .unwrap_or("the program ended without a word");
    redact::text(text).chars().take(TEXT_CHARS_MAX).collect()
}

fn failed(kind: FailureType, message: String, details: &str) -> Outcome {
    Outcome::Failed(failure(kind, message, details))
}

/// The worker itself could not go on.
fn unable(text: String) -> Outcome {
    match is_full(&text) {
        true => exhausted(text, ""),
        false => failed(FailureType::ResourceError, text, ""),
    }
}

/// What the worker may use is used up, which is not for the task: no retry is spent on it.
fn exhausted(message: String, details: &str) -> Outcome {
    Outcome::Failed(Failure {
        spends_retry: Some(false),
        ..failure(FailureType::ResourceError, message, details)
    })
}

fn failure(kind: FailureType, message: String, details: &str) -> Failure {
    let skipped = details.chars().count().saturating_sub(TEXT_CHARS_MAX);
    let end: String = details.chars().skip(skipped).collect();
    Failure {
        kind,
        message: redact::text(&message)
            .chars()
            .take(TEXT_CHARS_MAX)
            .collect(),
        details: (!end.is_empty()).then(|| redact::text(&end).into_owned()),
        recoverable: true,
        suggested_action: None,
        spends_retry: None,
    }
}
