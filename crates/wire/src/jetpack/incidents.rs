//! Incidents: what a person should look after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IncidentState;
use crate::IsoTime;
use crate::query::query;

/// There is one open incident per kind and subject; repeated occurrences are counted in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    pub id: String,
    pub kind: String,
    pub subject: String,
    pub corr_id: Option<String>,
    pub message: String,
    pub count: u64,
    pub first_at: IsoTime,
    pub last_at: IsoTime,
    /// `null` while it is open.
    pub resolved: Option<ResolvedIncident>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedIncident {
    pub by: String,
    pub why: String,
    pub at: IsoTime,
}

/// `POST /incidents/:id/resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolveIncidentRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /incidents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentPage {
    pub success: bool,
    pub incidents: Vec<Incident>,
    pub next: Option<String>,
}

/// An incident, after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentResponse {
    pub success: bool,
    pub incident: Incident,
}

query! {
    /// `GET /incidents`.
    pub struct IncidentQuery {
        "state" => state: Option<IncidentState>, "Open ones, oldest first (default), or resolved ones, newest first.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "after" => after: Option<String>, "The `next` of the previous page.";
    }
}
