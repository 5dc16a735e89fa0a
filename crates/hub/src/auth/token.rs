//! Tokens: their secrets, their hashes, and those that were looked up a moment ago.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use switchboard_core::TokenId;
use switchboard_core::token::Token;
use switchboard_wire::signature::{AgentKey, MasterKey, same};

/// A revoked token works no longer than this on a coordinator that did not hear of it.
const FRESH_FOR: Duration = Duration::from_secs(1);
const TOKENS_MAX: usize = 1024;

/// What the secret of a token spells. Nothing but the id is needed to make it again.
pub fn key(master: &MasterKey, id: &TokenId) -> AgentKey {
    // No agent's id begins with a space, so no agent's key is ever one of these.
    master.agent_key(&format!(" token {id}"), 0)
}

pub fn hash(secret: impl AsRef<[u8]>) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, secret.as_ref());
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

#[derive(Debug)]
pub struct TokenCache {
    /// The hash of what the reader of the master key may show.
    steward: [u8; 32],
    known: HashMap<[u8; 32], (Instant, Token)>,
}

impl TokenCache {
    pub fn of(master: &MasterKey) -> Self {
        TokenCache {
            steward: hash(master.steward_token()),
            known: HashMap::new(),
        }
    }

    pub fn is_stewards(&self, hash: &[u8; 32]) -> bool {
        same(hash, &self.steward)
    }

    pub fn get(&self, hash: &[u8; 32]) -> Option<Token> {
        let (at, token) = self.known.get(hash)?;
        (at.elapsed() < FRESH_FOR).then(|| token.clone())
    }

    /// The same however old it is.
    pub fn remembered(&self, hash: &[u8; 32]) -> Option<&Token> {
        self.known.get(hash).map(|(_, token)| token)
    }

    pub fn put(&mut self, token: Token) {
        if self.known.len() >= TOKENS_MAX {
            self.known.retain(|_, (at, _)| at.elapsed() < FRESH_FOR);
        }
        if self.known.len() < TOKENS_MAX {
            self.known.insert(token.hash, (Instant::now(), token));
        }
    }

    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_follows_from_its_id_and_the_master_key() {
        let master = MasterKey::new([1; 32]);
        let secret = |master: &MasterKey, id: &str| key(master, &id.into()).as_token();
        let one = secret(&master, "tok_1");
        assert_eq!(one, secret(&master, "tok_1"));
        assert_ne!(one, secret(&master, "tok_2"));
        assert_ne!(one, secret(&MasterKey::new([2; 32]), "tok_1"));
        assert_eq!(one.len(), 4 + 64);
        assert_ne!(hash(one.as_bytes()), hash(b""));
    }
}
