//! The ledger's record: what happened, in commit order. The one type here that is promised to strangers.

use serde::{Deserialize, Serialize};

use crate::budget::Resource;
use crate::id::{
    AgentId, CapabilityId, CommandId, EngramId, GrantId, JobId, MessageId, NodeId, RequestId,
    SnapshotId, TaskId,
};
use crate::job::{Halt, JobAction, JobRole, JobState, JobTask};
use crate::job_history::RunStatus;
use crate::task::{FailureKind, Phase, Priority};
use crate::time::Timestamp;

/// An event with its place in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum Event {
    /// An agent registered; `resumed` if it continues an earlier registration.
    AgentRegistered { agent: AgentId, resumed: bool },
    /// An agent reported another status.
    AgentStatusChanged {
        agent: AgentId,
        status: String,
        task: Option<TaskId>,
    },
    /// An agent timed out; its tasks return to the queue.
    AgentSilent { agent: AgentId },
    /// An agent that had timed out is online again.
    AgentReturned { agent: AgentId },
    /// An agent deregistered.
    AgentDeregistered { agent: AgentId },
    /// An agent has a new key; the previous one no longer works.
    AgentKeyRotated { agent: AgentId, generation: u32 },
    /// A deregistered agent was pruned.
    AgentForgotten { agent: AgentId },
    /// A person sent an agent a command.
    CommandIssued {
        agent: AgentId,
        command: CommandId,
        order: String,
    },
    /// The agent carried out the command.
    CommandObeyed { agent: AgentId, command: CommandId },
    /// A task was created.
    TaskCreated {
        task: TaskId,
        number: u64,
        title: String,
        priority: Priority,
        status: String,
    },
    /// The description of a task was changed.
    TaskChanged {
        task: TaskId,
        number: u64,
        fields: Vec<String>,
    },
    /// A task is ready to be claimed.
    TaskReady {
        task: TaskId,
        number: u64,
        why: String,
    },
    /// A task waits for its dependencies.
    TaskBlocked { task: TaskId, number: u64 },
    /// An agent claimed the task, under this epoch.
    TaskClaimed {
        task: TaskId,
        number: u64,
        agent: AgentId,
        epoch: u64,
    },
    /// The task was handed off to another agent, under a new epoch.
    TaskHandedOver {
        task: TaskId,
        number: u64,
        from: Option<AgentId>,
        agent: AgentId,
        epoch: u64,
    },
    /// The holder reported progress.
    TaskProgressed {
        task: TaskId,
        number: u64,
        agent: Option<AgentId>,
        epoch: u64,
        phase: Phase,
        percent: u8,
        note: String,
    },
    /// The task is completed.
    TaskCompleted {
        task: TaskId,
        number: u64,
        agent: AgentId,
        epoch: u64,
    },
    /// The task needs review by a person.
    TaskNeedsPerson {
        task: TaskId,
        number: u64,
        agent: AgentId,
        why: String,
        /// What it failed with, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_type: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    },
    /// An attempt failed; the task is ready again at `until`.
    TaskRetryPlanned {
        task: TaskId,
        number: u64,
        kind: FailureKind,
        message: String,
        retries: u32,
        until: Timestamp,
    },
    /// The task was released and is ready again.
    TaskRequeued {
        task: TaskId,
        number: u64,
        agent: AgentId,
        why: String,
    },
    /// The task failed permanently.
    TaskFailed {
        task: TaskId,
        number: u64,
        kind: FailureKind,
        message: String,
    },
    /// A person canceled the task.
    TaskCanceled {
        task: TaskId,
        number: u64,
        why: String,
    },
    /// A finished task was pruned.
    TaskForgotten { task: TaskId, number: u64 },
    /// A dependency of the task failed.
    DependencyFailed {
        task: TaskId,
        number: u64,
        dependency: TaskId,
    },
    /// A message was sent; with neither `to` nor `toSeveral` it is a broadcast.
    MessageSent {
        message: MessageId,
        from: AgentId,
        to: Option<AgentId>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        to_several: Vec<AgentId>,
        kind: String,
        recipients: u32,
    },
    /// The message was delivered.
    MessageDelivered { message: MessageId, agent: AgentId },
    /// The message is queued again: its connection ended before it was acknowledged.
    MessageQueuedAgain { message: MessageId, agent: AgentId },
    /// The recipient acknowledged the message.
    MessageAcknowledged {
        message: MessageId,
        agent: AgentId,
        /// Its sender; older events do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<AgentId>,
    },
    /// The message expired before it was delivered.
    MessageExpired { message: MessageId, agent: AgentId },
    /// The message could not be delivered.
    MessageFailed {
        message: MessageId,
        agent: AgentId,
        why: String,
    },
    /// The message was refused; it is delivered to nobody.
    MessageRefused {
        message: MessageId,
        from: AgentId,
        to: String,
        why: String,
    },
    /// Somebody said whether a claim of a message holds; `line` is its place among the claims of the message.
    ClaimJudged {
        claim: u64,
        message: MessageId,
        line: u32,
        status: String,
        by: String,
        why: String,
    },
    /// An agent escalated the same failure again and again.
    FailureRecurred {
        message: MessageId,
        agent: AgentId,
        line: String,
    },
    /// An agent acquired a lease on the path.
    LeaseAcquired {
        path: String,
        agent: AgentId,
        task: Option<TaskId>,
        fencing: u64,
        until: Timestamp,
    },
    /// The lease was extended.
    LeaseExtended {
        path: String,
        agent: AgentId,
        until: Timestamp,
    },
    /// The lease was released.
    LeaseReleased { path: String, agent: AgentId },
    /// The lease expired.
    LeaseExpired { path: String, agent: AgentId },
    /// The quality baseline was set.
    BaselineSet {
        by: String,
        snapshot: Option<SnapshotId>,
    },
    /// A completion reported a learning.
    LearningStored {
        text: String,
        task: Option<TaskId>,
        agent: Option<AgentId>,
    },
    /// A worker of the bus reported an error; the events of its task show the consequences.
    ErrorReported {
        agent: AgentId,
        error: String,
        task: Option<TaskId>,
        number: u64,
        stage: String,
        error_type: String,
        attempt: u32,
        message: String,
    },
    /// A person sent the director of the bus a command.
    DirectorSteered {
        by: String,
        order: String,
        reason: String,
    },
    /// A release was published; workers of the bus are notified.
    ReleasePublished {
        by: String,
        release: String,
        main_sha: Option<String>,
        image_tag: Option<String>,
    },
    /// An agent sent an event for the memory.
    MemoryNoted {
        agent: AgentId,
        event_type: String,
        text: String,
    },
    /// An engram was added to the catalog.
    EngramKept {
        engram: EngramId,
        scope: String,
        version: String,
    },
    /// An engram was removed from the catalog.
    EngramEvicted { engram: EngramId },
    /// An agent was granted a request from a budget.
    BudgetGranted {
        resource: Resource,
        agent: AgentId,
        request: RequestId,
        grant: GrantId,
    },
    /// A resource reported a rate limit; nothing is granted until then.
    BudgetCooled {
        resource: Resource,
        agent: AgentId,
        until: Timestamp,
    },
    /// A token was created.
    TokenCreated { name: String, scope: String },
    /// A token was revoked.
    TokenRevoked { name: String },
    /// A person invited a node: whoever brings the invite until then may join.
    NodeInvited { by: String, until: Timestamp },
    /// Another hub is a node of this swarm from here on.
    NodeJoined {
        node: NodeId,
        endpoint: Option<String>,
    },
    /// A node left, or was removed.
    NodeLeft { node: NodeId, by: String },
    /// A person invited an external agent: whoever brings the invite until then may speak for it.
    AgentInvited {
        agent: AgentId,
        by: String,
        until: Timestamp,
    },
    /// An external agent has a session.
    SessionBegan { session: String, agent: AgentId },
    /// A session of an external agent ended; its tokens no longer work.
    SessionEnded {
        session: String,
        agent: AgentId,
        why: String,
    },
    /// A version of a capability is in use, at the node that owns it.
    CapabilityPublished {
        capability: CapabilityId,
        version: String,
        node: NodeId,
    },
    /// A gate did not let a version pass; the version before is in use as it was.
    CapabilityRejected {
        capability: CapabilityId,
        version: String,
        gate: String,
        why: String,
    },
    /// A capability is disabled, or was taken back.
    CapabilityWithdrawn {
        capability: CapabilityId,
        status: String,
        by: String,
    },
    /// Its tasks go to another node than before: the owner is away, or back.
    CapabilityMoved {
        capability: CapabilityId,
        from: NodeId,
        to: NodeId,
    },
    /// Something went wrong with a capability: a person should review its skills.
    ReviewOpened {
        review: String,
        capability: CapabilityId,
        failure_class: String,
    },
    /// A person has reviewed it.
    ReviewResolved {
        review: String,
        by: String,
        note: String,
    },
    /// An incident was opened: a person should look into it.
    IncidentOpened {
        incident: String,
        kind: String,
        subject: String,
        message: String,
    },
    /// A person resolved the incident.
    IncidentResolved {
        incident: String,
        by: String,
        why: String,
    },
    /// A job was created, in this state.
    JobCreated { job: JobId, state: JobState },
    /// The description, limits or place of a job were changed.
    JobChanged {
        job: JobId,
        fields: Vec<String>,
        by: String,
    },
    /// A job is in another state, or in another phase; `why` is what moved it.
    JobMoved {
        job: JobId,
        from: JobState,
        to: JobState,
        phase: usize,
        by: String,
        why: String,
    },
    /// An agent begins to work on a phase of a job.
    JobRunBegan {
        job: JobId,
        run: String,
        role: JobRole,
        phase: usize,
    },
    /// An agent's response is recorded.
    JobRunEnded {
        job: JobId,
        run: String,
        sequence: u64,
        role: JobRole,
        status: RunStatus,
        action: JobAction,
        cost_micros: u64,
        millis: u64,
    },
    /// A job has used up much of a limit.
    JobWarned {
        job: JobId,
        limit: Halt,
        percent: u64,
    },
    /// A finished job was pruned, with its history.
    JobForgotten { job: JobId },
    /// No hub served the ledger for a while; timeouts of agents count from here.
    OutageEnded { served_at: Timestamp },
    /// The wall clock was set back; the ledger's time continues.
    ClockSteppedBack { by_ms: u64 },
    /// The wall clock was set forward; the ledger's time follows it slowly.
    ClockSteppedForward { by_ms: u64 },
    /// The database lost acknowledged changes: of the events up to `told`, those after `after` are lost.
    EpochBegan { epoch: u64, after: u64, told: u64 },
    /// A direct SQL write broke a rule and was undone; the row is as it was before.
    WriteUndone {
        table: String,
        key: String,
        why: String,
    },
    /// Of a newer build that writes the same ledger: shown as it is, its members as JSON.
    #[serde(skip)]
    Newer { kind: String, members: String },
}

