//! What operators ask for, and releases.

use serde::{Deserialize, Serialize};
use switchboard_core::limits;

use super::{MessageType, Payload, Release};
use crate::Malformed;
use crate::agentbus::check::{self, Checked};
use crate::agentbus::words::OperatorOrder;
use crate::object::optional;

/// `operator_command.v1`: confirmed by `operator_ack.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCommand {
    pub command: OperatorOrder,
    /// The worker, for `shutdown_worker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default)]
    pub reason: String,
    /// How long, for `cooldown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Which one, for `release`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional"
    )]
    pub release: Option<Release>,
}

impl OperatorCommand {
    /// A command without anything further.
    pub fn plain(command: OperatorOrder, reason: impl Into<String>) -> Self {
        Self {
            command,
            target: None,
            reason: reason.into(),
            seconds: None,
            release: None,
        }
    }
}

impl Payload for OperatorCommand {
    const TYPE: MessageType = MessageType::OperatorCommand;

    fn check(&self) -> Checked {
        check::text("reason", &self.reason, limits::NOTE_BYTES_MAX)?;
        check::maybe_id("target", self.target.as_deref())?;
        check::seconds("seconds", self.seconds)?;
        if let Some(release) = &self.release {
            release.check("release")?;
        }
        match self.command {
            OperatorOrder::ShutdownWorker if self.target.is_none() => {
                Err(Malformed::missing("target"))
            }
            OperatorOrder::Release if self.release.is_none() => Err(Malformed::missing("release")),
            OperatorOrder::Snapshot
            | OperatorOrder::Pause
            | OperatorOrder::Resume
            | OperatorOrder::Cooldown
            | OperatorOrder::ShutdownWorker
            | OperatorOrder::Release => Ok(()),
        }
    }
}

/// `operator_ack.v1`: what became of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorAck {
    /// The number of the command's frame.
    pub ref_seq: u64,
    pub ok: bool,
    pub message: String,
}

impl Payload for OperatorAck {
    const TYPE: MessageType = MessageType::OperatorAck;

    fn check(&self) -> Checked {
        check::text("message", &self.message, limits::NOTE_BYTES_MAX)
    }
}

/// `release_published.v1`: a release is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasePublished {
    pub tag: String,
    pub main_sha: String,
    pub image_tag: String,
}

impl Payload for ReleasePublished {
    const TYPE: MessageType = MessageType::ReleasePublished;

    fn check(&self) -> Checked {
        check::filled("tag", &self.tag, limits::NAME_BYTES_MAX)?;
        check::word("tag", &self.tag)?;
        check::word("main_sha", &self.main_sha)?;
        check::word("image_tag", &self.image_tag)
    }
}
