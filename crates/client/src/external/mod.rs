//! External agents, as a person looks after them, and the audit.

mod agent;

use switchboard_wire::Query as _;
use switchboard_wire::runtime::{
    AuditQuery, AuditResponse, InviteAgentRequest, InviteAgentResponse, RevokeSessionsRequest,
    RevokeSessionsResponse, SessionQuery, SessionsResponse,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

pub use agent::ExternalAgent;
pub(crate) use agent::{bare, introduction, proof, shown};

/// Calls about external agents.
#[derive(Debug, Clone, Copy)]
pub struct External<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about external agents.
    pub fn external(&self) -> External<'_> {
        External { client: self }
    }
}

impl External<'_> {
    /// Invites an agent; the invite is in this answer only.
    pub async fn invite(self, request: &InviteAgentRequest) -> Result<InviteAgentResponse, Error> {
        let call = Call::post(&["ansible", "agent", "invites"], request)?.bare();
        self.client.transport.send(call).await
    }

    /// Sessions, newest first.
    pub async fn sessions(self, query: &SessionQuery) -> Result<SessionsResponse, Error> {
        let call = Call::get(&["ansible", "agent", "sessions"]);
        let call = call.query(query.to_query()).bare();
        self.client.transport.send(call).await
    }

    /// Ends a session, or all of an agent.
    pub async fn revoke(
        self,
        request: &RevokeSessionsRequest,
    ) -> Result<RevokeSessionsResponse, Error> {
        let call = Call::post(&["ansible", "agent", "revoke"], request)?.bare();
        self.client.transport.send(call).await
    }

    /// Who did what from outside, and what was refused, oldest first.
    pub async fn audit(self, query: &AuditQuery) -> Result<AuditResponse, Error> {
        let call = Call::get(&["runtime", "v1", "audit"]);
        let call = call.query(query.to_query()).bare();
        self.client.transport.send(call).await
    }
}
