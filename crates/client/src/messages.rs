//! Messages between agents.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    AckRequest, AckResponse, MessagePage, MessageQuery, MessageResponse, ReceiveMessagesRequest,
    ReceiveMessagesResponse, SendMessageRequest, SendMessageResponse,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about messages.
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about messages.
    pub fn messages(&self) -> Messages<'_> {
        Messages { client: self }
    }
}

impl Messages<'_> {
    /// SEND_MESSAGE.
    pub async fn send(self, request: &SendMessageRequest) -> Result<SendMessageResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["messages"], request)?)
            .await
    }

    /// RECEIVE_MESSAGES. Without `since` each message comes once; a lost answer is repeated by the same key.
    pub async fn receive(
        self,
        request: &ReceiveMessagesRequest,
    ) -> Result<ReceiveMessagesResponse, Error> {
        let query = MessageQuery {
            agent_id: Some(request.agent_id.clone()),
            since: request.since.clone(),
            types: request.types.clone(),
            limit: request.limit,
            wait: request.wait,
            ..MessageQuery::default()
        };
        let call = Call::get(&["messages"])
            .query(query.to_query())
            .wait(request.wait)
            .mutating();
        self.client.transport.send(call).await
    }

    /// One page of every message, newest first.
    pub async fn list(self, query: &MessageQuery) -> Result<MessagePage, Error> {
        let query = MessageQuery {
            all: Some(true),
            wait: None,
            ..query.clone()
        };
        self.client
            .transport
            .send(Call::get(&["messages"]).query(query.to_query()))
            .await
    }

    /// One message and how far it got with each recipient.
    pub async fn get(self, id: &str) -> Result<MessageResponse, Error> {
        self.client
            .transport
            .send(Call::get(&["messages", id]))
            .await
    }

    /// Acknowledges; a handoff is accepted by it.
    pub async fn ack(self, id: &str, request: &AckRequest) -> Result<AckResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["messages", id, "ack"], request)?)
            .await
    }
}
