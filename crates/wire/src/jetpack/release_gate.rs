//! The gate before a restart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GateStep;
use crate::IsoTime;

/// Four sign-offs for one commit, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseGate {
    pub commit: String,
    pub opened_by: String,
    pub opened_at: IsoTime,
    pub signed: Vec<GateSignOff>,
    /// What is to be signed next; `null` once everything is: it is safe to restart.
    pub next: Option<GateStep>,
    /// Who signs that.
    pub next_by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateSignOff {
    pub step: GateStep,
    pub by: String,
    pub at: IsoTime,
    pub note: String,
}

/// `POST /gate/open`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenGateRequest {
    pub commit: String,
}

/// `POST /gate/sign`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignGateRequest {
    /// The role that signs.
    pub agent_id: String,
    pub step: GateStep,
    pub commit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The gate, or `null` if none was ever opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateResponse {
    pub success: bool,
    pub gate: Option<ReleaseGate>,
}
