//! The protocol's words. Any other word is refused, with the field and the allowed ones.

use crate::words::words;

words! {
    /// The ten operations.
    pub enum Operation {
        Register = "REGISTER",
        Heartbeat = "HEARTBEAT",
        Claim = "CLAIM",
        Progress = "PROGRESS",
        Complete = "COMPLETE",
        Fail = "FAIL",
        SendMessage = "SEND_MESSAGE",
        ReceiveMessages = "RECEIVE_MESSAGES",
        AcquireLease = "ACQUIRE_LEASE",
        ReleaseLease = "RELEASE_LEASE",
    }
}

words! {
    /// What runs behind an agent.
    pub enum AgentType {
        ClaudeCode = "claude-code",
        Codex = "codex",
        Gemini = "gemini",
        Browser = "browser",
        Custom = "custom",
    }
}

words! {
    /// What the hub knows about an agent.
    pub enum AgentStatus {
        Idle = "idle",
        Busy = "busy",
        Error = "error",
        Offline = "offline",
        ShuttingDown = "shutting_down",
    }
}

words! {
    /// What an agent says about itself.
    pub enum HeartbeatStatus {
        Idle = "idle",
        Busy = "busy",
        Error = "error",
    }
}

words! {
    /// How soon a task is wanted.
    pub enum Priority {
        Low = "low",
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}

words! {
    /// The kind of work.
    pub enum TaskType {
        Code = "code",
        Test = "test",
        BrowserTest = "browser_test",
        Documentation = "documentation",
        Review = "review",
        Custom = "custom",
        SkillDistribution = "skill_distribution",
    }
}

words! {
    /// Where a task stands.
    pub enum TaskStatus {
        Pending = "pending",
        Ready = "ready",
        Claimed = "claimed",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        PendingRetry = "pending_retry",
        Blocked = "blocked",
        NeedsReview = "needs_review",
        Canceled = "canceled",
    }
}

words! {
    /// What the holder is doing.
    pub enum TaskPhase {
        Analyzing = "analyzing",
        Planning = "planning",
        Implementing = "implementing",
        Testing = "testing",
        Reviewing = "reviewing",
    }
}

words! {
    /// Why an attempt ended badly.
    pub enum FailureType {
        TaskError = "task_error",
        TaskTimeout = "task_timeout",
        DependencyError = "dependency_error",
        QualityFailure = "quality_failure",
        ResourceError = "resource_error",
        AgentCrash = "agent_crash",
    }
}

words! {
    /// What becomes of a task whose dependency failed for good.
    pub enum OnDependencyFailure {
        Block = "block",
        Fail = "fail",
    }
}

words! {
    /// What a person asks of an agent.
    pub enum CommandType {
        Shutdown = "SHUTDOWN",
        ReleaseTask = "RELEASE_TASK",
        Ping = "PING",
    }
}

words! {
    /// Why a claim got no task.
    pub enum NoTaskReason {
        NoMatchingTasks = "no_matching_tasks",
        AllTasksClaimed = "all_tasks_claimed",
    }
}

words! {
    /// What follows a completion.
    pub enum NextAction {
        Proceed = "proceed",
        FixRegressions = "fix_regressions",
        ManualReview = "manual_review",
    }
}

words! {
    /// How bad a regression is.
    pub enum Severity {
        Error = "error",
        Warning = "warning",
    }
}

words! {
    /// How one attempt at a task ended.
    pub enum AttemptOutcome {
        Completed = "completed",
        NeedsReview = "needs_review",
        Failed = "failed",
        Crashed = "crashed",
        Released = "released",
        Canceled = "canceled",
        HandedOver = "handed_over",
    }
}

words! {
    /// How far a message got with one recipient.
    pub enum DeliveryState {
        Queued = "queued",
        Delivered = "delivered",
        Acknowledged = "acknowledged",
        Expired = "expired",
        Failed = "failed",
    }
}

words! {
    /// Who ran a command that shows that a task is done.
    pub enum EvidenceSource {
        Reported = "reported",
        Worker = "worker",
    }
}

words! {
    /// What the evidence comes to: a worker ran it all on one commit and it succeeded; something is missing or red; nobody
    /// but the agent says so.
    pub enum Verdict {
        Verified = "verified",
        Gaps = "gaps",
        Unverified = "unverified",
    }
}

words! {
    /// Why a task is not claimable.
    pub enum WhyReason {
        HeldBy = "held_by",
        WaitsForDependency = "waits_for_dependency",
        RetryNotDue = "retry_not_due",
        NeedsPerson = "needs_person",
        Finished = "finished",
        MissingSkill = "missing_skill",
        OverTimeLimit = "over_time_limit",
        NeedsBrowser = "needs_browser",
        NeedsTests = "needs_tests",
        NotInAudience = "not_in_audience",
        Barred = "barred",
        FailedItBefore = "failed_it_before",
        Paused = "paused",
        AgentNotRegistered = "agent_not_registered",
        AgentOffline = "agent_offline",
        AgentStopping = "agent_stopping",
        NoAgents = "no_agents",
    }
}

words! {
    /// Which end of a list comes first.
    pub enum ListOrder {
        New = "new",
        Old = "old",
    }
}

words! {
    /// What is signed before a restart, in this order.
    pub enum GateStep {
        Tests = "tests",
        Verified = "verified",
        Risk = "risk",
        Docs = "docs",
    }
}

words! {
    /// What a line of a message claims.
    pub enum ClaimType {
        Decision = "decision",
        Task = "task",
        Finding = "finding",
        Blocker = "blocker",
    }
}

words! {
    /// Whether a claim holds.
    pub enum ClaimStatus {
        Proposed = "proposed",
        Confirmed = "confirmed",
        Contested = "contested",
        PendingProof = "pending_proof",
        Deprecated = "deprecated",
    }
}

words! {
    /// Whether somebody has looked after an incident.
    pub enum IncidentState {
        Open = "open",
        Resolved = "resolved",
    }
}

words! {
    /// What a token may do.
    pub enum Scope {
        Steward = "steward",
        Viewer = "viewer",
        Node = "node",
        Sql = "sql",
        SqlSteward = "sql:steward",
        Agent = "agent",
        Operator = "operator",
    }
}
