//! Who did what from outside of this hub, and what was refused: kept without payloads and tokens, for a while.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::external::AgentScope;
use crate::id::{AgentId, CorrId, NodeId};
use crate::limits;
use crate::record::{History, Place, Private, RecordRange};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub id: String,
    pub at: Timestamp,
    /// The agent, or the person; nobody, if it was not found out.
    pub actor: Option<AgentId>,
    pub operation: String,
    pub scope: Option<AgentScope>,
    pub corr_id: Option<CorrId>,
    pub session: Option<String>,
    /// The other node, where one has part in it.
    pub peer: Option<NodeId>,
    pub outcome: Outcome,
    /// Why it was refused.
    pub code: Option<String>,
    /// How many like it were not written down since the last one that was.
    pub more: u64,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Outcome {
        Allowed = "allowed",
        Refused = "refused",
    }
}

const TOLD: &str = "told";

impl Private for AuditEntry {
    const HISTORY: Option<History> = Some(History {
        owner: TOLD,
        kept_for: limits::AUDIT_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.id.clone().into()
    }

    fn owner(&self) -> &str {
        TOLD
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

impl AuditEntry {
    /// Something that was allowed.
    pub fn of(id: impl Into<String>, operation: &str, at: Timestamp) -> AuditEntry {
        AuditEntry {
            id: id.into(),
            at,
            actor: None,
            operation: operation.to_owned(),
            scope: None,
            corr_id: None,
            session: None,
            peer: None,
            outcome: Outcome::Allowed,
            code: None,
            more: 0,
        }
    }

    pub fn refused(self, code: &str) -> AuditEntry {
        AuditEntry {
            outcome: Outcome::Refused,
            code: Some(code.to_owned()),
            ..self
        }
    }

    /// The oldest ones after a place.
    pub fn after(place: Option<Place>, limit: usize) -> RecordRange {
        RecordRange {
            after: place,
            ..RecordRange::of::<AuditEntry>(TOLD, limit)
        }
    }
}
