//! Jobs: a piece of work that goes through phases, done by a worker, judged by a supervisor, decided by a steward.
//!
//! The row that changes with every step is [`Job`]; what it is about is a [`JobSpec`]. What happened to it is in
//! [`crate::job_history`], the table of its states in [`step`].

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CorrId, JobId, TaskId};
use crate::limits;
use crate::record::{Private, RecordRange};
use crate::refusal::Refusal;
use crate::time::Timestamp;

pub mod refusal;
pub mod step;

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum JobState {
        Draft = "DRAFT",
        Pending = "PENDING",
        Running = "RUNNING",
        ReviewRequired = "REVIEW_REQUIRED",
        Reviewing = "REVIEWING",
        ApprovalRequired = "APPROVAL_REQUIRED",
        InterventionRequired = "INTERVENTION_REQUIRED",
        Suspended = "SUSPENDED",
        HaltedCost = "HALTED_COST",
        HaltedTime = "HALTED_TIME",
        HaltedIteration = "HALTED_ITERATION",
        Success = "SUCCESS",
        Canceled = "CANCELED",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum JobRole {
        Worker = "Worker",
        Supervisor = "Supervisor",
        Steward = "Steward",
        System = "System",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum JobAction {
        Completed = "COMPLETED",
        Stuck = "STUCK",
        Retry = "RETRY",
    }
}

words! {
    /// Who does its phases: programs that a hub runs, or whoever claims them from the queue of tasks.
    #[derive(Hash, Default, Serialize, Deserialize)]
    pub enum RunBy {
        #[default]
        Agents = "agents",
        Queue = "queue",
    }
}

words! {
    /// The limits of a job.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Halt {
        Cost = "cost",
        Time = "time",
        Iteration = "iteration",
    }
}

words! {
    /// Jobs are listed in groups, most of them in the order of the queue.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum JobGroup {
        Draft = "draft",
        /// A run may begin.
        Ready = "ready",
        /// A run may begin at an instant that decides their order.
        Waiting = "waiting",
        /// Its phase is a task that nobody has claimed.
        Queued = "queued",
        Running = "running",
        /// A person has to decide.
        Steward = "steward",
        Suspended = "suspended",
        /// By when they ended.
        Ended = "ended",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub state: JobState,
    /// The phase it is in, counted from 0; the last one, once all are done.
    pub phase: usize,
    /// What it goes on with after a halt.
    pub resume_to: Option<JobState>,
    /// Where it was when it was suspended.
    pub suspended_in: Option<JobState>,
    pub limits: JobLimits,
    pub sums: JobSums,
    /// Limits of which a person was warned.
    pub warned: Vec<Halt>,
    /// Of its last interaction, from 1; 0 before the first one.
    pub last_sequence: u64,
    /// Of its last entry.
    pub last_entry: u64,
    /// How many runs began; one that crashed counts, too.
    pub runs: u64,
    /// Its place in the queue: the lowest is first.
    pub rank: i64,
    /// As the hub resolved it; no two jobs share one.
    pub directory: String,
    /// What the next request says beside its task.
    pub guidance: Option<String>,
    pub run: Option<JobRun>,
    /// Who did the phase last, if that was from the queue: somebody else reviews it.
    pub worker: Option<AgentId>,
    /// The task that is its phase in the queue.
    pub task: Option<JobTask>,
    /// Errors of the call in a row.
    pub call_tries: u32,
    /// No run begins before.
    pub look_at: Option<Timestamp>,
    /// The recovery point whose files are to be restored before the next run begins.
    pub restore: Option<String>,
    pub corr_id: CorrId,
    /// Grows with every change of the job or its spec.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    pub cost_micros: u64,
    pub millis: u64,
    pub iterations: u32,
}

impl Default for JobLimits {
    fn default() -> Self {
        JobLimits {
            cost_micros: limits::JOB_COST_MICROS,
            millis: limits::JOB_TIME.as_millis() as u64,
            iterations: limits::JOB_ITERATIONS,
        }
    }
}

/// Limits that are to change; the others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewLimits {
    pub cost_micros: Option<u64>,
    pub millis: Option<u64>,
    pub iterations: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSums {
    pub cost_micros: u64,
    pub millis: u64,
    /// Runs, without those that only failed to reach their model.
    pub iterations: u32,
    pub tokens: Tokens,
    /// Runs that did not say what they cost.
    pub unreported: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
}

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRun {
    /// In the environment of the program and of whatever it starts. In the queue: the task's id and epoch.
    pub id: String,
    pub role: JobRole,
    /// The state from which it began: so it is after a crash.
    pub from: JobState,
    /// The coordinator that runs it, or the agent that holds the task.
    pub by: String,
    /// Its process group and when that was started, as the system tells it.
    pub group: Option<u32>,
    pub started: Option<u64>,
    pub began_at: Timestamp,
}

