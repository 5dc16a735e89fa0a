//! The director's demand that a worker catches up with main.

use serde::{Deserialize, Serialize};

use super::{MessageType, Payload};
use crate::agentbus::check::{self, Checked};
use crate::agentbus::words::{SyncAction, SyncReason};
use crate::object::object;

/// `sync_required.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRequired {
    pub reason: SyncReason,
    pub main_sha_expected: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_hash_expected: Option<String>,
    #[serde(deserialize_with = "object")]
    pub policy: SyncPolicy,
    pub required_action: SyncAction,
}

/// The bounds by which it was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_commits_behind: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds_behind: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_catalog_hash_match: Option<bool>,
}

impl Payload for SyncRequired {
    const TYPE: MessageType = MessageType::SyncRequired;

    fn check(&self) -> Checked {
        check::word("main_sha_expected", &self.main_sha_expected)?;
        check::maybe_word(
            "catalog_hash_expected",
            self.catalog_hash_expected.as_deref(),
        )
    }
}
