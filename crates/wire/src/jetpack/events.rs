//! The event log as pages; the stream sends the same objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::IsoTime;
use crate::query::query;

/// One entry of the log; the members beyond these depend on the type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub seq: u64,
    pub at: IsoTime,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(flatten)]
    pub members: Map<String, Value>,
}

/// `GET /events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    pub success: bool,
    pub events: Vec<Event>,
    /// The `after` of the next page; `null` on the last.
    pub next: Option<u64>,
    /// The newest sequence number there is.
    pub latest: u64,
}

query! {
    /// `GET /events`.
    pub struct EventQuery {
        "after" => after: Option<u64>, "Only events with a higher sequence number.";
        "limit" => limit: Option<u32>, "Page size, at most 1000.";
        "types" => types: Vec<String>, "Only events of these types.";
    }
}
