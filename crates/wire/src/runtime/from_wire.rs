//! What a node says of itself, checked.

use std::time::Duration;

use switchboard_core::node::{Left, Node, Tier};
use switchboard_core::{CorrId, EventId, NodeId, Timestamp, limits};

use super::{ExchangeRequest, InviteNodeRequest, NodeHealth, NodeRecord};
use crate::jetpack::from_wire::check;
use crate::signature::from_hex;
use crate::{Fingerprint, Malformed};

/// Longest nonce that a node may choose.
const NONCE_BYTES_MAX: usize = limits::ID_BYTES_MAX;

pub fn node_id(field: &str, text: &str) -> Result<NodeId, Malformed> {
    check::id(field, text).map(NodeId::from)
}

/// How long an invite is asked to last; the rules say how long it may.
pub fn invite_for(request: &InviteNodeRequest) -> Duration {
    request
        .ttl_seconds
        .map_or(limits::NODE_INVITE_FOR_MAX, |seconds| {
            Duration::from_secs(seconds.into())
        })
}

/// Visible characters, without the one that stands between what is signed.
pub fn nonce(text: &str) -> Result<(), Malformed> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'|';
    if (1..=NONCE_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(());
    }
    let message = format!("must be 1 to {NONCE_BYTES_MAX} visible ASCII characters without '|'");
    Err(Malformed::field("nonce", message))
}

pub fn context_id(field: &str, text: &str) -> Result<CorrId, Malformed> {
    check::id(field, text).map(CorrId::from)
}

pub fn event_id(field: &str, text: &str) -> Result<EventId, Malformed> {
    check::id(field, text).map(EventId::from)
}

/// How long a token for one context lasts.
pub fn context_for(seconds: Option<u32>) -> Result<Duration, Malformed> {
    let (least, most) = (limits::CONTEXT_FOR_MIN, limits::CONTEXT_FOR_MAX);
    let span = seconds.map_or(most, |seconds| Duration::from_secs(seconds.into()));
    if (least..=most).contains(&span) {
        return Ok(span);
    }
    let message = format!("must be {} to {}", least.as_secs(), most.as_secs());
    Err(Malformed::field("ttlSeconds", message))
}

/// An address without a path: `https://host:port`. It is kept without a slash at its end.
pub fn endpoint(field: &str, text: &str) -> Result<String, Malformed> {
    let given = text.strip_suffix('/').unwrap_or(text);
    let host = given
        .strip_prefix("https://")
        .or_else(|| given.strip_prefix("http://"));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".:[]_-".contains(&byte);
    let is_one = host.is_some_and(|host| host.starts_with(|c| c != ':') && host.bytes().all(fits));
    if is_one && text.len() <= limits::NAME_BYTES_MAX {
        return Ok(given.to_owned());
    }
    Err(Malformed::field(
        field,
        "must be an address without a path, such as https://hub.example:7373",
    ))
}

/// The node that introduces itself; whether it has the key is for the proof to show.
pub fn introduced(request: &ExchangeRequest) -> Result<Node, Malformed> {
    digits("publicKey", &request.public_key, 32)?;
    digits("nodeProof", &request.node_proof, 64)?;
    nonce(&request.nonce)?;
    check::text("inviteToken", &request.invite_token, limits::NAME_BYTES_MAX)?;
    check::text(
        "protocolVersion",
        &request.protocol_version,
        limits::ID_BYTES_MAX,
    )?;
    let at = request.endpoint.as_deref();
    let pin = request.certificate.as_deref();
    Ok(Node {
        node_id: node_id("nodeId", &request.node_id)?,
        public_key: request.public_key.to_ascii_lowercase(),
        endpoint: at.map(|at| endpoint("endpoint", at)).transpose()?,
        certificate: pin.map(certificate).transpose()?,
        tier: request.tier.map_or(Tier::Edge, Into::into),
        protocol_version: request.protocol_version.clone(),
        joined_at: Timestamp::ZERO,
        invited_by: None,
        vouched_by: None,
        rev: 0,
        left: None,
    })
}

