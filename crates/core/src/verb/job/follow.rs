//! What became of the task that is a job's phase: a claim is a run, and its end an answer.
//!
//! Whoever reads the log brings the ended attempts, which do not change any more, and the judgement on a result. What
//! was taken in already is known by the epoch, so that it counts once however often it is brought.

use super::Verb;
use super::answer::Answered;
use super::turn::{JobActor, Turn, ask_with_spec};
use crate::attempt::{Attempt, Outcome};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, JobId};
use crate::job::step::{Act, Next};
use crate::job::{Job, JobRole, JobRun, JobState, JobTask};
use crate::job_history::{Answer, CallError, CallWaits, Judged, NewExchange};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{FailureKind, Task, TaskState, TaskStatus};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct FollowJobTask {
    pub job: JobId,
    /// Those that have ended, oldest first.
    pub attempts: Vec<Attempt>,
    /// Of the result, once the task is completed.
    pub judged: Option<Judged>,
    pub exchange: NewExchange,
    pub waits: CallWaits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub job: Job,
    /// What was brought is not all that there is: read it again.
    pub again: bool,
}

impl Verb for FollowJobTask {
    type Reply = Followed;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(task) = ask_with_spec(want, &self.job).and_then(|job| job.task) {
            want.task(&task.id);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Followed, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let mut again = false;
        while let Some(known) = turn.job.task.clone() {
            match self.step(slice, &mut turn, &known)? {
                Step::On => {}
                Step::Rests => break,
                Step::Again => {
                    again = true;
                    break;
                }
            }
        }
        if turn.is_unchanged() {
            let job = turn.job;
            return Ok((Followed { job, again }, Changes::default()));
        }
        let (job, changes) = turn.end("switchboard", "its task in the queue");
        Ok((Followed { job, again }, changes))
    }
}

/// How far the job is after one claim was looked at.
enum Step {
    /// There may be more.
    On,
    Rests,
    Again,
}

impl FollowJobTask {
    fn step(&self, slice: &Slice, turn: &mut Turn<'_>, known: &JobTask) -> Result<Step, Refusal> {
        let Some(task) = slice.task(&known.id) else {
            recover(turn, "the task is gone");
            turn.job.task = None;
            return Ok(Step::Rests);
        };
        let next = known.epoch + 1;
        let ended = self.attempts.iter().find(|attempt| attempt.epoch == next);
        if let Some(ended) = ended {
            return self.end(turn, task, ended);
        }
        // A claim that is not among those that ended is the present one, or what was brought is old.
        match task.holder() {
            Some(holder) if task.epoch == next => {
                begin(turn, task, holder, next);
                Ok(Step::Rests)
            }
            _ if task.epoch >= next => Ok(Step::Again),
            Some(_) | None if task.status() == TaskStatus::Canceled => {
                cancel(turn)?;
                Ok(Step::Rests)
            }
            Some(_) | None => Ok(Step::Rests),
        }
    }

    /// Takes in how a claim ended.
    fn end(&self, turn: &mut Turn<'_>, task: &Task, ended: &Attempt) -> Result<Step, Refusal> {
        begin(turn, task, &ended.agent, ended.epoch);
        let is_last = ended.epoch == task.epoch;
        let answer = match ended.outcome {
            Outcome::Completed | Outcome::NeedsPerson if is_last => match task.state {
                TaskState::Completed { .. } => match &self.judged {
                    Some(judged) => return self.answer(turn, ended, judged.clone()),
                    None => return Ok(Step::Again),
                },
                TaskState::NeedsPerson { .. } => {
                    wait_for_person(turn);
                    return Ok(Step::Rests);
                }
                TaskState::Canceled { .. } => {
                    cancel(turn)?;
                    return Ok(Step::Rests);
                }
                // A person sent it back.
                TaskState::Waiting
                | TaskState::Ready
                | TaskState::RetryWait { .. }
                | TaskState::Claimed { .. }
                | TaskState::InProgress { .. } => Answer::GaveUp {
                    why: told(task, ended),
                },
                TaskState::Failed { .. } => Answer::Broken {
                    why: told(task, ended),
                },
            },
            Outcome::Completed | Outcome::NeedsPerson => Answer::GaveUp {
                why: told(task, ended),
            },
            Outcome::Failed => failed(task, ended, is_last),
            Outcome::Crashed | Outcome::Released | Outcome::HandedOver => {
                let is_spent = is_last && task.status() == TaskStatus::Failed;
                if !is_spent {
                    recover(turn, &format!("{} {}", ended.agent, ended.outcome));
                    taken_in(turn, ended.epoch);
                    return Ok(Step::On);
                }
                Answer::Broken {
                    why: told(task, ended),
                }
            }
            Outcome::Canceled => {
                cancel(turn)?;
                return Ok(Step::Rests);
            }
        };
        self.answer(turn, ended, Judged::plain(answer))
    }

