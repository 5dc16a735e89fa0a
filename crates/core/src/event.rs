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
    AgentRegistered {
        agent: AgentId,
        resumed: bool,
    },
    AgentStatusChanged {
        agent: AgentId,
        status: String,
        task: Option<TaskId>,
    },
    AgentSilent {
        agent: AgentId,
    },
    AgentReturned {
        agent: AgentId,
    },
    AgentDeregistered {
        agent: AgentId,
    },
    AgentKeyRotated {
        agent: AgentId,
        generation: u32,
    },
    AgentForgotten {
        agent: AgentId,
    },
    CommandIssued {
        agent: AgentId,
        command: CommandId,
        order: String,
    },
    CommandObeyed {
        agent: AgentId,
        command: CommandId,
    },
    TaskCreated {
        task: TaskId,
        number: u64,
        title: String,
        priority: Priority,
        status: String,
    },
    TaskChanged {
        task: TaskId,
        number: u64,
        fields: Vec<String>,
    },
    TaskReady {
        task: TaskId,
        number: u64,
        why: String,
    },
    TaskBlocked {
        task: TaskId,
        number: u64,
    },
    TaskClaimed {
        task: TaskId,
        number: u64,
        agent: AgentId,
        epoch: u64,
    },
    TaskHandedOver {
        task: TaskId,
        number: u64,
        from: Option<AgentId>,
        agent: AgentId,
        epoch: u64,
    },
    TaskProgressed {
        task: TaskId,
        number: u64,
        agent: Option<AgentId>,
        epoch: u64,
        phase: Phase,
        percent: u8,
        note: String,
    },
    TaskCompleted {
        task: TaskId,
        number: u64,
        agent: AgentId,
        epoch: u64,
    },
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
    TaskRetryPlanned {
        task: TaskId,
        number: u64,
        kind: FailureKind,
        message: String,
        retries: u32,
        until: Timestamp,
    },
    TaskRequeued {
        task: TaskId,
        number: u64,
        agent: AgentId,
        why: String,
    },
    TaskFailed {
        task: TaskId,
        number: u64,
        kind: FailureKind,
        message: String,
    },
    TaskCanceled {
        task: TaskId,
        number: u64,
        why: String,
    },
    TaskForgotten {
        task: TaskId,
        number: u64,
    },
    DependencyFailed {
        task: TaskId,
        number: u64,
        dependency: TaskId,
    },
    MessageSent {
        message: MessageId,
        from: AgentId,
        to: Option<AgentId>,
        kind: String,
        recipients: u32,
    },
    MessageDelivered {
        message: MessageId,
        agent: AgentId,
    },
    /// Its stream ended before it was acknowledged.
    MessageQueuedAgain {
        message: MessageId,
        agent: AgentId,
    },
    MessageAcknowledged {
        message: MessageId,
        agent: AgentId,
    },
    MessageExpired {
        message: MessageId,
        agent: AgentId,
    },
    LeaseAcquired {
        path: String,
        agent: AgentId,
        task: Option<TaskId>,
        fencing: u64,
        until: Timestamp,
    },
    LeaseExtended {
        path: String,
        agent: AgentId,
        until: Timestamp,
    },
    LeaseReleased {
        path: String,
        agent: AgentId,
    },
    LeaseExpired {
        path: String,
        agent: AgentId,
    },
    BaselineSet {
        by: String,
        snapshot: Option<SnapshotId>,
    },
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
    EngramKept {
        engram: EngramId,
        scope: String,
        version: String,
    },
    EngramEvicted {
        engram: EngramId,
    },
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
    TokenCreated {
        name: String,
        scope: String,
    },
    TokenRevoked {
        name: String,
    },
    /// Nobody served the ledger for a while; silence of agents counts from here.
    OutageEnded {
        served_at: Timestamp,
    },
    ClockSteppedBack {
        by_ms: u64,
    },
    /// The ledger's time goes on as before, and only slowly towards the new one.
    ClockSteppedForward {
        by_ms: u64,
    },
    /// The database has less than was acknowledged: of what was told up to `told`, nothing after `after` holds.
    EpochBegan {
        epoch: u64,
        after: u64,
        told: u64,
    },
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
            Event::OutageEnded { .. } => "outage_ended",
            Event::ClockSteppedBack { .. } => "clock_stepped_back",
            Event::EpochBegan { .. } => "epoch_began",
            Event::ClockSteppedForward { .. } => "clock_stepped_forward",
            Event::WriteUndone { .. } => "write_undone",
        }
    }
}
