//! Nodes: invited, joined, listed, gone; and what nodes ask of each other to be known.

use std::time::Duration;

use futures_util::future::join_all;
use switchboard_core::node::{Node, NodeInvite};
use switchboard_core::refusal::NotAdmitted;
use switchboard_core::rights::Right;
use switchboard_core::verb::{AdmitNode, AskTicket, InviteNode, LeaveNode};
use switchboard_core::{NodeId, Refusal, Timestamp, limits};
use switchboard_wire::runtime::{
    ExchangeRequest, ExchangeResponse, Invite, InviteNodeRequest, InviteNodeResponse,
    JoinNodeRequest, LeaveNodeResponse, NodeResponse, NodesResponse, Ticket, TicketRequest,
    TicketResponse, from_wire, proof, to_wire,
};
use switchboard_wire::{IsoTime, Malformed, parse};
use tokio::time::timeout;

use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState};
use crate::call::Outcome;
use crate::hub;
use crate::runtime::{self, Joining, Own, encoded, is_cut, node_id};

/// Another node is told that this one leaves it, if it can be within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// What is remembered of an invite under a key: its id, from which the secret follows.
fn id_only(invite: &NodeInvite) -> Vec<u8> {
    invite.id.as_bytes().to_vec()
}

pub async fn invite(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<InviteNodeRequest>(&app, &call).await?;
    let id = app.ids.fresh("inv");
    let verb = InviteNode {
        hash: app.invite(&id).hash(),
        id,
        by: change.caller.name().to_owned(),
        lasts_for: from_wire::invite_for(&request),
    };
    let made = app.hub.call(verb, change.guard()?, id_only).await?;
    let (invite, replayed) = match made {
        Outcome::Fresh(invite, _) => (invite, false),
        Outcome::Replayed(answer) => {
            let hash = app.invite(&String::from_utf8_lossy(&answer)).hash();
            let found = app.hub.read(move |reader| reader.private(hash)).await?;
            let gone = Refusal::from(NotAdmitted::UnknownInvite);
            (found.ok_or(hub::Error::Refused(gone))?, true)
        }
    };
    let own = Own::read(&app.hub).await?;
    let answer = InviteNodeResponse {
        invite_token: app.invite(&invite.id).to_string(),
        invite_id: invite.id,
        expires_at: invite.expires_at.into(),
        node_id: own.gateway.node_id.to_string(),
    };
    let mut reply = Reply::json(201, &answer);
    reply.replayed = replayed;
    Ok(reply)
}

/// Not kept under a key: to follow the same invite again is the same.
pub async fn join(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (_, request) = Change::read::<JoinNodeRequest>(&app, &call).await?;
    let joining = Joining::read(&request)?;
    let certificate = app.certificate.get().copied();
    let node = runtime::join(&app.hub, joining, certificate).await?;
    Ok(Reply::ok(&NodeResponse {
        node: to_wire::node(&node, false),
    }))
}

pub async fn control(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    Ok(Reply::ok(&runtime::control(&app.hub).await?))
}

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let own = Own::read(&app.hub).await?;
    let nodes = app.hub.read(|reader| {
        let each = reader.nodes()?.into_iter();
        let each = each.map(|node| Ok(to_wire::node(&node, is_cut(reader, &node)?)));
        each.collect()
    });
    Ok(Reply::ok(&NodesResponse {
        own: to_wire::own(&own.gateway, own.signer.public_key()),
        nodes: nodes.await?,
    }))
}

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let id = from_wire::node_id("id", &call.id()?)?;
    let node = app.node(&id).await?;
    let missing = Refusal::NodeNotFound { node: id };
    let node = node.ok_or(hub::Error::Refused(missing))?;
    let shown = app.hub.read(move |reader| {
        let is_cut = node.is_joined() && is_cut(reader, &node)?;
        Ok(to_wire::node(&node, is_cut))
    });
    Ok(Reply::ok(&NodeResponse { node: shown.await? }))
}

/// A node leaves by its own ticket; a person sends one away, or takes this one out of all.
pub async fn leave(app: AppState, call: Call) -> Result<Reply, Failure> {
    let caller = call.caller(&app, None).await?;
    let id = from_wire::node_id("id", &call.id()?)?;
    let own = node_id(&app.hub).await?;
    let left = match caller.node() {
        Some(node) if *node == id => vec![app.part(id, node.as_str()).await?],
        Some(_) => return Err(refused(NotAdmitted::Mismatch(id))),
        None => {
            let those = match id == own {
                true => app.hub.read(|reader| reader.nodes()).await?,
                false => Vec::from_iter(app.node(&id).await?),
            };
            if those.is_empty() && id != own {
                let missing = Refusal::NodeNotFound { node: id };
                return Err(hub::Error::Refused(missing).into());
            }
            caller.may(Right::Steer)?;
            let mut left = Vec::new();
            for node in those {
                left.push(app.part(node.node_id, caller.name()).await?);
            }
            join_all(left.iter().map(|node| app.tell(node, &own))).await;
            left
        }
    };
    Ok(Reply::ok(&LeaveNodeResponse {
        left: left.iter().map(|node| to_wire::node(node, false)).collect(),
    }))
}

