//! What nodes sign, and with which key: Ed25519, in hexadecimal.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::IsoTime;
use crate::signature::{from_hex, to_hex};

/// The private key of a node.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// Reads a seed of 32 bytes.
    pub fn from_hex(seed: &str) -> Option<Signer> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&from_hex(seed)?);
        pair.ok().map(Signer)
    }

    pub fn public_key(&self) -> String {
        to_hex(self.0.public_key().as_ref())
    }

    pub fn sign(&self, text: &str) -> String {
        to_hex(self.0.sign(text.as_bytes()).as_ref())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
    }
}

/// Whether the owner of this public key signed this.
pub fn is_signed(public_key: &str, text: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (from_hex(public_key), from_hex(signature)) else {
        return false;
    };
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(text.as_bytes(), &signature).is_ok()
}

/// What a node signs to join.
pub fn exchange(invite: &str, node: &str, nonce: &str) -> String {
    format!("ansible-auth-exchange|{invite}|{node}|{nonce}")
}

/// What an external agent signs to be admitted.
pub fn agent_exchange(invite: &str, agent: &str, nonce: &str) -> String {
    format!("ansible-agent-exchange|{invite}|{agent}|{nonce}")
}

/// What a node signs for each later ticket; `audience` is the node that it asks.
pub fn ticket(node: &str, audience: &str, at: IsoTime, nonce: &str) -> String {
    format!("ansible-auth-ticket|{node}|{audience}|{at}|{nonce}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_one_key_over_one_text() {
        // RFC 8032, 7.1, test 1.
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let signer = Signer::from_hex(seed).unwrap();
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(signer.public_key(), public);
        assert!(
            signer
                .sign("")
                .starts_with("e5564300c360ac729086e2cc806e828a")
        );
        let signature = signer.sign(&exchange("i", "n", "x"));
        assert!(is_signed(public, "ansible-auth-exchange|i|n|x", &signature));
        assert!(!is_signed(
            public,
            "ansible-auth-exchange|i|n|y",
            &signature
        ));
        let other = Signer::from_hex(&"01".repeat(32)).unwrap().public_key();
        assert!(!is_signed(
            &other,
            "ansible-auth-exchange|i|n|x",
            &signature
        ));
        for wrong in ["", "zz", &signature[2..]] {
            assert!(!is_signed(public, "ansible-auth-exchange|i|n|x", wrong));
            assert!(!is_signed(wrong, "ansible-auth-exchange|i|n|x", &signature));
        }
        assert!(Signer::from_hex(&seed[2..]).is_none());
        assert_eq!(
            ticket("a", "b", IsoTime(0), "n"),
            "ansible-auth-ticket|a|b|1970-01-01T00:00:00.000Z|n"
        );
    }
}
