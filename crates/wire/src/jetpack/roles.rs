//! Roles: whom SquidRun's messages are for, and who is there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::IsoTime;

/// A role, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleView {
    /// The name that messages are sent to.
    pub target: String,
    pub role: String,
    pub pane: String,
    pub responsibilities: String,
    /// Other words for the target.
    pub aliases: Vec<String>,
    /// Whether the role is connected, or otherwise online.
    pub online: bool,
    /// Agents that hold the role beside the one of its name.
    pub held_by: Vec<String>,
    /// When it last said in this session that it is online.
    pub checked_in_at: Option<IsoTime>,
    pub last_seen: Option<IsoTime>,
    /// Messages that wait for it.
    pub waiting: u32,
    /// Acknowledgements that it owes.
    pub owed: u32,
    /// Messages of this session without a number.
    pub unsequenced: u32,
    /// Acknowledgements of this session that said nothing and that nobody had asked for.
    pub empty_acks: u32,
}

/// `GET /roles`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RolesResponse {
    pub success: bool,
    /// The session that runs; 0 before the first one.
    pub session: u32,
    pub roles: Vec<RoleView>,
}
