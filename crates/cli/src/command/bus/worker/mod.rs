//! `switchboard bus worker`: a small worker, for trying the bus out and for running a command per task.

mod job;
mod program;
mod walk;

use std::time::Duration;

use clap::Args as ClapArgs;
use switchboard_client::bus::{
    BusError, Worker, WorkerConfig, WorkerEvent, WorkerEvents, WorkerHandle, state,
};
use switchboard_hub::bus::authority::Role;
use switchboard_wire::agentbus::message::{Accomplished, AgentMessage, ErrorReport, TaskAssigned};
use switchboard_wire::agentbus::{OperatorOrder, Stage, UtcTime, engram};
use tokio::time::Instant;

use super::call::{FRESH_FOR, IMPATIENT, maybe_unknown};
use super::failed::{failed, trying_again};
use super::reach::{Door, Reach, VISIT_FOR, Visitor, credential};
use super::show::step;
use crate::context::{Context, exported_agent};
use crate::failure::Failure;
use crate::screen::{Screen, Tone, brief, clean, paint};
use crate::show::{now, time};
use crate::terminal::stopped;
use job::{Job, Mishap, Note, Outcome};

/// Longest piece of a text that others wrote.
const TEXT_MAX: usize = 100;
/// Of the worker's id, so much goes into the id of an error.
const ID_CHARS_MAX: usize = 64;
/// What a worker without a command says first.
const PRETENDS: &str =
    "this worker pretends: it reports tasks as done and does nothing; --run COMMAND does real work";

/// Run a small worker, to try out the bus
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Takes tasks from the director, one at a time. Without --run it only pretends: it steps through the stages of a worker
and reports the task as done. With --run it runs the command in a shell for each task, with TASK_ID, ISSUE_NUMBER, TITLE,
DESCRIPTION, ATTEMPT, EPOCH, BRANCH and WORKER_ID in its environment and the whole assignment as JSON on its stdin. The
last line of its output becomes the summary; an exit code other than 0 is reported as an error.

Ctrl-C or SIGTERM stops the command and sends worker_leaving.v1: the task returns to the queue, no retry is spent, and
this worker gets no more tasks. After a disconnect the worker continues its task, and resends a result until the
director acknowledges it.

A hub with auth = \"hmac\" requires a signed hello: with SWITCHBOARD_AGENT and SWITCHBOARD_KEY, as 'switchboard agent
add' prints them, with the token given, or with the key of the hub on this machine.

Examples:
  switchboard bus worker
  switchboard bus worker --id worker-3 --skill rust --skill sql
  switchboard bus worker --once --run 'echo \"$TITLE\" && make test'
  switchboard bus worker --json | jq -c .message_type")]
pub struct Args {
    /// A skill of this worker; may be repeated
    #[arg(long = "skill", short, value_name = "SKILL")]
    skills: Vec<String>,
    /// The command to run for each task
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Exit after one task
    #[arg(long)]
    once: bool,
    /// Seconds between heartbeats, if they are more than the director's setting
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: Option<u64>,
    #[command(flatten)]
    door: Door,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let exported = exported_agent();
    let new = || format!("worker-{}", std::process::id());
    let agent = exported.as_ref().map(|(agent, _)| agent.clone());
    let id = args.door.id(|| agent.unwrap_or_else(new));
    let visitor = Visitor {
        id: &id,
        role: Role::Worker,
        lasts: VISIT_FOR,
    };
    let mut reach = args.door.reach(context, &visitor)?;
    if let Some((_, key)) = exported.filter(|(agent, _)| *agent == id) {
        reach.credential = Some(credential(&key)?);
    }
    let config = WorkerConfig {
        tls: reach.tls.clone(),
        credential: reach.credential.clone(),
        heartbeat_every: args.every.map(Duration::from_secs),
        backoff: IMPATIENT,
        show_lines: context.screen.json(),
        ..WorkerConfig::new(&reach.addr, &id).taking_tasks(args.skills.clone())
    };
    if args.run.is_none() {
        say(&mut context.screen, Tone::Warn, PRETENDS)?;
    }
    let (worker, events) = Worker::connect(config).map_err(|error| failed(&error, &reach))?;
    let mut bench = Bench {
        worker: worker.clone(),
        reach,
        program: args.run,
        once: args.once,
        began: Instant::now(),
        job: None,
    };
    let ended = bench.serve(events, &mut context.screen).await;
    worker.close().await;
    ended
}

/// What the worker has before it.
struct Bench {
    worker: WorkerHandle,
    reach: Reach,
    program: Option<String>,
    once: bool,
    began: Instant,
    job: Option<Job>,
}

/// Whether to go on.
enum Next {
    On,
    Leave,
}

impl Bench {
    async fn serve(
        &mut self,
        mut events: WorkerEvents,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let mut stop = std::pin::pin!(stopped());
        loop {
            let next = tokio::select! {
                biased;
                () = &mut stop => {
                    self.stop("the worker was stopped", screen).await?;
                    Next::Leave
                }
                note = Job::next(&mut self.job) => self.note(note, screen).await?,
                event = events.recv() => match event {
                    Some(event) => self.hear(event, screen).await?,
                    None => Next::Leave,
                },
            };
            screen.flush()?;
            match next {
                Next::On => {}
                Next::Leave => return Ok(()),
            }
        }
    }

