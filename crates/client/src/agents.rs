//! Agents: registering, heartbeats, and what a steward may ask of one.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    AgentPage, AgentQuery, AgentResponse, CommandRequest, CommandResponse, Done, HeartbeatRequest,
    HeartbeatResponse, RegisterRequest, RegisterResponse,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about agents.
#[derive(Debug, Clone, Copy)]
pub struct Agents<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about agents.
    pub fn agents(&self) -> Agents<'_> {
        Agents { client: self }
    }
}

impl Agents<'_> {
    /// REGISTER.
    pub async fn register(self, request: &RegisterRequest) -> Result<RegisterResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["agents", "register"], request)?)
            .await
    }

    /// HEARTBEAT; the answer carries what the hub asks of this agent.
    pub async fn heartbeat(
        self,
        id: &str,
        request: &HeartbeatRequest,
    ) -> Result<HeartbeatResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["agents", id, "heartbeat"], request)?)
            .await
    }

    /// One page of agents.
    pub async fn list(self, query: &AgentQuery) -> Result<AgentPage, Error> {
        self.client
            .transport
            .send(Call::get(&["agents"]).query(query.to_query()))
            .await
    }

    /// One agent with its tasks, leases and commands.
    pub async fn get(self, id: &str) -> Result<AgentResponse, Error> {
        self.client.transport.send(Call::get(&["agents", id])).await
    }

    /// Deregisters: its tasks go back without a retry spent, its leases end.
    pub async fn remove(self, id: &str) -> Result<Done, Error> {
        self.client
            .transport
            .send(Call::delete(&["agents", id]))
            .await
    }

    /// Asks something of an agent; it learns with its next heartbeat.
    pub async fn command(
        self,
        id: &str,
        request: &CommandRequest,
    ) -> Result<CommandResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["agents", id, "commands"], request)?)
            .await
    }
}
