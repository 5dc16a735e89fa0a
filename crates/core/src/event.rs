//! The ledger's record: what happened, in commit order. The one type here that is promised to strangers.

use serde::{Deserialize, Serialize};

use crate::budget::Resource;
use crate::id::{AgentId, CommandId, EngramId, GrantId, MessageId, RequestId, SnapshotId, TaskId};
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
    /// An agent announced itself, anew or as a new process of the same agent.
    AgentRegistered { agent: AgentId, resumed: bool },
    /// An agent said that it does something else now.
    AgentStatusChanged {
        agent: AgentId,
        status: String,
        task: Option<TaskId>,
    },
    /// An agent was silent for too long; what it held goes back.
    AgentSilent { agent: AgentId },
    /// An agent that was taken for gone spoke again.
    AgentReturned { agent: AgentId },
    /// An agent signed off.
    AgentDeregistered { agent: AgentId },
    /// An agent has a new key; the one before no longer counts.
    AgentKeyRotated { agent: AgentId, generation: u32 },
    /// A gone agent was removed by retention.
    AgentForgotten { agent: AgentId },
    /// A person told an agent what to do.
    CommandIssued {
        agent: AgentId,
        command: CommandId,
        order: String,
    },
    /// The agent did what it was told.
    CommandObeyed { agent: AgentId, command: CommandId },
    /// A task was made.
    TaskCreated {
        task: TaskId,
        number: u64,
        title: String,
        priority: Priority,
        status: String,
    },
    /// What is asked for in a task was changed.
    TaskChanged {
        task: TaskId,
        number: u64,
        fields: Vec<String>,
    },
    /// A task may be claimed from now on.
    TaskReady {
        task: TaskId,
        number: u64,
        why: String,
    },
    /// A task waits for its dependencies.
    TaskBlocked { task: TaskId, number: u64 },
    /// An agent has the task, under this epoch.
    TaskClaimed {
        task: TaskId,
        number: u64,
        agent: AgentId,
        epoch: u64,
    },
    /// The task went to another agent, under a new epoch.
    TaskHandedOver {
        task: TaskId,
        number: u64,
        from: Option<AgentId>,
        agent: AgentId,
        epoch: u64,
    },
    /// The holder told how far it is.
    TaskProgressed {
        task: TaskId,
        number: u64,
        agent: Option<AgentId>,
        epoch: u64,
        phase: Phase,
        percent: u8,
        note: String,
    },
    /// The task is done.
    TaskCompleted {
        task: TaskId,
        number: u64,
        agent: AgentId,
        epoch: u64,
    },
    /// The task waits for a person to decide.
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
    /// The task went back to ready without its holder.
    TaskRequeued {
        task: TaskId,
        number: u64,
        agent: AgentId,
        why: String,
    },
    /// The task failed for good.
    TaskFailed {
        task: TaskId,
        number: u64,
        kind: FailureKind,
        message: String,
    },
    /// A person ended the task.
    TaskCanceled {
        task: TaskId,
        number: u64,
        why: String,
    },
    /// An ended task was removed by retention.
    TaskForgotten { task: TaskId, number: u64 },
    /// A dependency of the task failed.
    DependencyFailed {
        task: TaskId,
        number: u64,
        dependency: TaskId,
    },
    /// A message waits for its recipients; no `to` is a broadcast.
    MessageSent {
        message: MessageId,
        from: AgentId,
        to: Option<AgentId>,
        kind: String,
        recipients: u32,
    },
    /// The message was handed over.
    MessageDelivered { message: MessageId, agent: AgentId },
    /// Its stream ended before it was acknowledged.
    MessageQueuedAgain { message: MessageId, agent: AgentId },
    /// The recipient acknowledged the message.
    MessageAcknowledged { message: MessageId, agent: AgentId },
    /// The message was not fetched in time.
    MessageExpired { message: MessageId, agent: AgentId },
    /// An agent may edit what the path covers, until then.
    LeaseAcquired {
        path: String,
        agent: AgentId,
        task: Option<TaskId>,
        fencing: u64,
        until: Timestamp,
    },
    /// The lease lasts longer.
    LeaseExtended {
        path: String,
        agent: AgentId,
        until: Timestamp,
    },
    /// The lease was given back.
    LeaseReleased { path: String, agent: AgentId },
    /// The lease ended by itself.
    LeaseExpired { path: String, agent: AgentId },
    /// The quality that completions are held against was set.
    BaselineSet {
        by: String,
        snapshot: Option<SnapshotId>,
    },
    /// A completion brought something worth knowing.
    LearningStored {
        text: String,
        task: Option<TaskId>,
        agent: Option<AgentId>,
    },
    /// A worker of the bus reported an error; what it led to is told by the events of its task.
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
    /// A person told the director of the bus what to do.
    DirectorSteered {
        by: String,
        order: String,
        reason: String,
    },
    /// A release is out; workers of the bus are told.
    ReleasePublished {
        by: String,
        release: String,
        main_sha: Option<String>,
        image_tag: Option<String>,
    },
    /// An agent wants this to be remembered.
    MemoryNoted {
        agent: AgentId,
        event_type: String,
        text: String,
    },
    /// An engram joined the catalog.
    EngramKept {
        engram: EngramId,
        scope: String,
        version: String,
    },
    /// An engram left the catalog.
    EngramEvicted { engram: EngramId },
    /// An agent may make the request it asked for.
    BudgetGranted {
        resource: Resource,
        agent: AgentId,
        request: RequestId,
        grant: GrantId,
    },
    /// The other side wants to be left alone; until then nothing is granted.
    BudgetCooled {
        resource: Resource,
        agent: AgentId,
        until: Timestamp,
    },
    /// An access token was made.
    TokenCreated { name: String, scope: String },
    /// An access token no longer counts.
    TokenRevoked { name: String },
    /// Something happened that a person should look after.
    IncidentOpened {
        incident: String,
        kind: String,
        subject: String,
        message: String,
    },
    /// A person has looked after it.
    IncidentResolved {
        incident: String,
        by: String,
        why: String,
    },
    /// Nobody served the ledger for a while; silence of agents counts from here.
    OutageEnded { served_at: Timestamp },
    /// The wall clock was set back; the ledger's time goes on.
    ClockSteppedBack { by_ms: u64 },
    /// The ledger's time goes on as before, and only slowly towards the new one.
    ClockSteppedForward { by_ms: u64 },
    /// The database has less than was acknowledged: of what was told up to `told`, nothing after `after` holds.
    EpochBegan { epoch: u64, after: u64, told: u64 },
    /// What somebody wrote by hand did not hold; the row is as it was before.
    WriteUndone {
        table: String,
        key: String,
        why: String,
    },
}

