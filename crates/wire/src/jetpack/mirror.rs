//! The protocol's words and the rules' words, each way. A new word on either side breaks the build here.

use switchboard_core as core;

use super::words as wire;
use crate::words::mirror;

mirror!(wire::AgentType, core::AgentKind {
    ClaudeCode = ClaudeCode, Codex = Codex, Gemini = Gemini, Browser = Browser, Custom = Custom,
});
mirror!(wire::Priority, core::Priority {
    Low = Low, Medium = Medium, High = High, Critical = Critical,
});
mirror!(wire::TaskType, core::TaskKind {
    Code = Code, Test = Test, BrowserTest = BrowserTest, Documentation = Documentation, Review = Review, Custom = Custom,
    SkillDistribution = SkillDistribution,
});
mirror!(wire::TaskPhase, core::Phase {
    Analyzing = Analyzing, Planning = Planning, Implementing = Implementing, Testing = Testing, Reviewing = Reviewing,
});
mirror!(wire::FailureType, core::FailureKind {
    TaskError = TaskError, TaskTimeout = TaskTimeout, DependencyError = DependencyError,
    QualityFailure = QualityFailure, ResourceError = ResourceError, AgentCrash = AgentCrash,
});
mirror!(wire::OnDependencyFailure, core::task::OnDependencyFailure {
    Block = Block, Fail = Fail,
});
mirror!(wire::NextAction, core::quality::NextAction {
    Proceed = Proceed, FixRegressions = FixRegressions, ManualReview = ManualReview,
});
mirror!(wire::GateStep, core::release_gate::GateStep {
    Tests = Tests, Verified = Verified, Risk = Risk, Docs = Docs,
});
mirror!(wire::ClaimType, core::assertion::AssertionKind {
    Decision = Decision, Task = Task, Finding = Finding, Blocker = Blocker,
});
mirror!(wire::ClaimStatus, core::assertion::AssertionStatus {
    Proposed = Proposed, Confirmed = Confirmed, Contested = Contested, PendingProof = PendingProof, Deprecated = Deprecated,
});
mirror!(wire::Severity, core::Severity {
    Error = Error, Warning = Warning,
});
mirror!(wire::AttemptOutcome, core::Outcome {
    Completed = Completed, NeedsReview = NeedsPerson, Failed = Failed, Crashed = Crashed,
    Released = Released, HandedOver = HandedOver, Canceled = Canceled,
});
mirror!(wire::EvidenceSource, core::evidence::Source {
    Reported = Reported, Worker = Worker,
});
mirror!(wire::Verdict, core::Verdict {
    Verified = Verified, Gaps = Gaps, Unverified = Unverified,
});
mirror!(wire::DeliveryState, core::DeliveryState {
    Queued = Queued, Delivered = Handed, Acknowledged = Acknowledged, Expired = Expired,
    Failed = Failed,
});
mirror!(wire::Scope, core::token::Scope {
    Steward = Steward, Viewer = Viewer, Node = Node, Sql = Sql, SqlSteward = SqlSteward, Agent = Agent, Operator = Operator,
});
mirror!(wire::NoTaskReason, core::verb::NoTask {
    NoMatchingTasks = NoMatchingTasks, AllTasksClaimed = AllTasksClaimed,
});

impl From<core::TaskStatus> for wire::TaskStatus {
    fn from(status: core::TaskStatus) -> Self {
        match status {
            core::TaskStatus::Waiting => Self::Blocked,
            core::TaskStatus::Ready => Self::Ready,
            core::TaskStatus::Claimed => Self::Claimed,
            core::TaskStatus::InProgress => Self::InProgress,
            core::TaskStatus::RetryWait => Self::PendingRetry,
            core::TaskStatus::NeedsPerson => Self::NeedsReview,
            core::TaskStatus::Completed => Self::Completed,
            core::TaskStatus::Failed => Self::Failed,
            core::TaskStatus::Canceled => Self::Canceled,
        }
    }
}

impl wire::TaskStatus {
    /// `pending` is a word of direct database clients; no task stays in it.
    pub fn to_core(self) -> Option<core::TaskStatus> {
        match self {
            Self::Pending => None,
            Self::Ready => Some(core::TaskStatus::Ready),
            Self::Claimed => Some(core::TaskStatus::Claimed),
            Self::InProgress => Some(core::TaskStatus::InProgress),
            Self::Completed => Some(core::TaskStatus::Completed),
            Self::Failed => Some(core::TaskStatus::Failed),
            Self::PendingRetry => Some(core::TaskStatus::RetryWait),
            Self::Blocked => Some(core::TaskStatus::Waiting),
            Self::NeedsReview => Some(core::TaskStatus::NeedsPerson),
            Self::Canceled => Some(core::TaskStatus::Canceled),
        }
    }
}

impl From<wire::HeartbeatStatus> for core::Doing {
    fn from(status: wire::HeartbeatStatus) -> Self {
        match status {
            wire::HeartbeatStatus::Idle => Self::Idle,
            wire::HeartbeatStatus::Busy => Self::Busy,
            wire::HeartbeatStatus::Error => Self::Error,
        }
    }
}

impl From<&core::Presence> for wire::AgentStatus {
    fn from(presence: &core::Presence) -> Self {
        match presence {
            core::Presence::Live(core::Doing::Idle) => Self::Idle,
            core::Presence::Live(core::Doing::Busy) => Self::Busy,
            core::Presence::Live(core::Doing::Error) => Self::Error,
            core::Presence::Live(core::Doing::Stopping) => Self::ShuttingDown,
            core::Presence::Silent { .. } | core::Presence::Gone { .. } => Self::Offline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! spelled_alike {
        ($($wire:ty => $core:ty),+ $(,)?) => {$(
            for word in <$wire>::ALL {
                let inside = <$core>::from(*word);
                assert_eq!(word.as_str(), inside.as_str());
                assert_eq!(<$wire>::from(inside), *word);
            }
            assert_eq!(<$wire>::ALL.len(), <$core>::ALL.len());
        )+};
    }

    #[test]
    fn both_sides_spell_every_word_alike() {
        spelled_alike! {
            wire::AgentType => core::AgentKind,
            wire::Priority => core::Priority,
            wire::TaskType => core::TaskKind,
            wire::TaskPhase => core::Phase,
            wire::FailureType => core::FailureKind,
            wire::OnDependencyFailure => core::task::OnDependencyFailure,
            wire::NextAction => core::quality::NextAction,
            wire::Severity => core::Severity,
            wire::AttemptOutcome => core::Outcome,
            wire::EvidenceSource => core::evidence::Source,
            wire::Verdict => core::Verdict,
            wire::DeliveryState => core::DeliveryState,
            wire::Scope => core::token::Scope,
            wire::ClaimType => core::assertion::AssertionKind,
            wire::ClaimStatus => core::assertion::AssertionStatus,
        }
        for status in core::TaskStatus::ALL {
            let outside = wire::TaskStatus::from(*status);
            assert_eq!(outside.as_str(), status.as_str());
            assert_eq!(outside.to_core(), Some(*status));
        }
    }
}
