//! One run of an agent: the workspace made ready, the request given, the answer judged, and all of it one interaction.
//!
//! The run is in the ledger before its program begins, and out of it only when nothing of it is left in the workspace.
//! A run that somebody else ended meanwhile (a person, a limit) leaves nothing behind but its files.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use switchboard_child::{Cause, orphans};
use switchboard_core::job::{Job, JobAction, JobRole, JobSpec, RunBy, Tokens};
use switchboard_core::job_history::{
    Answer, CallWaits, Checkpoint, Interaction, Judged, Length, NewExchange, RecoveryPoint,
    Violation,
};
use switchboard_core::limits;
use switchboard_core::verb::job::{BeginJobRun, EndJobRun, NoteJobRun, RecoverJob};
use switchboard_wire::logist::call::{self, Told};
use switchboard_wire::logist::history::{AskedBy, Given};
use switchboard_wire::logist::metrics::Reported;
use switchboard_wire::logist::request::{self, Request};
use switchboard_wire::logist::response::{self, Judgement, Terms};
use switchboard_wire::redact;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Jobs;
use super::agent::{Call, Kept, Printed, started};
use super::directory::Directory;
use super::pack::Packer;
use super::roles;
use super::workspace::{Stamp, Workspace};
use crate::config;
use crate::hub::Error;

/// What a program left running is asked to end within this.
const GRACE: Duration = Duration::from_secs(1);
/// An answer that cannot be written down is kept, and tried again so soon.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Of changed files that an agent did not mention, so many are named.
const NAMED_MAX: usize = 5;

/// A job whose turn it is, with what its next request says.
struct Work<'a> {
    jobs: &'a Jobs,
    job: Job,
    spec: JobSpec,
    role: JobRole,
    agent: &'a config::Agent,
    last: Option<Interaction>,
    workspace: Workspace,
    directory: Directory,
    run: String,
}

/// How a run went.
struct Outcome {
    judged: Judged,
    exchange: NewExchange,
    checkpoint: Option<Checkpoint>,
}

/// Runs the next step of a job. What cannot be done is on record, or tried again.
pub(super) async fn one(jobs: &Jobs, job: &Job, stop: &CancellationToken) {
    if let Err(error) = step(jobs, job, stop).await {
        match error {
            // Somebody else was first.
            Error::Refused(_) | Error::Stopping => {
                tracing::debug!(%error, "job {} does not go on", job.id)
            }
            error => tracing::warn!("job {} cannot go on: {error}; it is tried again", job.id),
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = sleep(super::runner::RETRY_AFTER) => {}
        }
    }
}

async fn step(jobs: &Jobs, job: &Job, stop: &CancellationToken) -> Result<(), Error> {
    jobs.look(Some(&job.id)).await?;
    let Some(work) = Work::of(jobs, job).await? else {
        return Ok(());
    };
    let ready = work.prepare().await;
    let base = ready.as_ref().ok().and_then(Option::as_ref);
    let begun = work.begin(base).await?;
    if !begun {
        return Ok(());
    }
    let outcome = match ready {
        Ok(_) => work.ask(stop).await?,
        Err(why) => Some(work.broken(why)),
    };
    match outcome {
        Some(outcome) => work.end(outcome).await,
        None => work.recover("the hub stopped").await,
    }
}