impl Event {
    /// Whether another agent is there after it, or another node.
    pub fn moves_agents(&self) -> bool {
        matches!(
            self,
            Event::AgentRegistered { .. }
                | Event::AgentSilent { .. }
                | Event::AgentReturned { .. }
                | Event::AgentDeregistered { .. }
                | Event::AgentForgotten { .. }
                | Event::NodeJoined { .. }
                | Event::NodeLeft { .. }
        )
    }

    /// Of which job it tells.
    pub fn job(&self) -> Option<&JobId> {
        match self {
            Event::JobCreated { job, .. }
            | Event::JobChanged { job, .. }
            | Event::JobMoved { job, .. }
            | Event::JobRunBegan { job, .. }
            | Event::JobRunEnded { job, .. }
            | Event::JobWarned { job, .. }
            | Event::JobForgotten { job } => Some(job),
            _ => None,
        }
    }

    /// Of which job's phase in the queue it tells, or of which job.
    pub fn phase(&self) -> Option<JobId> {
        match self {
            Event::TaskClaimed { task, .. }
            | Event::TaskHandedOver { task, .. }
            | Event::TaskCompleted { task, .. }
            | Event::TaskNeedsPerson { task, .. }
            | Event::TaskRetryPlanned { task, .. }
            | Event::TaskRequeued { task, .. }
            | Event::TaskReady { task, .. }
            | Event::TaskFailed { task, .. }
            | Event::TaskCanceled { task, .. } => JobTask::job_of(task),
            other => other.job().cloned(),
        }
    }

