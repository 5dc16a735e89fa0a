//! ACQUIRE_LEASE, RELEASE_LEASE and what belongs to them.

use switchboard_core::{AgentId, LeasePath, verb};

use super::check::{agent_id, maybe, span, task_id};
use crate::Malformed;
use crate::jetpack::{
    AcquireLeaseRequest, CheckLeaseQuery, ExtendLeaseRequest, ReleaseLeaseRequest,
};

/// A path as an agent wrote it, normalised below the project.
pub fn lease_path(field: &str, path: &str, root: &str) -> Result<LeasePath, Malformed> {
    LeasePath::parse(path, root).map_err(|message| Malformed::field(field, message))
}

/// ACQUIRE_LEASE.
pub fn acquire_lease(
    request: AcquireLeaseRequest,
    root: &str,
) -> Result<verb::AcquireLease, Malformed> {
    Ok(verb::AcquireLease {
        agent: agent_id("agentId", &request.agent_id)?,
        task: maybe("taskId", request.task_id, task_id)?,
        epoch: request.epoch,
        path: lease_path("filePath", &request.file_path, root)?,
        lasts_for: span("durationMs", request.duration_ms)?,
    })
}

/// `POST /leases/extend`.
pub fn extend_lease(
    request: ExtendLeaseRequest,
    root: &str,
) -> Result<verb::ExtendLease, Malformed> {
    Ok(verb::ExtendLease {
        agent: agent_id("agentId", &request.agent_id)?,
        path: lease_path("filePath", &request.file_path, root)?,
        lasts_for: span("durationMs", request.duration_ms)?,
        fencing: request.fencing_token,
    })
}

/// RELEASE_LEASE by its holder; a person's release leaves `agent` out of the verb.
pub fn release_lease(
    request: ReleaseLeaseRequest,
    root: &str,
) -> Result<(AgentId, verb::ReleaseLease), Malformed> {
    let by = agent_id("agentId", &request.agent_id)?;
    let release = verb::ReleaseLease {
        agent: Some(by.clone()),
        path: lease_path("filePath", &request.file_path, root)?,
        fencing: request.fencing_token,
    };
    Ok((by, release))
}

/// `GET /leases/check`.
pub fn check_lease(query: CheckLeaseQuery, root: &str) -> Result<verb::CheckLease, Malformed> {
    let path = query
        .file_path
        .ok_or_else(|| Malformed::missing("filePath"))?;
    Ok(verb::CheckLease {
        path: lease_path("filePath", &path, root)?,
        agent: maybe("agentId", query.agent_id, agent_id)?,
    })
}