impl<'a> Work<'a> {
    async fn of(jobs: &'a Jobs, job: &Job) -> Result<Option<Work<'a>>, Error> {
        let id = job.id.to_string();
        let read = jobs.hub.read(move |ledger| {
            let job: Option<Job> = ledger.private(id.clone())?;
            let last = job
                .as_ref()
                .map(|job| Interaction::key_of(&job.id, job.last_sequence));
            let last = last
                .map(|key| ledger.private::<Interaction>(key))
                .transpose()?;
            Ok((job, ledger.private::<JobSpec>(id)?, last.flatten()))
        });
        let (Some(job), Some(spec), last) = read.await? else {
            return Ok(None);
        };
        let Some(role) = job.next_role() else {
            return Ok(None);
        };
        let agent = jobs
            .agent(role)
            .filter(|_| spec.run_by == RunBy::Agents && job.task.is_none());
        let Some(agent) = agent else {
            return Ok(None);
        };
        let directory = Directory::new(&job.directory);
        Ok(Some(Work {
            run: jobs.ids.fresh("run"),
            workspace: Workspace::of(&directory.root, &job.id),
            directory,
            jobs,
            job,
            spec,
            role,
            agent,
            last,
        }))
    }

    /// Makes the workspace as the run is to find it; before the first one, the commit it is at.
    async fn prepare(&self) -> Result<Option<String>, String> {
        let repository = self.spec.repository.as_deref().map(Path::new);
        self.workspace.open(repository).await?;
        let Some(id) = &self.job.restore else {
            let message = format!("job {}: before the first run", self.job.id);
            return match self.job.runs {
                0 => self.workspace.checkpoint(&message).await.map(Some),
                _ => Ok(None),
            };
        };
        let key = RecoveryPoint::key_of(&self.job.id, id);
        let point = self
            .jobs
            .hub
            .read(move |ledger| ledger.private::<RecoveryPoint>(key))
            .await;
        let point = point.map_err(|error| error.to_string())?;
        let commit = point.and_then(|point| point.commit);
        let commit = commit.ok_or_else(|| format!("checkpoint {id} has no files to go back to"))?;
        self.workspace
            .restore(&commit, &format!("job {}: back to {id}", self.job.id))
            .await
            .map(Some)
    }

    /// False if the job is kept by a limit.
    async fn begin(&self, base: Option<&String>) -> Result<bool, Error> {
        let begin = BeginJobRun {
            job: self.job.id.clone(),
            run: self.run.clone(),
            by: self.jobs.hub.shared.name.clone(),
            checkpoint: base.map(|commit| Checkpoint {
                commit: Some(commit.clone()),
                files: Vec::new(),
            }),
        };
        Ok(self.jobs.hub.run(begin).await?.halted.is_none())
    }

    /// Runs the agent and judges its answer; nothing if the hub stops.
    async fn ask(&self, stop: &CancellationToken) -> Result<Option<Outcome>, Error> {
        let request = self.request();
        let prompt =
            serde_json::to_string_pretty(&request).expect("text and numbers are always JSON");
        let mut exchange = match self.exchange(&request, &prompt) {
            Ok(exchange) => exchange,
            Err(why) => return Ok(Some(self.broken(why))),
        };
        let call = match self.call(prompt) {
            Ok(call) => call,
            Err(why) => {
                return Ok(Some(Outcome {
                    exchange,
                    ..self.broken(why)
                }));
            }
        };
        let before = Stamp::of(&self.workspace);
        let began = async |process: Option<u32>| self.note(process).await;
        let stopped = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.ended_elsewhere() => {}
            }
        };
        let printed = call.run(began, stopped).await;
        orphans::end(&[&self.run], GRACE).await;
        let printed = match printed {
            Ok(printed) => printed,
            Err(error) => {
                let why = format!("the {}'s program cannot be run: {error}", self.role);
                return Ok(Some(Outcome {
                    exchange,
                    ..self.broken(why)
                }));
            }
        };
        if printed.ended.cause == Cause::Stopped {
            return Ok(None);
        }
        let (mut judged, raw) = self.judge(&printed);
        (exchange.raw, exchange.raw_length) = (Packer::pack(&raw), printed.length);
        let checkpoint = self.keep(&mut judged, &before).await;
        let checkpoint = checkpoint.unwrap_or_else(|why| {
            judged.answer = Answer::Broken {
                why: format!("the workspace cannot be kept: {why}"),
            };
            None
        });
        Ok(Some(Outcome {
            judged,
            exchange,
            checkpoint,
        }))
    }

    fn request(&self) -> Request {
        let prompt = roles::system_prompt(&self.jobs.settings.dir, self.role);
        let exists = |path: &str| self.workspace.path.join(path).exists();
        request::request(
            &self.job,
            &self.spec,
            self.role,
            &prompt,
            self.last.as_ref(),
            exists,
        )
    }

    fn exchange(&self, request: &Request, prompt: &str) -> Result<NewExchange, String> {
        let (kept, length) = Kept::of(prompt);
        let packed = match self.spec.is_sensitive {
            true => {
                let sealed = self.jobs.packer.seal(&kept, &self.job.id, &self.run);
                sealed.map_err(|error| error.to_string())?
            }
            false => Packer::pack(&kept),
        };
        let given = Given {
            files_context: request.context_files.clone(),
            metadata: AskedBy {
                role: self.role.to_string(),
                phase: request.phase.clone(),
                ..AskedBy::default()
            },
        };
        Ok(NewExchange {
            prompt: packed,
            prompt_length: length,
            raw: Packer::pack(""),
            raw_length: Length::default(),
            request: serde_json::to_string(&given).expect("text is always JSON"),
            workspace: self.workspace.path.display().to_string(),
        })
    }

    fn call(&self, prompt: String) -> Result<Call, String> {
        let settings = &self.jobs.settings;
        let left = self.job.limits.millis.saturating_sub(self.job.sums.millis);
        let left = Duration::from_millis(left);
        let role = self.role.as_str().to_lowercase();
        Ok(Call {
            request: prompt.into_bytes(),
            time_max: self
                .agent
                .seconds_max
                .map_or(left, |most| left.min(Duration::from_secs(most))),
            quiet_max: match self.role {
                JobRole::Supervisor => settings.supervisor_quiet,
                JobRole::Worker | JobRole::Steward | JobRole::System => settings.worker_quiet,
            },
            log: self
                .directory
                .root
                .join("logs")
                .join(format!("{}-{role}.log", self.job.runs + 1)),
            ..Call::new(self.agent, &self.workspace.path, &self.run)?
        })
    }

    /// Whoever serves here next can tell its processes.
    async fn note(&self, process: Option<u32>) {
        let Some((group, started)) = process.and_then(|group| Some((group, started(group)?)))
        else {
            return;
        };
        let note = NoteJobRun {
            job: self.job.id.clone(),
            run: self.run.clone(),
            group,
            started,
        };
        if let Err(error) = self.jobs.hub.run(note).await {
            tracing::debug!(%error, "the process of {} is known by its environment alone", self.run);
        }
    }

    /// Until the ledger has another run of the job, or none.
    async fn ended_elsewhere(&self) {
        let mut bell = self.jobs.hub.shared.wakeups().jobs_bell();
        loop {
            let job = self.jobs.job(&self.job.id).await;
            let is_ours = |job: &Job| job.run.as_ref().is_some_and(|run| run.id == self.run);
            match job {
                Ok(Some(job)) if is_ours(&job) => {}
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "run {} goes on", self.run),
            }
            if bell.changed().await.is_err() {
                return;
            }
        }
    }

    /// What its output means, and that output without secrets.
    fn judge(&self, printed: &Printed) -> (Judged, String) {
        let raw = response::sanitized(&printed.raw);
        let stderr = redact::text(&printed.stderr);
        let root = self.workspace.path.canonicalize();
        let root = root.unwrap_or_else(|_| self.workspace.path.clone());
        let leads = |path: &Path| path.canonicalize().ok();
        let workspace = response::Workspace {
            root: &root,
            leads: &leads,
        };
        let terms = Terms {
            workspace: Some(&workspace),
            ..Terms::default()
        };
        let found = response::judge(&raw, &terms);
        let answer = answer(printed, &stderr, &found);
        let mut warnings = found.warnings.clone();
        let own = Reported {
            cost_micros: printed.cost_usd.map(|cost| (cost * 1e6).round() as u64),
            tokens: printed.tokens.map(|input| Tokens {
                input,
                ..Tokens::default()
            }),
            model: None,
        };
        let of_stderr = Reported::of_stderr(&stderr, &mut warnings);
        let is_response = matches!(answer, Answer::Said(_) | Answer::Invalid { .. });
        let found = Some(found).filter(|_| is_response);
        let (files, summary, reported) = found.map_or_else(Default::default, |found| {
            (found.evidence_files, found.summary, found.reported)
        });
        let reported = reported.or(of_stderr).or(own);
        let judged = Judged {
            answer,
            evidence_files: files,
            summary,
            warnings,
            cost_micros: reported.cost_micros,
            tokens: reported.tokens.unwrap_or_default(),
            model: reported.model,
            millis: u64::try_from(printed.took.as_millis()).unwrap_or(u64::MAX),
        };
        (judged, raw)
    }

    /// A checkpoint where the phase is done, and a warning of files that the agent changed and did not mention.
    async fn keep(
        &self,
        judged: &mut Judged,
        before: &Stamp,
    ) -> Result<Option<Checkpoint>, String> {
        let Answer::Said(action) = judged.answer else {
            return Ok(None);
        };
        let changed = match before.changed(&Stamp::of(&self.workspace)) {
            Some(changed) => changed,
            None => self.workspace.changed().await?,
        };
        if let Some(warning) = self.unnamed(&judged.evidence_files, &changed).await? {
            judged.warnings.push(warning);
        }
        let is_last_word = self.role == JobRole::Supervisor || !self.spec.has_supervisor();
        if action != JobAction::Completed || !is_last_word {
            return Ok(None);
        }
        let phase = self.spec.phases.get(self.job.phase);
        let phase = phase.map_or("", |phase| phase.name.as_str());
        let message = format!("job {}: phase {phase} is done", self.job.id);
        // What the worker made is part of the phase that its supervisor accepts.
        let made = self
            .last
            .iter()
            .filter(|_| self.role == JobRole::Supervisor);
        let made = made.flat_map(|last| last.evidence_files.iter().cloned());
        Ok(Some(Checkpoint {
            files: made.chain(changed).take(limits::JOB_EVIDENCE_MAX).collect(),
            commit: Some(self.workspace.checkpoint(&message).await?),
        }))
    }

    /// Says which changed files are not among those that an agent named.
    async fn unnamed(
        &self,
        named: &[String],
        changed: &[String],
    ) -> Result<Option<String>, String> {
        let is_named = |file: &str| {
            named
                .iter()
                .any(|named| is_in(Path::new(file), Path::new(named)))
        };
        let mut unnamed: Vec<&str> = changed.iter().map(String::as_str).collect();
        unnamed.retain(|file| !is_named(file));
        if !unnamed.is_empty() {
            let ignored = self.workspace.ignored(&unnamed).await?;
            unnamed.retain(|file| !ignored.contains(*file));
        }
        let (count, shown) = (
            unnamed.len(),
            unnamed[..unnamed.len().min(NAMED_MAX)].join(", "),
        );
        Ok((count > 0).then(|| {
            format!("evidence_incomplete: {count} changed files are not in evidence_files: {shown}")
        }))
    }

    fn broken(&self, why: String) -> Outcome {
        Outcome {
            judged: Judged {
                answer: Answer::Broken { why },
                evidence_files: Vec::new(),
                summary: String::new(),
                warnings: Vec::new(),
                cost_micros: None,
                tokens: Tokens::default(),
                model: None,
                millis: 0,
            },
            exchange: NewExchange {
                workspace: self.workspace.path.display().to_string(),
                ..NewExchange::default()
            },
            checkpoint: None,
        }
    }

    /// Writes down what came of it, for as long as it takes.
    async fn end(&self, outcome: Outcome) -> Result<(), Error> {
        let settings = &self.jobs.settings;
        let end = EndJobRun {
            job: self.job.id.clone(),
            run: self.run.clone(),
            judged: outcome.judged,
            exchange: outcome.exchange,
            checkpoint: outcome.checkpoint,
            waits: CallWaits {
                network: settings.api_wait,
                quota: settings.quota_wait,
            },
        };
        loop {
            match self.jobs.hub.run(end.clone()).await {
                // If it was written after all, it is refused now.
                Err(error @ (Error::Unavailable(_) | Error::Overloaded | Error::InDoubt(_))) => {
                    tracing::debug!(%error, "the end of run {} is written down in a moment", self.run);
                    sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(error),
                Ok(ended) => {
                    let (role, action) = (ended.interaction.role, ended.interaction.action);
                    tracing::info!(job.id = %self.job.id, "job {}: the {role} says {action}; it is {} now", self.job.id, ended.job.state);
                    return Ok(());
                }
            }
        }
    }

    async fn recover(&self, why: &str) -> Result<(), Error> {
        let recover = RecoverJob {
            job: self.job.id.clone(),
            run: self.run.clone(),
            by: self.jobs.hub.shared.name.clone(),
            why: why.to_owned(),
        };
        self.jobs.hub.run(recover).await.map(drop)
    }
}