/// A node as another one vouches for it. One that is offline in a record has left.
pub fn member(record: &NodeRecord) -> Result<Node, Malformed> {
    let place = |wrong: Malformed| Malformed {
        field: wrong.field.map(|field| format!("payload.record.{field}")),
        ..wrong
    };
    digits("publicKey", &record.public_key, 32).map_err(place)?;
    let version = &record.protocol_version;
    check::text("protocolVersion", version, limits::ID_BYTES_MAX).map_err(place)?;
    let at = record.endpoint.as_deref();
    let pin = record.certificate.as_deref();
    let by = record.vouched_by.as_deref();
    let has_left = match record.status {
        NodeHealth::Online | NodeHealth::Degraded => None,
        NodeHealth::Offline => Some(Left {
            by: String::new(),
            at: Timestamp::ZERO,
        }),
    };
    Ok(Node {
        node_id: node_id("nodeId", &record.node_id).map_err(place)?,
        public_key: record.public_key.to_ascii_lowercase(),
        endpoint: at
            .map(|at| endpoint("endpoint", at))
            .transpose()
            .map_err(place)?,
        certificate: pin.map(certificate).transpose().map_err(place)?,
        tier: record.tier.into(),
        protocol_version: version.clone(),
        joined_at: Timestamp::ZERO,
        invited_by: None,
        vouched_by: by
            .map(|id| node_id("vouchedBy", id))
            .transpose()
            .map_err(place)?,
        rev: 0,
        left: has_left,
    })
}

pub fn proof(text: &str) -> Result<(), Malformed> {
    digits("proof", text, 64)
}

fn certificate(text: &str) -> Result<String, Malformed> {
    let read: Result<Fingerprint, _> = text.parse();
    let wrong = |_| Malformed::field("certificate", "must be sha256: and 64 hexadecimal digits");
    read.map(|pin| pin.to_string()).map_err(wrong)
}

fn digits(field: &str, text: &str, bytes: usize) -> Result<(), Malformed> {
    if from_hex(text).is_some_and(|read| read.len() == bytes) {
        return Ok(());
    }
    let message = format!("must be {} hexadecimal digits", 2 * bytes);
    Err(Malformed::field(field, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ExchangeRequest {
        ExchangeRequest {
            invite_token: "sbi_".to_owned(),
            node_id: "node-1".to_owned(),
            node_proof: "0a".repeat(64),
            nonce: "n".to_owned(),
            public_key: "0A".repeat(32),
            protocol_version: "1.0".to_owned(),
            endpoint: None,
            certificate: None,
            tier: None,
        }
    }

    #[test]
    fn what_is_wrong_with_an_introduction_is_told_by_name() {
        let read = introduced(&request()).unwrap();
        assert_eq!(read.public_key, "0a".repeat(32));
        type Edit = fn(&mut ExchangeRequest);
        let cases: &[(Edit, &str)] = &[
            (|it| it.node_id = String::new(), "nodeId"),
            (|it| it.node_id = "a b".to_owned(), "nodeId"),
            (|it| it.node_id = "n".repeat(129), "nodeId"),
            (|it| it.node_proof = "0a".repeat(63), "nodeProof"),
            (|it| it.public_key = "0g".repeat(32), "publicKey"),
            (|it| it.nonce = String::new(), "nonce"),
            (|it| it.nonce = "a|b".to_owned(), "nonce"),
            (|it| it.nonce = "n".repeat(129), "nonce"),
            (|it| it.invite_token = "i".repeat(257), "inviteToken"),
            (
                |it| it.protocol_version = "1".repeat(129),
                "protocolVersion",
            ),
            (|it| it.endpoint = Some("hub".to_owned()), "endpoint"),
            (
                |it| it.certificate = Some("sha1:00".to_owned()),
                "certificate",
            ),
        ];
        for (edit, field) in cases {
            let mut request = request();
            edit(&mut request);
            let told = introduced(&request).unwrap_err();
            assert_eq!(told.field.as_deref(), Some(*field));
        }
    }

    #[test]
    fn an_endpoint_is_an_address_alone() {
        for fine in [
            "http://127.0.0.1:7373",
            "https://hub.example",
            "https://[::1]:7/",
        ] {
            let kept = endpoint("endpoint", fine).unwrap();
            assert_eq!(kept, fine.trim_end_matches('/'));
        }
        for odd in [
            "",
            "hub.example",
            "ftp://x",
            "https://",
            "https://x/y",
            "https://x?y",
            "https://a@x",
            "http://:80",
            &format!("https://{}", "x".repeat(300)),
        ] {
            assert!(endpoint("endpoint", odd).is_err(), "{odd}");
        }
    }
}
