//! Signatures: what is signed, with which key, and the one comparison that takes the same time for any input.
//!
//! Clocks and replays are the hub's concern. Keys are derived from a master key, so nothing per secret is stored.

use std::fmt;
use std::net::SocketAddr;

use aws_lc_rs::{constant_time, digest, hkdf, hmac};
use serde_json::Value;

use crate::canonical::canonical;
use crate::exact::Exact;
use crate::{Malformed, parse};

/// Length of master keys and agent keys, in bytes.
pub const KEY_LEN: usize = 32;
/// What stands before a key that is shown, so that it is known for one; no part of the key.
const KEY_PREFIX: &str = "sbk_";
/// What stands before the digits of a token.
const TOKEN_PREFIX: &str = "sbt_";
/// What a key is for; keys for different purposes have nothing to do with each other.
const AGENT_PURPOSE: &[u8] = b"switchboard agent signing key v1";
const STEWARD_PURPOSE: &[u8] = b"switchboard local steward token v1";
const PROOF_PURPOSE: &[u8] = b"switchboard hub proof v1";
const TICKET_PURPOSE: &[u8] = b"switchboard node ticket v1";
const INVITE_PURPOSE: &[u8] = b"switchboard node invite v1";
const ACCESS_PURPOSE: &[u8] = b"switchboard agent access token v1";
const REFRESH_PURPOSE: &[u8] = b"switchboard agent refresh token v1";

/// The secret from which all agent keys follow.
#[derive(Clone)]
pub struct MasterKey([u8; KEY_LEN]);

/// The secret that one agent signs with.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentKey([u8; KEY_LEN]);

impl MasterKey {
    pub fn new(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// Reads the hexadecimal form of the file it is kept in.
    pub fn from_hex(text: &str) -> Option<Self> {
        Some(Self(from_hex(text.trim())?.try_into().ok()?))
    }

    /// HKDF-SHA256 over the generation and the agent's id.
    pub fn agent_key(&self, agent_id: &str, generation: u64) -> AgentKey {
        let generation = generation.to_be_bytes();
        let info = [generation.as_slice(), agent_id.as_bytes()];
        AgentKey(self.derive(AGENT_PURPOSE, &info))
    }

    /// The token of whoever can read this key: `sbt_` and 64 hexadecimal digits.
    ///
    /// Reading the key is as good as being the steward, so nothing more is asked of such a person.
    pub fn steward_token(&self) -> String {
        AgentKey(self.derive(STEWARD_PURPOSE, &[])).as_token()
    }

    /// What only who has this key can say to a nonce, at the address that was called.
    ///
    /// The address is part of it, so that nobody can have the words said elsewhere and pass them on.
    pub fn proof(&self, nonce: &str, called: SocketAddr) -> String {
        self.proof_key().sign(&proof_text(nonce, called))
    }

    /// Whether these are the words.
    pub fn is_proof(&self, nonce: &str, called: SocketAddr, words: &str) -> bool {
        self.proof_key().verify(&proof_text(nonce, called), words)
    }

    fn proof_key(&self) -> AgentKey {
        AgentKey(self.derive(PROOF_PURPOSE, &[]))
    }

    /// What seals the tickets of nodes.
    pub fn ticket_key(&self) -> AgentKey {
        AgentKey(self.derive(TICKET_PURPOSE, &[]))
    }

    /// The secret of an invite, in hexadecimal; nothing but its id is needed to make it again.
    pub fn invite_secret(&self, id: &str) -> String {
        to_hex(&self.derive(INVITE_PURPOSE, &[id.as_bytes()]))
    }

    /// What signs the access tokens of a period.
    pub fn access_seed(&self, period: i64) -> [u8; KEY_LEN] {
        self.derive(ACCESS_PURPOSE, &[&period.to_be_bytes()])
    }

    /// The secret of one refresh token of a session, in hexadecimal.
    pub fn refresh_secret(&self, session: &str, turn: u32) -> String {
        let info = [&turn.to_be_bytes()[..], session.as_bytes()];
        to_hex(&self.derive(REFRESH_PURPOSE, &info))
    }

    fn derive(&self, purpose: &[u8], info: &[&[u8]]) -> [u8; KEY_LEN] {
        let mut key = [0; KEY_LEN];
        hkdf::Salt::new(hkdf::HKDF_SHA256, purpose)
            .extract(&self.0)
            .expand(info, hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(&mut key))
            .expect("one block of output is always available");
        key
    }
}

fn proof_text(nonce: &str, called: SocketAddr) -> String {
    format!("{nonce}\n{}\n{}", called.ip().to_canonical(), called.port())
}

impl AgentKey {
    /// Reads what was shown once: `sbk_` and 64 hexadecimal digits, or, of older keys, the digits alone.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::from_digits(text.strip_prefix(KEY_PREFIX).unwrap_or(text))
    }

