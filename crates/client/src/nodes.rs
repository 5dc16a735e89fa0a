//! Nodes: other hubs of the same swarm.

use futures_util::Stream;
use serde_json::json;
use switchboard_wire::Query as _;
use switchboard_wire::jetpack::EventPlace;
use switchboard_wire::runtime::{
    ControlResponse, CursorRecord, CursorsResponse, DeadLetterQuery, DeadLettersResponse, Event,
    InviteNodeRequest, InviteNodeResponse, JoinNodeRequest, LeaveNodeResponse, NodeResponse,
    NodesResponse, OrderQuery, OrderRecord, OrdersResponse, OutboxPage, OutboxQuery,
    PublishRequest, PublishResponse, ResetCursorRequest,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::events::{Numbered, follow};

/// Calls about nodes.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about nodes.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes { client: self }
    }
}

impl Numbered for Event {
    const FROM_NOW: bool = false;

    fn number(&self) -> u64 {
        self.seq
    }
}

const NODES: [&str; 3] = ["runtime", "v1", "nodes"];

impl Nodes<'_> {
    /// Invites a node; the invite is in this answer only.
    pub async fn invite(self, request: &InviteNodeRequest) -> Result<InviteNodeResponse, Error> {
        let call = Call::post(&["runtime", "v1", "invites"], request)?.bare();
        self.client.transport.send(call).await
    }

    /// The hub joins the node that gave an invite.
    pub async fn join(self, request: &JoinNodeRequest) -> Result<NodeResponse, Error> {
        let call = Call::post(&[&NODES[..], &["join"]].concat(), request)?.bare();
        self.client.transport.send(call).await
    }

    /// The hub's own node, and those that are joined.
    pub async fn list(self) -> Result<NodesResponse, Error> {
        self.client.transport.send(Call::get(&NODES).bare()).await
    }

    /// One node, also if it has left.
    pub async fn show(self, id: &str) -> Result<NodeResponse, Error> {
        let call = Call::get(&[&NODES[..], &[id]].concat()).bare();
        self.client.transport.send(call).await
    }

    /// Removes a node; with the hub's own id, leaves all.
    pub async fn leave(self, id: &str) -> Result<LeaveNodeResponse, Error> {
        let call = Call::post(&[&NODES[..], &[id, "leave"]].concat(), &json!({}))?.bare();
        self.client.transport.send(call).await
    }

    /// Publishes an event to agents of any node; under its own id it can be repeated.
    pub async fn publish(self, request: &PublishRequest) -> Result<PublishResponse, Error> {
        let call = Call::post(&["runtime", "v1", "events"], request)?.bare();
        self.client.transport.send(call).await
    }

    /// Events of the hub's own node, in order.
    pub async fn outbox(self, query: &OutboxQuery) -> Result<OutboxPage, Error> {
        let call = Call::get(&["runtime", "v1", "outbox"])
            .query(query.to_query())
            .bare();
        self.client.transport.send(call).await
    }

    /// Every event of the hub's own node after `after` (`None`: from the oldest on), in order, without end.
    ///
    /// A cut stream is taken up again where it broke off. It ends with an error when the hub refuses: it has another
    /// outbox now, or no longer what comes next.
    pub fn follow_outbox(
        self,
        after: Option<u64>,
    ) -> impl Stream<Item = Result<Event, Error>> + Send + use<> {
        let call = Call::get(&["runtime", "v1", "outbox"]).bare();
        follow(self.client.clone(), call, after.map(EventPlace::from))
    }

    /// What all nodes are to know, as the hub has it.
    pub async fn control(self) -> Result<ControlResponse, Error> {
        let call = Call::get(&["runtime", "v1", "control"]).bare();
        self.client.transport.send(call).await
    }

    /// How far nodes are in each other's outboxes.
    pub async fn cursors(self) -> Result<CursorsResponse, Error> {
        let call = Call::get(&["runtime", "v1", "cursors"]).bare();
        self.client.transport.send(call).await
    }

    /// Goes on in a node's outbox after a number.
    pub async fn reset(
        self,
        id: &str,
        request: &ResetCursorRequest,
    ) -> Result<CursorRecord, Error> {
        let call = Call::post(&["runtime", "v1", "cursors", id, "reset"], request)?.bare();
        self.client.transport.send(call).await
    }

    /// What was given up, newest first.
    pub async fn dead_letters(self, query: &DeadLetterQuery) -> Result<DeadLettersResponse, Error> {
        let call = Call::get(&["runtime", "v1", "dead-letters"])
            .query(query.to_query())
            .bare();
        self.client.transport.send(call).await
    }

    /// Sends once more what was given up.
    pub async fn resend(self, event: &str) -> Result<OrderRecord, Error> {
        let path = ["runtime", "v1", "dead-letters", event, "resend"];
        let call = Call::post(&path, &json!({}))?.bare();
        self.client.transport.send(call).await
    }

    /// What other nodes were sent, and what they answered.
    pub async fn orders(self, query: &OrderQuery) -> Result<OrdersResponse, Error> {
        let call = Call::get(&["runtime", "v1", "orders"])
            .query(query.to_query())
            .bare();
        self.client.transport.send(call).await
    }
}