/// A phase in the queue, and how far the job has heard of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTask {
    pub id: TaskId,
    pub number: u64,
    /// Of its last claim whose end was taken in.
    pub epoch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub id: JobId,
    pub description: String,
    pub objective: String,
    /// By their names; if none are given, a worker and a supervisor.
    pub roles: Vec<String>,
    /// At least one, at most [`limits::JOB_PHASES_MAX`].
    pub phases: Vec<JobPhase>,
    pub success_criteria: Vec<String>,
    /// Of a phase in the queue that fails.
    pub max_retries: u32,
    /// A phase that is tried again begins with the files it began with.
    pub reset_on_retry: bool,
    pub run_by: RunBy,
    /// A person approves the work of the last phase.
    pub needs_approval: bool,
    /// Its prompts are only stored encrypted.
    pub is_sensitive: bool,
    /// Whose worktree its workspace is; without one it is a repository of its own.
    pub repository: Option<String>,
    /// What else the spec said: a JSON object.
    pub other: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobPhase {
    pub name: String,
    pub description: String,
    pub worker_instructions: String,
}

/// What is known of all jobs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobShelf {
    /// The selected job.
    pub current: Option<JobId>,
    pub count: u32,
    /// The lowest and the highest rank that were given.
    pub first_rank: i64,
    pub last_rank: i64,
}

/// Which job lies in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDirectory {
    pub path: String,
    pub job: JobId,
}

impl Private for Job {
    fn key(&self) -> Cow<'static, str> {
        self.id.to_string().into()
    }

    fn owner(&self) -> &str {
        self.group().as_str()
    }

    fn position(&self) -> Option<i64> {
        Some(match self.group() {
            JobGroup::Ended => self.ended_at.unwrap_or(self.updated_at).0,
            JobGroup::Waiting => self.look_at.unwrap_or(self.updated_at).0,
            JobGroup::Draft
            | JobGroup::Ready
            | JobGroup::Queued
            | JobGroup::Running
            | JobGroup::Steward
            | JobGroup::Suspended => self.rank,
        })
    }
}

impl Private for JobSpec {
    fn key(&self) -> Cow<'static, str> {
        self.id.to_string().into()
    }
}

impl Private for JobShelf {}

impl Private for JobDirectory {
    fn key(&self) -> Cow<'static, str> {
        self.path.clone().into()
    }
}

impl JobState {
    pub fn is_terminal(self) -> bool {
        matches!(self, JobState::Success | JobState::Canceled)
    }

    pub fn halt(self) -> Option<Halt> {
        match self {
            JobState::HaltedCost => Some(Halt::Cost),
            JobState::HaltedTime => Some(Halt::Time),
            JobState::HaltedIteration => Some(Halt::Iteration),
            JobState::Draft
            | JobState::Pending
            | JobState::Running
            | JobState::ReviewRequired
            | JobState::Reviewing
            | JobState::ApprovalRequired
            | JobState::InterventionRequired
            | JobState::Suspended
            | JobState::Success
            | JobState::Canceled => None,
        }
    }
}

impl Halt {
    pub fn state(self) -> JobState {
        match self {
            Halt::Cost => JobState::HaltedCost,
            Halt::Time => JobState::HaltedTime,
            Halt::Iteration => JobState::HaltedIteration,
        }
    }
}

impl JobTask {
    /// Phases and iterations as people count, from 1.
    pub fn id_of(job: &Job) -> TaskId {
        format!("job:{}:{}:{}", job.id, job.phase + 1, job.runs + 1).into()
    }

    /// Whose phase a task is, if it is one.
    pub fn job_of(task: &TaskId) -> Option<JobId> {
        let (job, iteration) = task.as_str().strip_prefix("job:")?.rsplit_once(':')?;
        let (job, phase) = job.rsplit_once(':')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(phase) && is_number(iteration)).then(|| job.into())
    }
}

impl JobRole {
    /// Who does it, among the agents: a job's worker and its supervisor are two.
    pub fn agent(self, job: &JobId) -> AgentId {
        format!("{job}/{}", self.as_str().to_lowercase()).into()
    }
}

impl Tokens {
    /// Those of both.
    pub fn and(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
        }
    }
}