    /// Whether a key or a token no longer counts after it.
    pub fn ends_credential(&self) -> bool {
        matches!(
            self,
            Event::AgentKeyRotated { .. }
                | Event::TokenRevoked { .. }
                | Event::NodeLeft { .. }
                | Event::SessionEnded { .. }
        )
    }
}

/// From one list: the word under `type`, and all of these words.
macro_rules! kinds {
    ($($name:ident => $word:literal,)*) => {
        impl Event {
            /// The words that this build knows.
            pub const KINDS: &[&str] = &[$($word),*];

            /// The word under `type`.
            pub fn kind(&self) -> &str {
                match self {
                    $(Event::$name { .. } => $word,)*
                    Event::Newer { kind, .. } => kind,
                }
            }
        }
    };
}

kinds! {
    AgentRegistered => "agent_registered",
    AgentStatusChanged => "agent_status_changed",
    AgentSilent => "agent_silent",
    AgentReturned => "agent_returned",
    AgentDeregistered => "agent_deregistered",
    AgentKeyRotated => "agent_key_rotated",
    AgentForgotten => "agent_forgotten",
    CommandIssued => "command_issued",
    CommandObeyed => "command_obeyed",
    TaskCreated => "task_created",
    TaskChanged => "task_changed",
    TaskReady => "task_ready",
    TaskBlocked => "task_blocked",
    TaskClaimed => "task_claimed",
    TaskHandedOver => "task_handed_over",
    TaskProgressed => "task_progressed",
    TaskCompleted => "task_completed",
    TaskNeedsPerson => "task_needs_person",
    TaskRetryPlanned => "task_retry_planned",
    TaskRequeued => "task_requeued",
    TaskFailed => "task_failed",
    TaskCanceled => "task_canceled",
    TaskForgotten => "task_forgotten",
    DependencyFailed => "dependency_failed",
    MessageSent => "message_sent",
    MessageDelivered => "message_delivered",
    MessageQueuedAgain => "message_queued_again",
    MessageAcknowledged => "message_acknowledged",
    MessageExpired => "message_expired",
    MessageFailed => "message_failed",
    MessageRefused => "message_refused",
    ClaimJudged => "claim_judged",
    FailureRecurred => "failure_recurred",
    LeaseAcquired => "lease_acquired",
    LeaseExtended => "lease_extended",
    LeaseReleased => "lease_released",
    LeaseExpired => "lease_expired",
    BaselineSet => "baseline_set",
    LearningStored => "learning_stored",
    ErrorReported => "error_reported",
    DirectorSteered => "director_steered",
    ReleasePublished => "release_published",
    MemoryNoted => "memory_noted",
    EngramKept => "engram_kept",
    EngramEvicted => "engram_evicted",
    BudgetGranted => "budget_granted",
    BudgetCooled => "budget_cooled",
    TokenCreated => "token_created",
    TokenRevoked => "token_revoked",
    NodeInvited => "node_invited",
    NodeJoined => "node_joined",
    NodeLeft => "node_left",
    AgentInvited => "agent_invited",
    SessionBegan => "session_began",
    SessionEnded => "session_ended",
    CapabilityPublished => "capability_published",
    CapabilityRejected => "capability_rejected",
    CapabilityWithdrawn => "capability_withdrawn",
    CapabilityMoved => "capability_moved",
    ReviewOpened => "review_opened",
    ReviewResolved => "review_resolved",
    IncidentOpened => "incident_opened",
    IncidentResolved => "incident_resolved",
    JobCreated => "job_created",
    JobChanged => "job_changed",
    JobMoved => "job_moved",
    JobRunBegan => "job_run_began",
    JobRunEnded => "job_run_ended",
    JobWarned => "job_warned",
    JobForgotten => "job_forgotten",
    OutageEnded => "outage_ended",
    ClockSteppedBack => "clock_stepped_back",
    EpochBegan => "epoch_began",
    ClockSteppedForward => "clock_stepped_forward",
    WriteUndone => "write_undone",
}