    /// To be shown once.
    pub fn to_text(&self) -> String {
        format!("{KEY_PREFIX}{}", to_hex(&self.0))
    }

    /// The key that a token's secret spells.
    pub fn of_token(secret: &str) -> Option<Self> {
        Self::from_digits(secret.trim().strip_prefix(TOKEN_PREFIX)?)
    }

    /// The secret of the token that has this key: `sbt_` and 64 hexadecimal digits.
    pub fn as_token(&self) -> String {
        format!("{TOKEN_PREFIX}{}", to_hex(&self.0))
    }

    fn from_digits(digits: &str) -> Option<Self> {
        Some(Self(from_hex(digits)?.try_into().ok()?))
    }

    /// HMAC-SHA256 in lower-case hexadecimal.
    pub fn sign(&self, text: &str) -> String {
        to_hex(self.tag(text).as_ref())
    }

    /// Whether this key made that signature.
    pub fn verify(&self, text: &str, signature: &str) -> bool {
        from_hex(signature).is_some_and(|given| same(&given, self.tag(text).as_ref()))
    }

    fn tag(&self, text: &str) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), text.as_bytes())
    }
}

/// Compares secrets; the only place that does. Takes the same time wherever they differ.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// What a signed body signs: itself without `signature`, in canonical form. What two readers may read differently is
/// refused.
pub fn body_to_sign(body: &[u8]) -> Result<String, Malformed> {
    let Exact(mut value) = parse(body)?;
    Ok(value_to_sign(&mut value))
}

/// The same for a body that is still a value; takes a signature out of it.
pub fn value_to_sign(body: &mut Value) -> String {
    if let Value::Object(members) = body {
        members.remove("signature");
    }
    canonical(body)
}

/// What the headers sign.
pub struct SignedRequest<'a> {
    pub method: &'a str,
    /// As sent: `/api/v1/messages?agentId=a1`.
    pub path_and_query: &'a str,
    pub timestamp: &'a str,
    pub nonce: Option<&'a str>,
    pub body: &'a [u8],
}

impl SignedRequest<'_> {
    /// `METHOD\npath?query\ntimestamp\nnonce\nsha256(body)`; an absent nonce is an empty line.
    pub fn to_sign(&self) -> String {
        let body = digest::digest(&digest::SHA256, self.body);
        [
            self.method,
            self.path_and_query,
            self.timestamp,
            self.nonce.unwrap_or_default(),
            &to_hex(body.as_ref()),
        ]
        .join("\n")
    }
}

/// Lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