pub async fn exchange(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.limits.node_auth(call.peer.ip)?;
    let request: ExchangeRequest = parse(&call.body)?;
    let node = from_wire::introduced(&request)?;
    let signed = proof::exchange(&request.invite_token, &request.node_id, &request.nonce);
    if !proof::is_signed(&node.public_key, &signed, &request.node_proof) {
        return Err(refused(NotAdmitted::Unproven(node.node_id)));
    }
    let invite = request.invite_token.parse::<Invite>();
    let invite = invite.map_err(|_| refused(NotAdmitted::UnknownInvite))?;
    let admit = AdmitNode {
        invite: invite.hash(),
        node,
        nonce: request.nonce,
        session: app.ids.fresh("ses"),
    };
    let admitted = app.hub.run(admit).await?;
    let own = Own::read(&app.hub).await?;
    let ticket = Ticket {
        node: admitted.node.node_id,
        session: admitted.session,
        expires_at: admitted.at + limits::NODE_TICKET_FOR,
    };
    let certificate = app.certificate.get();
    Ok(Reply::ok(&ExchangeResponse {
        ticket: app.auth.ticket(&ticket),
        expires_at: ticket.expires_at.into(),
        session_id: ticket.session,
        public_key: own.signer.public_key(),
        node_id: own.gateway.node_id.to_string(),
        epoch: own.gateway.route_epoch,
        endpoint: own.gateway.endpoint,
        certificate: certificate.map(ToString::to_string),
        tier: own.gateway.tier.into(),
        protocol_version: switchboard_core::node::PROTOCOL_VERSION.to_owned(),
    }))
}

pub async fn ticket(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.limits.node_auth(call.peer.ip)?;
    let request: TicketRequest = parse(&call.body)?;
    let id = from_wire::node_id("nodeId", &request.node_id)?;
    from_wire::nonce(&request.nonce)?;
    from_wire::proof(&request.proof)?;
    let own = node_id(&app.hub).await?;
    let known = app.node(&id).await?.filter(Node::is_joined);
    let known = known.ok_or_else(|| refused(NotAdmitted::Mismatch(id.clone())))?;
    let signed = proof::ticket(id.as_str(), own.as_str(), request.at, &request.nonce);
    if !proof::is_signed(&known.public_key, &signed, &request.proof) {
        return Err(refused(NotAdmitted::Unproven(id)));
    }
    let valid_until = app.counts_until(request.at)?;
    let ask = AskTicket {
        node: id.clone(),
        nonce: request.nonce,
        valid_until,
    };
    app.hub.run(ask).await?;
    let ticket = Ticket {
        node: id,
        session: app.ids.fresh("ses"),
        expires_at: app.hub.time() + limits::NODE_TICKET_FOR,
    };
    Ok(Reply::ok(&TicketResponse {
        ticket: app.auth.ticket(&ticket),
        expires_at: ticket.expires_at.into(),
        session_id: ticket.session,
    }))
}

fn refused(why: NotAdmitted) -> Failure {
    hub::Error::Refused(why.into()).into()
}

impl App {
    pub(super) fn invite(&self, id: &str) -> Invite {
        Invite::new(self.auth.invite_secret(id), self.certificate.get().copied())
    }

    async fn node(&self, id: &NodeId) -> Result<Option<Node>, hub::Error> {
        let id = id.clone();
        self.hub.read(move |reader| reader.node(&id)).await
    }

    async fn part(&self, node: NodeId, by: &str) -> Result<Node, hub::Error> {
        let by = by.to_owned();
        let left = self.hub.run(LeaveNode { node, by }).await?;
        self.peers.forget(&left.node_id);
        Ok(left)
    }

    /// Tells a node that this one has left it. One that does not hear finds out when it calls.
    async fn tell(&self, node: &Node, own: &NodeId) {
        let path = format!("/runtime/v1/nodes/{}/leave", encoded(own.as_str()));
        let told = async {
            let peer = runtime::Peer::new(&self.hub, node)?;
            peer.post(&path, &serde_json::json!({})).await
        };
        let id = &node.node_id;
        match timeout(TOLD_WITHIN, told).await {
            Ok(Ok(_)) => {}
            Ok(Err(why)) => {
                tracing::info!(node.id = %id, "node {id} was not told that this one left it: {why}");
            }
            Err(_) => {
                tracing::info!(node.id = %id, "node {id} was not told in time that this one left it");
            }
        }
    }

    /// For how long, by the ledger's clock, a signature of this instant could come again.
    fn counts_until(&self, at: IsoTime) -> Result<Timestamp, Failure> {
        let most = i64::try_from(limits::NODE_CLOCKS_DIFFER_MAX.as_millis()).unwrap_or(i64::MAX);
        let wall = self.hub.wall();
        if at.0.abs_diff(wall.0) > most.unsigned_abs() {
            let message = format!(
                "is more than two hours from this node's time {}; set the clock",
                IsoTime::from(wall)
            );
            return Err(Malformed::field("at", message).into());
        }
        // The ledger's clock may go faster than the wall's meanwhile.
        let left = at.0.saturating_add(most) - wall.0;
        let kept = left.saturating_add(left / limits::CLOCK_SLEW);
        Ok(Timestamp(self.hub.time().0.saturating_add(kept)))
    }
}
