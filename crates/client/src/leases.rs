//! File leases.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    AcquireLeaseRequest, AcquireLeaseResponse, CheckLeaseQuery, CheckLeaseResponse,
    ExtendLeaseRequest, LeasePage, LeaseQuery, ReleaseLeaseRequest, ReleaseLeaseResponse,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about leases.
#[derive(Debug, Clone, Copy)]
pub struct Leases<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about leases.
    pub fn leases(&self) -> Leases<'_> {
        Leases { client: self }
    }
}

impl Leases<'_> {
    /// ACQUIRE_LEASE; held by another is an answer and not an error.
    pub async fn acquire(
        self,
        request: &AcquireLeaseRequest,
    ) -> Result<AcquireLeaseResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["leases", "acquire"], request)?)
            .await
    }

    /// RELEASE_LEASE.
    pub async fn release(
        self,
        request: &ReleaseLeaseRequest,
    ) -> Result<ReleaseLeaseResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["leases", "release"], request)?)
            .await
    }

    /// Extends a lease that is held.
    pub async fn extend(self, request: &ExtendLeaseRequest) -> Result<AcquireLeaseResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["leases", "extend"], request)?)
            .await
    }

    /// One page of live leases.
    pub async fn list(self, query: &LeaseQuery) -> Result<LeasePage, Error> {
        self.client
            .transport
            .send(Call::get(&["leases"]).query(query.to_query()))
            .await
    }

    /// Whether a path is free for an agent.
    pub async fn check(self, query: &CheckLeaseQuery) -> Result<CheckLeaseResponse, Error> {
        self.client
            .transport
            .send(Call::get(&["leases", "check"]).query(query.to_query()))
            .await
    }
}