    fn answer(
        &self,
        turn: &mut Turn<'_>,
        ended: &Attempt,
        judged: Judged,
    ) -> Result<Step, Refusal> {
        let Some(run) = turn.job.run.clone() else {
            return Ok(Step::Rests);
        };
        if run.role == JobRole::Worker {
            turn.job.worker = Some(ended.agent.clone());
        }
        let judged = Judged {
            millis: millis(ended),
            ..judged
        };
        let answered = Answered {
            judged: &judged,
            exchange: &self.exchange,
            checkpoint: None,
            waits: self.waits,
        };
        turn.job.state = running(run.role);
        let taken = answered.take(turn, &run)?;
        taken_in(turn, ended.epoch);
        // Given up, it waits in the queue as it did; else its work is done, or no longer wanted.
        let stays = taken.error.is_some() && taken.halted.is_none() && turn.job.state == run.from;
        if !stays {
            turn.interrupt();
            return Ok(Step::Rests);
        }
        turn.job.look_at = None;
        Ok(Step::On)
    }
}

/// A claim that the job has not heard of yet.
fn begin(turn: &mut Turn<'_>, task: &Task, holder: &AgentId, epoch: u64) {
    let id = format!("{}:{epoch}", task.id);
    if turn.job.run.as_ref().is_some_and(|run| run.id == id) {
        return;
    }
    let Some(role) = turn.job.next_role() else {
        return;
    };
    turn.job.run = Some(JobRun {
        id: id.clone(),
        role,
        from: turn.job.state,
        by: holder.to_string(),
        group: None,
        started: None,
        began_at: turn.now,
    });
    turn.job.state = running(role);
    turn.changes.event(Event::JobRunBegan {
        job: turn.job.id.clone(),
        run: id,
        role,
        phase: turn.job.phase,
    });
}

fn running(role: JobRole) -> JobState {
    match role {
        JobRole::Supervisor => JobState::Reviewing,
        JobRole::Worker | JobRole::Steward | JobRole::System => JobState::Running,
    }
}

/// Whoever had it is gone, or gave it back: nobody answered.
fn recover(turn: &mut Turn<'_>, why: &str) {
    let Some(run) = turn.job.run.take() else {
        return;
    };
    turn.job.state = run.from;
    let actor = JobActor {
        role: JobRole::System,
        by: run.by,
        why: Some(why.to_owned()),
    };
    turn.note("recovered", &actor);
}

/// A person looks at the task first; of a review that ends the job, that is the approval.
fn wait_for_person(turn: &mut Turn<'_>) {
    let reviews = turn
        .job
        .run
        .as_ref()
        .is_some_and(|run| run.role == JobRole::Supervisor);
    let is_last = turn.job.phase + 1 >= turn.spec().phases.len();
    turn.job.state = match reviews && is_last {
        true => JobState::ApprovalRequired,
        false => JobState::InterventionRequired,
    };
}

/// A person canceled its task, and the job with it.
fn cancel(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    if let Next::To(state) = turn.next(JobRole::System, Act::Cancel)? {
        turn.job.state = state;
    }
    turn.interrupt();
    let actor = JobActor {
        role: JobRole::System,
        by: "switchboard".to_owned(),
        why: Some("its task was canceled".to_owned()),
    };
    turn.note("canceled", &actor);
    Ok(())
}

fn taken_in(turn: &mut Turn<'_>, epoch: u64) {
    if let Some(task) = &mut turn.job.task {
        task.epoch = epoch;
    }
}

/// What a failure means to a job, by its class.
fn failed(task: &Task, ended: &Attempt, is_last: bool) -> Answer {
    let why = told(task, ended);
    let is_over = is_last && matches!(task.status(), TaskStatus::Failed | TaskStatus::NeedsPerson);
    match ended.failure {
        _ if is_over => Answer::Broken { why },
        Some(FailureKind::TaskTimeout) => Answer::TimedOut { why },
        Some(FailureKind::DependencyError) => Answer::Broken { why },
        Some(FailureKind::ResourceError) => Answer::CallFailed {
            error: CallError::Quota,
            why,
        },
        Some(FailureKind::TaskError | FailureKind::QualityFailure | FailureKind::AgentCrash)
        | None => Answer::GaveUp { why },
    }
}

fn told(task: &Task, ended: &Attempt) -> String {
    let last = || task.last_failure.as_ref().map(|last| last.message.clone());
    let message = ended.message.clone().or_else(last);
    message.unwrap_or_else(|| format!("{} {}", ended.agent, ended.outcome))
}

fn millis(ended: &Attempt) -> u64 {
    let span = ended.ended_at.since(ended.claimed_at);
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