fn answer(printed: &Printed, stderr: &str, found: &Judgement) -> Answer {
    let ended = call::told(&call::Printed {
        exit: printed.exit(),
        stdout: &printed.raw,
        stderr,
    });
    let seconds = printed.took.as_secs();
    match (printed.ended.cause, ended) {
        (Cause::Silent, _) => Answer::TimedOut {
            why: format!("the agent printed nothing for too long; it was ended after {seconds} s"),
        },
        (Cause::Overtime, _) | (_, Told::Timeout) => Answer::TimedOut {
            why: format!("the agent took longer than it may; it ended after {seconds} s"),
        },
        (_, Told::Call(error, why)) => Answer::CallFailed { error, why },
        (_, Told::Failed(why)) => Answer::Broken { why },
        (_, Told::Response) => match found.faults.first() {
            _ if printed.length.truncated => Answer::Invalid {
                violation: Violation::Malformed,
                why: format!(
                    "the response has {} bytes; expected one JSON object of at most {}",
                    printed.length.bytes,
                    limits::JOB_TEXT_BYTES_MAX
                ),
            },
            Some(fault) => Answer::Invalid {
                violation: fault.violation,
                why: found.error().unwrap_or_default(),
            },
            None => Answer::Said(found.action),
        },
    }
}

/// Whether a file is the one that is named, or in the directory that is.
fn is_in(file: &Path, named: &Path) -> bool {
    let plain = |path: &Path| -> PathBuf {
        let parts = path.components();
        parts
            .filter(|part| !matches!(part, Component::CurDir))
            .collect()
    };
    file.starts_with(plain(named))
}
