//! Sessions and the audit as people and other nodes see them.

use switchboard_core::NodeId;
use switchboard_core::audit::{self, Outcome};
use switchboard_core::external as core;

use super::{AgentScope, AuditEntry, AuditOutcome, Constraints, ExternalSession, SessionStatus};

pub fn scopes(scopes: &[core::AgentScope]) -> Vec<AgentScope> {
    scopes.iter().map(|scope| (*scope).into()).collect()
}

pub fn session(row: &core::ExternalSession) -> ExternalSession {
    let end = row.ended.as_ref();
    ExternalSession {
        session_id: row.id.clone(),
        agent_id: row.agent.to_string(),
        status: match end {
            None => SessionStatus::Live,
            Some(_) => SessionStatus::Ended,
        },
        scopes: scopes(&row.scopes),
        constraints: Constraints {
            max_sessions: u32::try_from(row.constraints.max_sessions).ok(),
            origins: row.constraints.origins.clone(),
        },
        invited_by: row.invited_by.clone(),
        thumbprint: row.thumbprint.clone(),
        began_at: row.began_at.into(),
        refreshed: row.turn,
        access_expires_at: row.access_until.into(),
        refresh_expires_at: row.refresh_until.into(),
        ended_at: end.map(|end| end.at.into()),
        ended_by: end.and_then(|end| end.by.clone()),
        reason: end.map(|end| end.why.to_string()),
    }
}

/// An entry of this node's own ledger.
pub fn entry(row: &audit::AuditEntry, own: &NodeId) -> AuditEntry {
    AuditEntry {
        id: row.id.clone(),
        at: row.at.into(),
        node_id: own.to_string(),
        actor: row.actor.as_ref().map(ToString::to_string),
        operation: row.operation.clone(),
        scope: row.scope.map(Into::into),
        corr_id: row.corr_id.as_ref().map(ToString::to_string),
        session_id: row.session.clone(),
        peer_node_id: row.peer.as_ref().map(ToString::to_string),
        outcome: match row.outcome {
            Outcome::Allowed => AuditOutcome::Allowed,
            Outcome::Refused => AuditOutcome::Refused,
        },
        code: row.code.clone(),
        more: row.more,
    }
}