/// Reads hexadecimal of either case.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?))
        .collect()
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master() -> MasterKey {
        MasterKey::new([7; KEY_LEN])
    }

    #[test]
    fn a_signature_of_the_body_survives_another_order_of_members_and_no_change_of_value() {
        let key = master().agent_key("a1", 1);
        let body = br#"{"operation":"CLAIM","agentId":"a1","timestamp":"2026-01-19T10:00:00.000Z","wait":1.0}"#;
        let signature = key.sign(&body_to_sign(body).unwrap());
        let sent = format!(
            r#"{{ "wait": 1, "signature": "{signature}", "timestamp": "2026-01-19T10:00:00.000Z", "agentId": "a1", "operation": "CLAIM" }}"#
        );
        assert!(key.verify(&body_to_sign(sent.as_bytes()).unwrap(), &signature));
        let other = sent.replace("CLAIM", "FAIL");
        assert!(!key.verify(&body_to_sign(other.as_bytes()).unwrap(), &signature));
    }

    #[test]
    fn the_header_form_signs_every_part() {
        let base = || SignedRequest {
            method: "POST",
            path_and_query: "/api/v1/messages?x=1",
            timestamp: "2026-01-19T10:00:00.000Z",
            nonce: Some("n1"),
            body: b"{}",
        };
        assert_eq!(
            base().to_sign(),
            "POST\n/api/v1/messages?x=1\n2026-01-19T10:00:00.000Z\nn1\n\
             44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        let key = master().agent_key("a1", 1);
        let signature = key.sign(&base().to_sign());
        let changed = [
            SignedRequest {
                method: "PUT",
                ..base()
            },
            SignedRequest {
                path_and_query: "/api/v1/messages",
                ..base()
            },
            SignedRequest {
                timestamp: "2026-01-19T10:00:00.001Z",
                ..base()
            },
            SignedRequest {
                nonce: None,
                ..base()
            },
            SignedRequest {
                body: b"{ }",
                ..base()
            },
        ];
        assert!(key.verify(&base().to_sign(), &signature));
        assert!(key.verify(&base().to_sign(), &signature.to_uppercase()));
        for request in changed {
            assert!(!key.verify(&request.to_sign(), &signature));
        }
    }

    #[test]
    fn keys_differ_by_agent_generation_and_master() {
        let key = master().agent_key("a1", 1);
        assert_eq!(key, master().agent_key("a1", 1));
        assert_ne!(key, master().agent_key("a2", 1));
        assert_ne!(key, master().agent_key("a1", 2));
        assert_ne!(key, MasterKey::new([8; KEY_LEN]).agent_key("a1", 1));
        let shown = key.to_text();
        assert_eq!(shown.len(), 4 + 2 * KEY_LEN);
        assert_eq!(AgentKey::from_text(&shown), Some(key.clone()));
        let digits = shown.strip_prefix("sbk_").unwrap();
        assert_eq!(
            AgentKey::from_text(digits),
            Some(key.clone()),
            "an older one"
        );
        assert_eq!(AgentKey::of_token(&key.as_token()), Some(key.clone()));
        assert_eq!(AgentKey::of_token(&shown), None, "a key is no token");
        assert_eq!(
            AgentKey::from_text(&key.as_token()),
            None,
            "nor the other way round"
        );
        assert_eq!(format!("{key:?}"), "AgentKey(…)");
    }

    #[test]
    fn the_local_stewards_token_follows_from_the_master_key_and_is_no_agents_key() {
        let token = master().steward_token();
        assert_eq!(token, master().steward_token());
        assert_ne!(token, MasterKey::new([8; KEY_LEN]).steward_token());
        let digits = token.strip_prefix("sbt_").unwrap();
        assert_eq!(digits.len(), 2 * KEY_LEN);
        assert_ne!(token, master().agent_key("", 0).as_token());
        let read = MasterKey::from_hex(&format!("{}\n", to_hex(&[7; KEY_LEN]))).unwrap();
        assert_eq!(read.steward_token(), token);
        assert!(MasterKey::from_hex("07").is_none());
    }

    #[test]
    fn a_proof_is_of_one_key_for_one_nonce_at_one_address() {
        let here: SocketAddr = "127.0.0.1:7373".parse().unwrap();
        let proof = master().proof("n1", here);
        assert!(master().is_proof("n1", here, &proof));
        assert!(master().is_proof("n1", "[::ffff:127.0.0.1]:7373".parse().unwrap(), &proof));
        assert!(!master().is_proof("n2", here, &proof));
        for other in ["127.0.0.1:7374", "127.0.0.2:7373", "[::1]:7373"] {
            assert!(
                !master().is_proof("n1", other.parse().unwrap(), &proof),
                "{other}"
            );
        }
        assert!(!MasterKey::new([8; KEY_LEN]).is_proof("n1", here, &proof));
        assert!(!master().is_proof("n1", here, ""));
    }

    #[test]
    fn signatures_and_keys_are_those_that_another_implementation_computes() {
        let key = AgentKey([0x0b; KEY_LEN]);
        assert_eq!(
            key.sign("Hi There"),
            "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"
        );
        let derived = master().agent_key("a1", 1).to_text();
        assert_eq!(
            derived,
            "sbk_726178ce6f369f34460f12618f647acb47c97a12bb2fe5162471f46a6df58140"
        );
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let key = master().agent_key("a1", 1);
        let good = key.sign("text");
        for bad in [
            "",
            "0",
            "zz",
            &good[..62],
            &format!("{good}00"),
            &good.replace(|c| c == good.chars().next().unwrap(), "x"),
        ] {
            assert!(!key.verify("text", bad), "{bad}");
        }
        assert!(key.verify("text", &good));
        assert_eq!(AgentKey::from_text("00"), None);
        assert!(body_to_sign(b"[]").is_err());
    }
}
