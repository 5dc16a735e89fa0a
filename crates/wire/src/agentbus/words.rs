//! The bus's words, and how they meet the words of the rules.

use switchboard_core::said::Said;
use switchboard_core::{FailureKind, Phase, TaskStatus};

use crate::words::words;

words! {
    /// Who speaks.
    pub enum Role {
        Director = "director",
        Worker = "worker",
        Operator = "operator",
    }
}

words! {
    /// Where a worker stands with its issue.
    pub enum Stage {
        Start = "START",
        UpgradeCheckpoint = "UPGRADE_CHECKPOINT",
        SyncMain = "SYNC_MAIN",
        ContextLoad = "CONTEXT_LOAD",
        Code = "CODE",
        Validate = "VALIDATE",
        Commit = "COMMIT",
        PrCreate = "PR_CREATE",
        ReviewRequest = "REVIEW_REQUEST",
        Done = "DONE",
        RetryWait = "RETRY_WAIT",
        Blocked = "BLOCKED",
    }
}

words! {
    /// What the director is about.
    pub enum DirectorState {
        Boot = "BOOT",
        ReleasePlan = "RELEASE_PLAN",
        Discover = "DISCOVER",
        Dispatch = "DISPATCH",
        Monitor = "MONITOR",
        ReleaseFinalize = "RELEASE_FINALIZE",
        Broadcast = "BROADCAST",
        SelfReview = "SELF_REVIEW",
        Cooldown = "COOLDOWN",
        Shutdown = "SHUTDOWN",
    }
}

words! {
    /// What is wrong with a frame or a connection, for the one who sent it.
    pub enum ErrorCode {
        BadJson = "bad_json",
        BadEnvelope = "bad_envelope",
        BadSeq = "bad_seq",
        TooLarge = "too_large",
        HelloRequired = "hello_required",
        RoleForbidden = "role_forbidden",
        Replaced = "replaced",
        RateLimited = "rate_limited",
    }
}

words! {
    /// Why a worker has to sync.
    pub enum SyncReason {
        BehindMain = "behind_main",
        CatalogMismatch = "catalog_mismatch",
        ProtocolChange = "protocol_change",
    }
}

words! {
    /// How a worker has to sync.
    pub enum SyncAction {
        MergeMain = "merge_main",
        RebaseMain = "rebase_main",
    }
}

words! {
    /// What an operator may ask for.
    pub enum OperatorOrder {
        Snapshot = "snapshot",
        Pause = "pause",
        Resume = "resume",
        Cooldown = "cooldown",
        ShutdownWorker = "shutdown_worker",
        Release = "release",
    }
}

words! {
    /// What is shared out among workers.
    pub enum BudgetResource {
        Github = "github",
        Model = "model",
    }
}

words! {
    /// What a worker wants to do with it.
    pub enum BudgetKind {
        Read = "read",
        Write = "write",
        Request = "request",
    }
}

words! {
    /// Whose request goes first; the first word is the most urgent.
    pub enum BudgetPriority {
        Heartbeat = "heartbeat",
        Safety = "merge_safety",
        CurrentRead = "current_read",
        BestEffortRead = "best_effort_read",
        CosmeticWrite = "cosmetic_write",
    }
}

words! {
    /// How a granted request went.
    pub enum BudgetStatus {
        Ok = "ok",
        RateLimited = "rate_limited",
        Error = "error",
        Unused = "unused",
    }
}

words! {
    /// The tiers of memory.
    pub enum Scope {
        Short = "st",
        Long = "lt",
    }
}

words! {
    /// The error types that have a meaning of their own; any other word is an ordinary error.
    pub enum ErrorType {
        GithubRateLimited = "github_rate_limited",
        GithubMcpTimeout = "github_mcp_timeout",
        AgentBusDisconnect = "agent_bus_disconnect",
        DockerExitNonzero = "docker_exit_nonzero",
        BuildFailed = "build_failed",
        TestsFailed = "tests_failed",
        InvalidConfig = "invalid_config",
        MissingPrereq = "missing_prereq",
    }
}

impl Stage {
    /// What the rules call it.
    pub const fn said(self) -> Said {
        match self {
            Self::Start | Self::UpgradeCheckpoint | Self::SyncMain | Self::ContextLoad => {
                Said::At(Phase::Analyzing)
            }
            Self::Code => Said::At(Phase::Implementing),
            Self::Validate => Said::At(Phase::Testing),
            Self::Commit | Self::PrCreate | Self::ReviewRequest => Said::At(Phase::Reviewing),
            Self::Done => Said::Done,
            Self::RetryWait => Said::Waits,
            Self::Blocked => Said::Blocked,
        }
    }

    /// What is shown for a task of another dialect.
    pub const fn of_task(status: TaskStatus, phase: Option<Phase>) -> Option<Self> {
        match status {
            TaskStatus::Claimed => Some(Self::Start),
            TaskStatus::InProgress => Some(match phase {
                Some(phase) => Self::of_phase(phase),
                None => Self::Start,
            }),
            TaskStatus::NeedsPerson | TaskStatus::Failed => Some(Self::Blocked),
            TaskStatus::Completed => Some(Self::Done),
            TaskStatus::Waiting
            | TaskStatus::Ready
            | TaskStatus::RetryWait
            | TaskStatus::Canceled => None,
        }
    }

    const fn of_phase(phase: Phase) -> Self {
        match phase {
            Phase::Analyzing | Phase::Planning => Self::ContextLoad,
            Phase::Implementing => Self::Code,
            Phase::Testing => Self::Validate,
            Phase::Reviewing => Self::ReviewRequest,
        }
    }
}

