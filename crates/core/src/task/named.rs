//! The words of a task: its states, priorities, kinds, phases and ways to fail.

use serde::{Deserialize, Serialize};

words! {
    /// The public words for [`TaskState`].
    #[derive(Hash, Serialize, Deserialize)]
    pub enum TaskStatus {
        Waiting = "blocked",
        Ready = "ready",
        Claimed = "claimed",
        InProgress = "in_progress",
        RetryWait = "pending_retry",
        NeedsPerson = "needs_review",
        Completed = "completed",
        Failed = "failed",
        Canceled = "canceled",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Priority {
        Critical = "critical",
        High = "high",
        Medium = "medium",
        Low = "low",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum TaskKind {
        Code = "code",
        Test = "test",
        BrowserTest = "browser_test",
        Documentation = "documentation",
        Review = "review",
        Custom = "custom",
        /// To install a skill; see `verb/distribute.rs`.
        SkillDistribution = "skill_distribution",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Phase {
        Analyzing = "analyzing",
        Planning = "planning",
        Implementing = "implementing",
        Testing = "testing",
        Reviewing = "reviewing",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum FailureKind {
        TaskError = "task_error",
        TaskTimeout = "task_timeout",
        DependencyError = "dependency_error",
        QualityFailure = "quality_failure",
        ResourceError = "resource_error",
        AgentCrash = "agent_crash",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum OnDependencyFailure {
        Block = "block",
        Fail = "fail",
    }
}

words! {
    /// What becomes of a task whose retries are used up.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum WhenSpent {
        Fail = "fail",
        AskPerson = "ask_person",
    }
}

impl FailureKind {
    /// What a person could do about it, if nobody knows better.
    pub fn remedy(self) -> &'static str {
        match self {
            FailureKind::AgentCrash => "check why its workers crashed, then retry it",
            FailureKind::TaskTimeout => "split it or give it more time, then retry it",
            FailureKind::DependencyError => "fix what it depends on, then retry it",
            FailureKind::ResourceError => "provide the missing resource, then retry it",
            FailureKind::QualityFailure | FailureKind::TaskError => {
                "check its attempts, then change or retry it"
            }
        }
    }
}

impl TaskStatus {
    /// No verb of an agent leads out of these; a person may retry.
    pub fn is_final(self) -> bool {
        match self {
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => true,
            TaskStatus::Waiting
            | TaskStatus::Ready
            | TaskStatus::Claimed
            | TaskStatus::InProgress
            | TaskStatus::RetryWait
            | TaskStatus::NeedsPerson => false,
        }
    }
}