    async fn hear(&mut self, event: WorkerEvent, screen: &mut Screen) -> Result<Next, Failure> {
        match event {
            WorkerEvent::Assigned(task) => self.begin(task, screen).await?,
            WorkerEvent::Revoked(told) => {
                let reason = brief(&told.reason, TEXT_MAX);
                let text = format!("#{} was taken away: {reason}", told.issue_number);
                say(screen, Tone::Warn, &text)?;
                let ours = |job: &Job| {
                    (job.task.issue_number, job.task.epoch) == (told.issue_number, told.epoch)
                };
                if self.job.as_ref().is_some_and(ours) {
                    self.job = None;
                    self.idle().await?;
                }
            }
            WorkerEvent::Message(message) => self.read(&message, screen).await?,
            WorkerEvent::Commanded(command) if command.command == OperatorOrder::ShutdownWorker => {
                let reason = brief(&command.reason, TEXT_MAX);
                let colon = if reason.is_empty() { "" } else { ": " };
                let text = format!("asked to shut down{colon}{reason}");
                say(screen, Tone::Warn, &text)?;
                self.stop("an operator asked the worker to shut down", screen)
                    .await?;
                return Ok(Next::Leave);
            }
            WorkerEvent::Ended(error) => return Err(failed(&error, &self.reach)),
            WorkerEvent::Line { text, .. } => screen.line(clean(&text))?,
            WorkerEvent::Disconnected { error, .. } => self.lost(&error, screen)?,
            other => {
                if let Some((tone, text)) = heard(&other, &self.reach, self.worker.worker_id()) {
                    say(screen, tone, &text)?;
                }
            }
        }
        Ok(Next::On)
    }

    fn lost(&self, error: &BusError, screen: &mut Screen) -> Result<(), Failure> {
        let fresh = self.reach.may_be_new() && self.began.elapsed() < FRESH_FOR;
        if fresh && maybe_unknown(error) {
            return Ok(());
        }
        say(screen, Tone::Warn, &trying_again(error, &self.reach))
    }

    async fn begin(&mut self, task: TaskAssigned, screen: &mut Screen) -> Result<(), Failure> {
        let (number, epoch) = (task.issue_number, task.epoch);
        if let Some(job) = &self.job {
            let reason = format!("busy with #{}", job.task.issue_number);
            say(screen, Tone::Warn, &format!("#{number} declined: {reason}"))?;
            let declined = self.worker.decline(number, epoch, reason).await;
            return declined.map_err(|error| failed(&error, &self.reach));
        }
        let title = brief(&task.title, TEXT_MAX);
        let taken = if task.resumed {
            "taken up again"
        } else {
            "taken"
        };
        let text = format!("#{number} {taken}, attempt {}: {title}", task.attempt);
        say(screen, Tone::Busy, &text)?;
        let accepted = self.worker.accept(number, epoch).await;
        accepted.map_err(|error| failed(&error, &self.reach))?;
        self.job = Some(match &self.program {
            Some(program) => program::start(program, task, self.worker.worker_id()),
            None => walk::start(task),
        });
        Ok(())
    }

    /// Something about the task at hand.
    async fn note(&mut self, note: Note, screen: &mut Screen) -> Result<Next, Failure> {
        let outcome = match note {
            Note::At(state) => {
                let text = step(state.stage, state.issue_number, state.progress.as_ref());
                say(screen, Tone::Busy, &text)?;
                self.told(self.worker.heartbeat(state).await)?;
                return Ok(Next::On);
            }
            Note::Output(line) => {
                if !screen.json() {
                    screen.line(format!("  {}", clean(&line)))?;
                }
                return Ok(Next::On);
            }
            Note::Ended(outcome) => outcome,
        };
        let Some(job) = self.job.take() else {
            return Ok(Next::On);
        };
        let number = job.task.issue_number;
        match outcome {
            Outcome::Done(result) => {
                self.finish(&job.task, result).await?;
                say(screen, Tone::Good, &format!("#{number} done"))?;
            }
            Outcome::Failed(mishap) => {
                let text = format!("#{number} failed: {}", brief(&mishap.message, TEXT_MAX));
                say(screen, Tone::Bad, &text)?;
                let report = report(&job.task, mishap, self.worker.worker_id());
                self.told(self.worker.error(report).await)?;
                self.idle().await?;
                if self.once {
                    return Err(Failure::Failed(text));
                }
            }
        }
        Ok(if self.once { Next::Leave } else { Next::On })
    }

    async fn finish(&self, task: &TaskAssigned, result: Accomplished) -> Result<(), Failure> {
        let (number, epoch) = (task.issue_number, task.epoch);
        self.told(self.worker.result(number, epoch, result, None).await)?;
        self.idle().await
    }

