//! How a connection begins, what goes wrong on it, and the question before a quiet worker is given up.

use serde::{Deserialize, Serialize};
use switchboard_core::limits;

use super::{HelloAuth, MessageType, Payload};
use crate::Malformed;
use crate::agentbus::check::{self, Checked};
use crate::agentbus::words::{ErrorCode, Role};
use crate::object::{object, optional};

/// The capability of a worker that takes tasks from the director.
pub const CAPABILITY_ASSIGN: &str = "assign.v1";
/// The capability of a worker that takes messages of other agents.
pub const CAPABILITY_MESSAGE: &str = "message.v1";
/// The capability, and skill, of a worker that takes tasks of the type `browser_test`.
pub const CAPABILITY_BROWSER: &str = "browser";
/// What a sender that cannot be understood has to do.
pub const SYNC_MAIN_AND_RESTART: &str = "sync_main_and_restart";

/// `protocol_hello.v1`: the first frame of a worker or an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol_version: String,
    pub capabilities: Vec<String>,
    /// Required of workers only.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub worker: Option<HelloWorker>,
    /// Required of workers only.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub repo: Option<HelloRepo>,
    /// Required where the director asks who it is, and no certificate tells.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub auth: Option<HelloAuth>,
}

/// Where a worker runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HelloWorker {
    pub worker_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// It takes no task that is estimated to last longer. Absent: the director's watchdog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_task_minutes: Option<u32>,
}

/// What a worker has seen of the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HelloRepo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_sha_seen: Option<String>,
    /// Where the worker's branch left main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_ancestor_sha: Option<String>,
    /// The hash of the catalog as the worker knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_hash_seen: Option<String>,
}

impl Hello {
    /// Whether this capability is listed, in any case of letters.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities
            .iter()
            .any(|listed| listed.trim().eq_ignore_ascii_case(capability))
    }

    /// What a worker can do beyond the protocol itself.
    pub fn skills(&self) -> impl Iterator<Item = &str> {
        self.capabilities
            .iter()
            .map(|listed| listed.trim())
            .filter(|listed| {
                ![CAPABILITY_ASSIGN, CAPABILITY_MESSAGE]
                    .iter()
                    .any(|own| listed.eq_ignore_ascii_case(own))
            })
    }

    /// What is asked of this role beyond the shape.
    pub fn check_for(&self, role: Role) -> Checked {
        match role {
            Role::Worker if self.worker.is_none() => Err(Malformed::missing("payload.worker")),
            Role::Worker if self.repo.is_none() => Err(Malformed::missing("payload.repo")),
            Role::Worker | Role::Operator | Role::Director => Ok(()),
        }
    }
}

impl Payload for Hello {
    const TYPE: MessageType = MessageType::ProtocolHello;

    fn check(&self) -> Checked {
        check::word("protocol_version", &self.protocol_version)?;
        check::each(
            "capabilities",
            &self.capabilities,
            limits::SKILLS_MAX,
            |place, capability| {
                check::filled(place, capability, limits::SKILL_BYTES_MAX)?;
                check::word(place, capability)
            },
        )?;
        if let Some(worker) = &self.worker {
            check::id("worker.worker_id", &worker.worker_id)?;
            check::maybe_word("worker.container_id", worker.container_id.as_deref())?;
            check::maybe_word("worker.image_tag", worker.image_tag.as_deref())?;
            check::maybe_text(
                "worker.worktree_path",
                worker.worktree_path.as_deref(),
                limits::PATH_BYTES_MAX,
            )?;
            check::maybe_word("worker.branch_name", worker.branch_name.as_deref())?;
            let minutes = worker.max_task_minutes.unwrap_or(0);
            check::at_most(
                "worker.max_task_minutes",
                minutes.into(),
                limits::MINUTES_MAX.into(),
            )?;
        }
        if let Some(repo) = &self.repo {
            check::maybe_word("repo.main_sha_seen", repo.main_sha_seen.as_deref())?;
            check::maybe_word("repo.main_ancestor_sha", repo.main_ancestor_sha.as_deref())?;
            check::maybe_word("repo.catalog_hash_seen", repo.catalog_hash_seen.as_deref())?;
        }
        self.auth.as_ref().map_or(Ok(()), HelloAuth::check)
    }
}

/// `protocol_welcome.v1`: the director's answer to a hello it can speak with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    pub protocol_version: String,
    #[serde(deserialize_with = "object")]
    pub director: WelcomeDirector,
    /// What the director counts on; for clients that would rather be told.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub limits: Option<WelcomeLimits>,
}

/// Which director it is, and what it expects of the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WelcomeDirector {
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_sha_expected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_hash_expected: Option<String>,
}

/// The director's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomeLimits {
    pub max_message_bytes: u64,
    pub heartbeat_interval_seconds: u64,
    pub heartbeat_ttl_seconds: u64,
}

impl Payload for Welcome {
    const TYPE: MessageType = MessageType::ProtocolWelcome;

    fn check(&self) -> Checked {
        check::word("protocol_version", &self.protocol_version)?;
        check::filled(
            "director.run_id",
            &self.director.run_id,
            limits::NAME_BYTES_MAX,
        )
    }
}

/// `protocol_incompatibility.v1`: the two cannot speak with each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolIncompatibility {
    pub reason: String,
    pub expected_protocol_version: String,
    pub sender_protocol_version: String,
    pub required_action: String,
}

impl Payload for ProtocolIncompatibility {
    const TYPE: MessageType = MessageType::ProtocolIncompatibility;

    fn check(&self) -> Checked {
        check::text("reason", &self.reason, limits::NOTE_BYTES_MAX)?;
        check::word("expected_protocol_version", &self.expected_protocol_version)?;
        check::word("sender_protocol_version", &self.sender_protocol_version)?;
        check::word("required_action", &self.required_action)
    }
}

/// `protocol_error.v1`: a frame was refused, or the connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolError {
    pub code: ErrorCode,
    pub message: String,
    /// The number of the frame it is about, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ref_seq: Option<u64>,
}

impl Payload for ProtocolError {
    const TYPE: MessageType = MessageType::ProtocolError;

    fn check(&self) -> Checked {
        check::text("message", &self.message, limits::NOTE_BYTES_MAX)
    }
}

/// `worker_probe.v1`: nothing was heard for long; a heartbeat answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerProbe {
    pub reason: String,
    pub answer_within_seconds: u64,
}

impl Payload for WorkerProbe {
    const TYPE: MessageType = MessageType::WorkerProbe;

    fn check(&self) -> Checked {
        check::text("reason", &self.reason, limits::NOTE_BYTES_MAX)?;
        check::seconds("answer_within_seconds", Some(self.answer_within_seconds))
    }
}

/// `worker_leaving.v1`: it goes for good; what it holds goes back without a retry, and the director ends the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerLeaving {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Payload for WorkerLeaving {
    const TYPE: MessageType = MessageType::WorkerLeaving;

    fn check(&self) -> Checked {
        check::maybe_text("reason", self.reason.as_deref(), limits::NOTE_BYTES_MAX)
    }
}