impl ErrorType {
    /// The class of failure it counts as.
    pub const fn failure_kind(self) -> FailureKind {
        match self {
            Self::DockerExitNonzero | Self::InvalidConfig => FailureKind::TaskError,
            Self::BuildFailed | Self::TestsFailed => FailureKind::QualityFailure,
            Self::GithubMcpTimeout => FailureKind::TaskTimeout,
            Self::MissingPrereq => FailureKind::DependencyError,
            Self::GithubRateLimited => FailureKind::ResourceError,
            Self::AgentBusDisconnect => FailureKind::AgentCrash,
        }
    }

    /// The word for a failure that was reported in another dialect.
    pub const fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::TaskError => Self::DockerExitNonzero,
            FailureKind::QualityFailure => Self::BuildFailed,
            FailureKind::TaskTimeout => Self::GithubMcpTimeout,
            FailureKind::DependencyError => Self::MissingPrereq,
            FailureKind::ResourceError => Self::GithubRateLimited,
            FailureKind::AgentCrash => Self::AgentBusDisconnect,
        }
    }

    /// What a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::GithubRateLimited => "wait for the limit to reset, or lower rate_limits.github",
            Self::GithubMcpTimeout => "check that GitHub is reachable, then retry the task",
            Self::AgentBusDisconnect => "check the worker's log and its network, then retry",
            Self::DockerExitNonzero => "check the container's last output, then retry the task",
            Self::BuildFailed => "fix the build on the worker's branch, then retry the task",
            Self::TestsFailed => "fix the failing tests or the task's description, then retry",
            Self::InvalidConfig => "fix the configuration named in the message, then retry",
            Self::MissingPrereq => "install or provide what is missing, then retry the task",
        }
    }
}

/// What a person can do about an error of any type.
pub fn remedy(error_type: &str) -> &'static str {
    error_type.parse().map_or(
        "read the error's message and output, then retry or cancel the task",
        ErrorType::remedy,
    )
}

/// The class of failure that an error of any type counts as.
pub fn failure_kind(error_type: &str) -> FailureKind {
    error_type
        .parse()
        .map_or(FailureKind::TaskError, ErrorType::failure_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_phases_meet_as_in_the_table() {
        // agentbus.heartbeat.stage_enum
        assert_eq!(Stage::ALL.len(), 12);
        let at = Said::At;
        for (stage, said) in [
            ("START", at(Phase::Analyzing)),
            ("UPGRADE_CHECKPOINT", at(Phase::Analyzing)),
            ("SYNC_MAIN", at(Phase::Analyzing)),
            ("CONTEXT_LOAD", at(Phase::Analyzing)),
            ("CODE", at(Phase::Implementing)),
            ("VALIDATE", at(Phase::Testing)),
            ("COMMIT", at(Phase::Reviewing)),
            ("PR_CREATE", at(Phase::Reviewing)),
            ("REVIEW_REQUEST", at(Phase::Reviewing)),
            ("DONE", Said::Done),
            ("RETRY_WAIT", Said::Waits),
            ("BLOCKED", Said::Blocked),
        ] {
            assert_eq!(stage.parse::<Stage>().expect(stage).said(), said);
        }
        for word in ["", "code", "CODING", "START ", "IDLE"] {
            assert!(word.parse::<Stage>().is_err(), "{word}");
        }
        for (status, phase, stage) in [
            (TaskStatus::Waiting, None, None),
            (TaskStatus::Ready, None, None),
            (TaskStatus::RetryWait, Some(Phase::Testing), None),
            (TaskStatus::Canceled, None, None),
            (TaskStatus::Claimed, None, Some("START")),
            (TaskStatus::InProgress, None, Some("START")),
            (
                TaskStatus::InProgress,
                Some(Phase::Analyzing),
                Some("CONTEXT_LOAD"),
            ),
            (
                TaskStatus::InProgress,
                Some(Phase::Planning),
                Some("CONTEXT_LOAD"),
            ),
            (
                TaskStatus::InProgress,
                Some(Phase::Implementing),
                Some("CODE"),
            ),
            (
                TaskStatus::InProgress,
                Some(Phase::Testing),
                Some("VALIDATE"),
            ),
            (
                TaskStatus::InProgress,
                Some(Phase::Reviewing),
                Some("REVIEW_REQUEST"),
            ),
            (TaskStatus::NeedsPerson, None, Some("BLOCKED")),
            (TaskStatus::Failed, None, Some("BLOCKED")),
            (TaskStatus::Completed, None, Some("DONE")),
        ] {
            assert_eq!(
                Stage::of_task(status, phase).map(Stage::as_str),
                stage,
                "{status}"
            );
        }
    }

    #[test]
    fn error_types_and_failures_meet_as_in_the_table() {
        for (word, kind) in [
            ("docker_exit_nonzero", FailureKind::TaskError),
            ("something_new", FailureKind::TaskError),
            ("invalid_config", FailureKind::TaskError),
            ("build_failed", FailureKind::QualityFailure),
            ("tests_failed", FailureKind::QualityFailure),
            ("github_mcp_timeout", FailureKind::TaskTimeout),
            ("missing_prereq", FailureKind::DependencyError),
            ("github_rate_limited", FailureKind::ResourceError),
            ("agent_bus_disconnect", FailureKind::AgentCrash),
        ] {
            assert_eq!(failure_kind(word), kind, "{word}");
            assert!(!remedy(word).is_empty());
        }
        for kind in FailureKind::ALL {
            assert_eq!(ErrorType::of_failure(*kind).failure_kind(), *kind);
        }
    }
}