    async fn read(&self, message: &AgentMessage, screen: &mut Screen) -> Result<(), Failure> {
        let (from, body) = (clean(&message.from), brief(message.body.get(), TEXT_MAX));
        say(screen, Tone::Busy, &format!("{from} says: {body}"))?;
        if message.ack_required {
            self.told(self.worker.ack(&message.message_id).await)?;
        }
        Ok(())
    }

    /// Ends the work at hand; that the worker leaves gives the task back, and no retry is spent.
    async fn stop(&mut self, why: &str, screen: &mut Screen) -> Result<(), Failure> {
        let Some(job) = self.job.take() else {
            return Ok(());
        };
        let number = job.task.issue_number;
        say(
            screen,
            Tone::Warn,
            &format!("#{number} is given back: {why}"),
        )?;
        job.stop().await;
        Ok(())
    }

    async fn idle(&self) -> Result<(), Failure> {
        self.told(self.worker.heartbeat(state(Stage::Start, 0, 0)).await)
    }

    fn told(&self, said: Result<(), BusError>) -> Result<(), Failure> {
        said.map_err(|error| failed(&error, &self.reach))
    }
}

/// Events that are only worth a line.
fn heard(event: &WorkerEvent, reach: &Reach, id: &str) -> Option<(Tone, String)> {
    match event {
        WorkerEvent::Connected(welcome) => {
            let run = clean(&welcome.director.run_id);
            let text = format!("connected to {} as {id}, {run}", reach.addr);
            Some((Tone::Good, text))
        }
        WorkerEvent::SyncRequired(told) => {
            let main = brief(&told.main_sha_expected, 40);
            let text = format!(
                "told to {} at {main}: {}",
                told.required_action, told.reason
            );
            Some((Tone::Warn, text))
        }
        WorkerEvent::EngramAnnounced(told) => {
            Some((Tone::Dim, format!("new engram {}", clean(&told.path))))
        }
        WorkerEvent::Released(told) => {
            Some((Tone::Dim, format!("release {} is out", clean(&told.tag))))
        }
        WorkerEvent::Refused(told) => Some((
            Tone::Bad,
            format!("{}: {}", told.code, brief(&told.message, TEXT_MAX)),
        )),
        WorkerEvent::Commanded(command) => {
            Some((Tone::Dim, format!("operator command: {}", command.command)))
        }
        WorkerEvent::ResultTaken(told) if told.accepted && told.reason.is_none() => None,
        WorkerEvent::ResultTaken(told) => {
            let reason = brief(told.reason.as_deref().unwrap_or_default(), TEXT_MAX);
            let counts = if told.accepted {
                "was accepted"
            } else {
                "was not accepted"
            };
            let text = format!("#{}: the result {counts}: {reason}", told.issue_number);
            Some((Tone::Warn, text))
        }
        // Nothing here asks for these, and the rest is dealt with before.
        WorkerEvent::MessageState(_)
        | WorkerEvent::Catalog(_)
        | WorkerEvent::CatalogChanged(_)
        | WorkerEvent::Engram(_)
        | WorkerEvent::Budget(_)
        | WorkerEvent::Disconnected { .. }
        | WorkerEvent::Assigned(_)
        | WorkerEvent::Revoked(_)
        | WorkerEvent::Message(_)
        | WorkerEvent::Line { .. }
        | WorkerEvent::Ended(_) => None,
    }
}

/// A line for a person; a program reads the frames.
fn say(screen: &mut Screen, tone: Tone, text: &str) -> Result<(), Failure> {
    if screen.json() {
        return Ok(());
    }
    Ok(screen.line(format!("{} {}", time(), paint(text, tone)))?)
}

fn report(task: &TaskAssigned, mishap: Mishap, worker_id: &str) -> ErrorReport {
    let at = engram::batch_id(UtcTime(now().0));
    let short: String = worker_id.chars().take(ID_CHARS_MAX).collect();
    ErrorReport {
        error_id: format!(
            "{at}-{short}-{}-attempt-{}",
            task.issue_number, task.attempt
        ),
        worker_id: worker_id.to_owned(),
        issue_number: task.issue_number,
        stage: Stage::Code,
        attempt: task.attempt,
        error_type: mishap.error_type,
        is_transient: mishap.is_transient,
        should_retry: mishap.should_retry,
        escalate_to_human: false,
        message: mishap.message,
        exit_code: mishap.exit_code,
        container_id: None,
        worktree_path: None,
        last_stdout_tail: mishap.stdout,
        last_stderr_tail: mishap.stderr,
        retry_after_seconds: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_error_names_worker_and_attempt_and_stays_an_id() {
        let task = job::tests::task(21);
        let mishap = || Mishap {
            error_type: "docker_exit_nonzero".to_owned(),
            message: "exit code 3".to_owned(),
            ..Mishap::default()
        };
        let report = report(&task, mishap(), "worker-3");
        let id = &report.error_id;
        assert!(id.ends_with("Z-worker-3-21-attempt-2"), "{id}");
        let long = super::report(&task, mishap(), &"w".repeat(128));
        assert!(long.error_id.len() <= 128);
    }
}