impl JobSums {
    /// The first of the limits that is reached.
    pub fn reached(&self, limits: &JobLimits) -> Option<Halt> {
        let reached = |halt: &Halt| self.percent(*halt, limits) >= 100;
        Halt::ALL.iter().copied().find(reached)
    }

    /// How much of a limit is used.
    pub fn percent(&self, halt: Halt, limits: &JobLimits) -> u64 {
        let (used, limit) = match halt {
            Halt::Cost => (self.cost_micros, limits.cost_micros),
            Halt::Time => (self.millis, limits.millis),
            Halt::Iteration => (self.iterations.into(), limits.iterations.into()),
        };
        match limit {
            0 => 100,
            limit => u64::try_from(u128::from(used) * 100 / u128::from(limit)).unwrap_or(u64::MAX),
        }
    }
}

/// Between the ranks of two jobs, so that many fit in between.
const RANK_STEP: i64 = 1 << 40;

impl JobShelf {
    /// A rank behind all others.
    pub(crate) fn give_last(&mut self) -> i64 {
        self.last_rank += RANK_STEP;
        self.last_rank
    }

    /// A rank before all others.
    pub(crate) fn give_first(&mut self) -> i64 {
        self.first_rank -= RANK_STEP;
        self.first_rank
    }
}

impl JobLimits {
    pub fn with(self, new: NewLimits) -> JobLimits {
        JobLimits {
            cost_micros: new.cost_micros.unwrap_or(self.cost_micros),
            millis: new.millis.unwrap_or(self.millis),
            iterations: new.iterations.unwrap_or(self.iterations),
        }
    }
}

impl JobSpec {
    /// What no job is about.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let phases = self.phases.len();
        if !(1..=limits::JOB_PHASES_MAX).contains(&phases) {
            return Err(Refusal::Invalid {
                field: "phases",
                message: format!(
                    "a job has between 1 and {} phases, not {phases}",
                    limits::JOB_PHASES_MAX
                ),
            });
        }
        if self.is_sensitive && self.run_by == RunBy::Queue {
            let message = "a sensitive job is run by agents only: whoever reads the queue would read its prompts";
            return Err(Refusal::Invalid {
                field: "run",
                message: message.to_owned(),
            });
        }
        Ok(())
    }

    pub fn has_supervisor(&self) -> bool {
        let named = |role: &String| role.eq_ignore_ascii_case(JobRole::Supervisor.as_str());
        self.roles.is_empty() || self.roles.iter().any(named)
    }
}

impl Job {
    pub fn group(&self) -> JobGroup {
        match self.state {
            JobState::Draft => JobGroup::Draft,
            JobState::Pending | JobState::ReviewRequired if self.task.is_some() => JobGroup::Queued,
            JobState::Pending | JobState::ReviewRequired if self.look_at.is_some() => {
                JobGroup::Waiting
            }
            JobState::Pending | JobState::ReviewRequired => JobGroup::Ready,
            JobState::Running | JobState::Reviewing => JobGroup::Running,
            JobState::ApprovalRequired
            | JobState::InterventionRequired
            | JobState::HaltedCost
            | JobState::HaltedTime
            | JobState::HaltedIteration => JobGroup::Steward,
            JobState::Suspended => JobGroup::Suspended,
            JobState::Success | JobState::Canceled => JobGroup::Ended,
        }
    }

    /// The first ones of a group.
    pub fn in_group(group: JobGroup, limit: usize) -> RecordRange {
        RecordRange::of::<Job>(group.as_str(), limit)
    }

    /// Whose turn it is, while it rests.
    pub fn next_role(&self) -> Option<JobRole> {
        match self.state {
            JobState::Pending => Some(JobRole::Worker),
            JobState::ReviewRequired => Some(JobRole::Supervisor),
            JobState::Draft
            | JobState::Running
            | JobState::Reviewing
            | JobState::ApprovalRequired
            | JobState::InterventionRequired
            | JobState::Suspended
            | JobState::HaltedCost
            | JobState::HaltedTime
            | JobState::HaltedIteration
            | JobState::Success
            | JobState::Canceled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_of_a_phase_names_its_job() {
        for (task, job) in [
            ("job:j:1:1", Some("j")),
            ("job:a-b_C:200:17", Some("a-b_C")),
            ("job:j:1", None),
            ("job:j:x:1", None),
            ("sq:j:1:1", None),
            ("jobs", None),
        ] {
            let found = JobTask::job_of(&task.into());
            assert_eq!(found, job.map(JobId::from), "{task}");
        }
    }
}