impl Event {
    /// Whether a key or a token no longer counts after it.
    pub fn ends_credential(&self) -> bool {
        matches!(
            self,
            Event::AgentKeyRotated { .. } | Event::TokenRevoked { .. }
        )
    }

    /// The word under `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::AgentRegistered { .. } => "agent_registered",
            Event::AgentStatusChanged { .. } => "agent_status_changed",
            Event::AgentSilent { .. } => "agent_silent",
            Event::AgentReturned { .. } => "agent_returned",
            Event::AgentDeregistered { .. } => "agent_deregistered",
            Event::AgentKeyRotated { .. } => "agent_key_rotated",
            Event::AgentForgotten { .. } => "agent_forgotten",
            Event::CommandIssued { .. } => "command_issued",
            Event::CommandObeyed { .. } => "command_obeyed",
            Event::TaskCreated { .. } => "task_created",
            Event::TaskChanged { .. } => "task_changed",
            Event::TaskReady { .. } => "task_ready",
            Event::TaskBlocked { .. } => "task_blocked",
            Event::TaskClaimed { .. } => "task_claimed",
            Event::TaskHandedOver { .. } => "task_handed_over",
            Event::TaskProgressed { .. } => "task_progressed",
            Event::TaskCompleted { .. } => "task_completed",
            Event::TaskNeedsPerson { .. } => "task_needs_person",
            Event::TaskRetryPlanned { .. } => "task_retry_planned",
            Event::TaskRequeued { .. } => "task_requeued",
            Event::TaskFailed { .. } => "task_failed",
            Event::TaskCanceled { .. } => "task_canceled",
            Event::TaskForgotten { .. } => "task_forgotten",
            Event::DependencyFailed { .. } => "dependency_failed",
            Event::MessageSent { .. } => "message_sent",
            Event::MessageDelivered { .. } => "message_delivered",
            Event::MessageQueuedAgain { .. } => "message_queued_again",
            Event::MessageAcknowledged { .. } => "message_acknowledged",
            Event::MessageExpired { .. } => "message_expired",
            Event::LeaseAcquired { .. } => "lease_acquired",
            Event::LeaseExtended { .. } => "lease_extended",
            Event::LeaseReleased { .. } => "lease_released",
            Event::LeaseExpired { .. } => "lease_expired",
            Event::BaselineSet { .. } => "baseline_set",
            Event::LearningStored { .. } => "learning_stored",
            Event::ErrorReported { .. } => "error_reported",
            Event::DirectorSteered { .. } => "director_steered",
            Event::ReleasePublished { .. } => "release_published",
            Event::MemoryNoted { .. } => "memory_noted",
            Event::EngramKept { .. } => "engram_kept",
            Event::EngramEvicted { .. } => "engram_evicted",
            Event::BudgetGranted { .. } => "budget_granted",
            Event::BudgetCooled { .. } => "budget_cooled",
            Event::TokenCreated { .. } => "token_created",
            Event::TokenRevoked { .. } => "token_revoked",
            Event::IncidentOpened { .. } => "incident_opened",
            Event::IncidentResolved { .. } => "incident_resolved",
            Event::OutageEnded { .. } => "outage_ended",
            Event::ClockSteppedBack { .. } => "clock_stepped_back",
            Event::EpochBegan { .. } => "epoch_began",
            Event::ClockSteppedForward { .. } => "clock_stepped_forward",
            Event::WriteUndone { .. } => "write_undone",
        }
    }
}
