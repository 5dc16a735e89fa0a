//! Incidents.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    IncidentPage, IncidentQuery, IncidentResponse, ResolveIncidentRequest,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about incidents.
#[derive(Debug, Clone, Copy)]
pub struct Incidents<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about incidents.
    pub fn incidents(&self) -> Incidents<'_> {
        Incidents { client: self }
    }
}

impl Incidents<'_> {
    /// One page of them.
    pub async fn list(self, query: &IncidentQuery) -> Result<IncidentPage, Error> {
        let call = Call::get(&["incidents"]).query(query.to_query());
        self.client.transport.send(call).await
    }

    /// Somebody has looked after it.
    pub async fn resolve(
        self,
        id: &str,
        request: &ResolveIncidentRequest,
    ) -> Result<IncidentResponse, Error> {
        let call = Call::post(&["incidents", id, "resolve"], request)?;
        self.client.transport.send(call).await
    }
}
