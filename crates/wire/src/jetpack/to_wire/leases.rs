//! Leases.

use switchboard_core::verb::{LeaseAnswer, LeaseState};
use switchboard_core::{self as core};

use crate::jetpack::{AcquireLeaseResponse, CheckLeaseResponse, GrantedLease, Lease};

/// A lease.
pub fn lease(lease: &core::Lease) -> Lease {
    Lease {
        file_path: lease.path.as_str().to_owned(),
        agent_id: lease.agent.to_string(),
        task_id: lease.task.as_ref().map(ToString::to_string),
        acquired_at: lease.acquired_at.into(),
        expires_at: lease.expires_at.into(),
        renewed_count: lease.renewals,
        fencing_token: lease.fencing,
    }
}

/// The answer to ACQUIRE_LEASE.
pub fn lease_answer(reply: &LeaseAnswer) -> AcquireLeaseResponse {
    match reply {
        LeaseAnswer::Granted(lease) => lease_granted(lease),
        LeaseAnswer::Held(lease) => AcquireLeaseResponse {
            success: false,
            lease: None,
            held_by: Some(lease.agent.to_string()),
            held_until: Some(lease.expires_at.into()),
        },
    }
}

/// A lease that was granted or extended.
pub fn lease_granted(lease: &core::Lease) -> AcquireLeaseResponse {
    let granted = GrantedLease {
        file_path: lease.path.as_str().to_owned(),
        expires_at: lease.expires_at.into(),
        fencing_token: lease.fencing,
    };
    AcquireLeaseResponse {
        success: true,
        lease: Some(granted),
        held_by: None,
        held_until: None,
    }
}

/// The answer to `GET /leases/check`.
pub fn lease_state(reply: &LeaseState) -> CheckLeaseResponse {
    let held = match reply {
        LeaseState::Free => None,
        LeaseState::Held(lease) => Some(lease),
    };
    CheckLeaseResponse {
        success: true,
        free: held.is_none(),
        held_by: held.map(|lease| lease.agent.to_string()),
        held_until: held.map(|lease| lease.expires_at.into()),
        file_path: held.map(|lease| lease.path.as_str().to_owned()),
    }
}
