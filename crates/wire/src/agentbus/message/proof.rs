//! How a hello shows who sends it: signed with the agent's key or with a token, neither of which travels.

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use switchboard_core::limits;

use crate::IsoTime;
use crate::agentbus::check::{self, Checked};
use crate::agentbus::words::Role;
use crate::malformed::Malformed;
use crate::signature::{AgentKey, to_hex};

/// What a sender signs its hello with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The key of the agent itself.
    Key(AgentKey),
    /// A token, by the key that its secret spells.
    Token(AgentKey),
}

/// `auth` of a hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloAuth {
    /// When it was signed; it counts for 5 minutes.
    pub timestamp: String,
    /// Never the same twice.
    pub nonce: String,
    /// Which token signed, by the SHA-256 of its secret; absent: the agent's own key did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_sha256: Option<String>,
    /// HMAC-SHA256 in hexadecimal.
    pub signature: String,
}

impl Credential {
    /// Reads what was shown when it was made: `sbt_…` is a token, `sbk_…` the key of an agent.
    pub fn from_text(text: &str) -> Option<Self> {
        let token = AgentKey::of_token(text).map(Self::Token);
        token.or_else(|| AgentKey::from_text(text).map(Self::Key))
    }

    /// Signs the hello of this sender; to be sent once.
    pub fn sign(&self, role: Role, id: &str, now: IsoTime, nonce: String) -> HelloAuth {
        let timestamp = now.to_string();
        let text = to_sign(role, id, &timestamp, &nonce);
        let (key, token_sha256) = match self {
            Self::Key(key) => (key, None),
            Self::Token(key) => {
                let hash = digest::digest(&digest::SHA256, key.as_token().as_bytes());
                (key, Some(to_hex(hash.as_ref())))
            }
        };
        HelloAuth {
            signature: key.sign(&text),
            timestamp,
            nonce,
            token_sha256,
        }
    }
}

impl HelloAuth {
    /// Whether this key signed the hello of this sender.
    pub fn is_of(&self, key: &AgentKey, role: Role, id: &str) -> bool {
        let text = to_sign(role, id, &self.timestamp, &self.nonce);
        key.verify(&text, &self.signature)
    }

    pub(super) fn check(&self) -> Checked {
        check::word("auth.timestamp", &self.timestamp)?;
        check::filled("auth.nonce", &self.nonce, limits::ID_BYTES_MAX)?;
        check::word("auth.nonce", &self.nonce)?;
        check::word("auth.signature", &self.signature)?;
        match &self.token_sha256 {
            Some(hash) if crate::signature::from_hex(hash).is_none_or(|hash| hash.len() != 32) => {
                let expected = "expected 64 hexadecimal digits";
                Err(Malformed::field("auth.token_sha256", expected))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Five lines; no call over HTTP signs such a text, because its second line would be a path.
fn to_sign(role: Role, id: &str, timestamp: &str, nonce: &str) -> String {
    ["HELLO", role.as_str(), id, timestamp, nonce].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::MasterKey;

    fn key() -> AgentKey {
        MasterKey::new([7; 32]).agent_key("w1", 1)
    }

    fn signed(credential: &Credential) -> HelloAuth {
        credential.sign(
            Role::Worker,
            "w1",
            IsoTime(1_768_816_800_000),
            "n1".to_owned(),
        )
    }

    #[test]
    fn a_hello_is_signed_as_another_implementation_signs_it() {
        // python3: hmac.new(bytes.fromhex(key[4:]), text, "sha256").hexdigest()
        let auth = signed(&Credential::Key(key()));
        assert_eq!(auth.timestamp, "2026-01-19T10:00:00.000Z");
        assert_eq!(
            key().to_text(),
            "sbk_1e4a6c8a128cbe57a5ebf172b8e20b10a23f1771e13d793997b33ba9c43fd479"
        );
        assert_eq!(
            auth.signature,
            "2ea5e27312d890d52464cdf715288ec362feda98dbebdb2dd63183593a45a289"
        );
    }

    #[test]
    fn a_signature_is_good_for_one_sender_one_time_and_one_nonce() {
        let auth = signed(&Credential::Key(key()));
        assert!(auth.is_of(&key(), Role::Worker, "w1"));
        assert!(!auth.is_of(&key(), Role::Worker, "w2"));
        assert!(!auth.is_of(&key(), Role::Operator, "w1"));
        let other = MasterKey::new([7; 32]).agent_key("w1", 2);
        assert!(!auth.is_of(&other, Role::Worker, "w1"));
        for change in [
            |auth: &mut HelloAuth| auth.nonce.push('2'),
            |auth: &mut HelloAuth| auth.timestamp = "2026-01-19T10:00:01.000Z".to_owned(),
            |auth: &mut HelloAuth| auth.signature.truncate(62),
        ] {
            let mut changed = auth.clone();
            change(&mut changed);
            assert!(!changed.is_of(&key(), Role::Worker, "w1"), "{changed:?}");
        }
    }

    #[test]
    fn a_token_is_named_by_its_hash_and_a_credential_is_known_by_its_prefix() {
        let secret = key().as_token();
        let token = Credential::from_text(&secret).unwrap();
        assert_eq!(token, Credential::Token(key()));
        let auth = signed(&token);
        let hash = digest::digest(&digest::SHA256, secret.as_bytes());
        assert_eq!(auth.token_sha256, Some(to_hex(hash.as_ref())));
        assert!(auth.is_of(&key(), Role::Worker, "w1"));
        let shown = Credential::from_text(&key().to_text());
        assert_eq!(shown, Some(Credential::Key(key())));
        assert_eq!(Credential::from_text("sbx_1"), None);
    }

    #[test]
    fn a_proof_that_is_none_is_named() {
        let good = signed(&Credential::Token(key()));
        assert!(good.check().is_ok());
        for (change, field) in [
            (
                (|auth| auth.nonce = String::new()) as fn(&mut HelloAuth),
                "auth.nonce",
            ),
            (|auth| auth.nonce = "a\nb".to_owned(), "auth.nonce"),
            (|auth| auth.nonce = "n".repeat(129), "auth.nonce"),
            (|auth| auth.timestamp = "a\nb".to_owned(), "auth.timestamp"),
            (
                |auth| auth.token_sha256 = Some("00".to_owned()),
                "auth.token_sha256",
            ),
        ] {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
