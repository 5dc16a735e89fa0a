//! Following an invitation: the exchange with the node that gave it, and what is kept of that node.

use aws_lc_rs::digest;
use switchboard_core::node::{Node, PROTOCOL_VERSION};
use switchboard_core::verb::KeepNode;
use switchboard_core::{Timestamp, limits};
use switchboard_wire::runtime::{
    ExchangeRequest, ExchangeResponse, Invite, JoinNodeRequest, from_wire, proof,
};
use switchboard_wire::signature::{from_hex, to_hex};
use switchboard_wire::{Fingerprint, Malformed};

use super::gateway::Own;
use super::peer::{Trouble, post};
use super::pin;
use crate::call::Failure;
use crate::hub::Hub;

/// What a person asks for, checked.
pub struct Joining {
    url: String,
    invite: Invite,
    endpoint: Option<String>,
}

impl Joining {
    pub fn read(request: &JoinNodeRequest) -> Result<Joining, Malformed> {
        let invite = request.invite_token.parse::<Invite>();
        let invite = invite.map_err(|why| Malformed::field("inviteToken", why))?;
        let url = from_wire::endpoint("url", &request.url)?;
        if invite.certificate.is_some() && !url.starts_with("https:") {
            let why = "must begin with https://: the invite is from a node with TLS";
            return Err(Malformed::field("url", why));
        }
        let at = request.endpoint.as_deref();
        Ok(Joining {
            url,
            invite,
            endpoint: at
                .map(|at| from_wire::endpoint("endpoint", at))
                .transpose()?,
        })
    }
}

/// Joins, and keeps whom it joined. Following the same invitation again is the same.
pub async fn join(
    hub: &Hub,
    joining: Joining,
    certificate: Option<Fingerprint>,
) -> Result<Node, Failure> {
    let own = Own::read(hub).await?;
    let failed = |trouble: Trouble| failed(&joining.url, trouble);
    let http = pin::client(&joining.url, joining.invite.certificate)
        .map_err(|why| failed(Trouble::Unreachable(why)))?;
    let request = introduction(&own, &joining, certificate);
    let answer: ExchangeResponse = post(&http, &joining.url, "/ansible/auth/exchange", &request)
        .await
        .map_err(failed)?;
    let node = inviter(&answer, &joining).map_err(|why| failed(Trouble::Unreadable(why)))?;
    Ok(hub.run(KeepNode { node }).await?)
}

fn introduction(own: &Own, joining: &Joining, certificate: Option<Fingerprint>) -> ExchangeRequest {
    let (invite, node) = (joining.invite.to_string(), own.gateway.node_id.to_string());
    // The same for the same invitation: an answer that was lost can be asked for again.
    let nonce = digest::digest(&digest::SHA256, format!("{invite}|{node}").as_bytes());
    let nonce = to_hex(&nonce.as_ref()[..16]);
    let endpoint = joining.endpoint.clone().or(own.gateway.endpoint.clone());
    let is_tls = endpoint
        .as_deref()
        .is_some_and(|at| at.starts_with("https:"));
    ExchangeRequest {
        node_proof: own.signer.sign(&proof::exchange(&invite, &node, &nonce)),
        invite_token: invite,
        node_id: node,
        nonce,
        public_key: own.signer.public_key(),
        protocol_version: PROTOCOL_VERSION.to_owned(),
        endpoint,
        certificate: certificate.filter(|_| is_tls).map(|pin| pin.to_string()),
        tier: Some(own.gateway.tier.into()),
    }
}

/// The node that answered. It is reached where it was found, and by the certificate that the invitation names.
fn inviter(answer: &ExchangeResponse, joining: &Joining) -> Result<Node, String> {
    let node_id = from_wire::node_id("nodeId", &answer.node_id).map_err(|why| why.to_string())?;
    if from_hex(&answer.public_key).is_none_or(|key| key.len() != 32) {
        return Err("publicKey must be 64 hexadecimal digits".to_owned());
    }
    Ok(Node {
        node_id,
        public_key: answer.public_key.to_ascii_lowercase(),
        endpoint: Some(joining.url.clone()),
        certificate: joining.invite.certificate.map(|pin| pin.to_string()),
        tier: answer.tier.into(),
        protocol_version: limits::cut(&answer.protocol_version, limits::ID_BYTES_MAX).to_owned(),
        joined_at: Timestamp::ZERO,
        invited_by: None,
        vouched_by: None,
        rev: 0,
        left: None,
    })
}

fn failed(url: &str, trouble: Trouble) -> Failure {
    let reason = match &trouble {
        Trouble::Refused { code, .. } => code.clone(),
        Trouble::Unreachable(_) => "unreachable".to_owned(),
        Trouble::Unreadable(_) => "unreadable".to_owned(),
        Trouble::Hub(error) => return error.clone().into(),
    };
    let message = format!("the node at {url} was not joined: {trouble}");
    Failure::JoinFailed { reason, message }
}
