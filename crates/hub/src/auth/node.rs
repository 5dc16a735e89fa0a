//! Nodes: known by tickets that any coordinator of this ledger gave, for as long as they are joined.

use switchboard_core::NodeId;
use switchboard_core::node::Node;
use switchboard_core::refusal::NotAdmitted;
use switchboard_wire::runtime::Ticket;

use super::{Auth, Caller};
use crate::call::Failure;
use crate::hub::{self, Hub};

/// Whether a header shows a ticket, good or not.
pub fn is_ticket(given: &[u8]) -> bool {
    let shown = given.strip_prefix(b"Bearer ").map(<[u8]>::trim_ascii);
    shown.is_some_and(|shown| shown.starts_with(Ticket::PREFIX.as_bytes()))
}

impl Auth {
    /// What a node shows from now on.
    pub fn ticket(&self, ticket: &Ticket) -> String {
        ticket.seal(&self.master.read().ticket_key())
    }

    /// The secret of an invite; it follows from the master key, so that only its hash need be kept.
    pub fn invite_secret(&self, id: &str) -> String {
        self.master.read().invite_secret(id)
    }

    pub(super) async fn by_ticket(&self, hub: &Hub, shown: &[u8]) -> Result<Caller, Failure> {
        let key = self.master.read().ticket_key();
        let text = str::from_utf8(shown).ok();
        let ticket = text.and_then(|text| Ticket::open(&key, text));
        let ticket = ticket.filter(|ticket| hub.time() < ticket.expires_at);
        let ticket = ticket.ok_or_else(|| {
            Failure::Unauthenticated(
                "the ticket has expired, or is not of this hub; ask for another with POST /ansible/auth/ticket".to_owned(),
            )
        })?;
        match joined(hub, &ticket.node).await? {
            true => Ok(Caller::joined(ticket.node)),
            false => Err(hub::Error::Refused(NotAdmitted::Mismatch(ticket.node).into()).into()),
        }
    }

    /// Whether the node that calls is joined still. A stream goes on when its ticket ends.
    pub(super) async fn is_joined(&self, hub: &Hub, caller: &Caller) -> Result<bool, hub::Error> {
        match caller.node() {
            Some(node) => joined(hub, node).await,
            None => Ok(false),
        }
    }
}

async fn joined(hub: &Hub, node: &NodeId) -> Result<bool, hub::Error> {
    let node = node.clone();
    let known = hub.read(move |reader| reader.node(&node)).await?;
    Ok(known.as_ref().is_some_and(Node::is_joined))
}
