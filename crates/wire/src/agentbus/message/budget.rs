//! Requests to resources that all workers share.

use serde::{Deserialize, Serialize};

use super::{MessageType, Payload};
use crate::Malformed;
use crate::agentbus::check::{self, Checked};
use crate::agentbus::words::{BudgetKind, BudgetPriority, BudgetResource, BudgetStatus};

/// `budget_request.v1`: may I?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetRequest {
    pub request_id: String,
    pub resource: BudgetResource,
    pub kind: BudgetKind,
    pub priority: BudgetPriority,
}

impl Payload for BudgetRequest {
    const TYPE: MessageType = MessageType::BudgetRequest;

    fn check(&self) -> Checked {
        check::id("request_id", &self.request_id)?;
        match (self.resource, self.kind) {
            (BudgetResource::Github, BudgetKind::Read | BudgetKind::Write)
            | (BudgetResource::Model, BudgetKind::Request) => Ok(()),
            (BudgetResource::Github, BudgetKind::Request) => {
                Err(Malformed::field("kind", "of github is read or write"))
            }
            (BudgetResource::Model, BudgetKind::Read | BudgetKind::Write) => {
                Err(Malformed::field("kind", "of model is request"))
            }
        }
    }
}

/// `budget_grant.v1`: yes, or wait; a request that waited is answered again when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetGrant {
    pub request_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<bool>,
    /// How many are before it, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
}

impl BudgetGrant {
    pub fn granted(request_id: String, grant_id: String) -> Self {
        Self {
            request_id,
            grant_id: Some(grant_id),
            queued: None,
            position: None,
        }
    }

    pub fn queued(request_id: String, position: Option<u32>) -> Self {
        Self {
            request_id,
            grant_id: None,
            queued: Some(true),
            position,
        }
    }
}

impl Payload for BudgetGrant {
    const TYPE: MessageType = MessageType::BudgetGrant;

    fn check(&self) -> Checked {
        check::id("request_id", &self.request_id)?;
        check::maybe_id("grant_id", self.grant_id.as_deref())?;
        if self.grant_id.is_some() == (self.queued == Some(true)) {
            return Err(Malformed::field(
                "grant_id",
                "expected either this or queued",
            ));
        }
        Ok(())
    }
}

/// `budget_result.v1`: the request is over, and this is how it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetResult {
    pub grant_id: String,
    pub status: BudgetStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl Payload for BudgetResult {
    const TYPE: MessageType = MessageType::BudgetResult;

    fn check(&self) -> Checked {
        check::id("grant_id", &self.grant_id)?;
        check::seconds("retry_after_seconds", self.retry_after_seconds)
    }
}
