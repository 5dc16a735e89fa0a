//! What goes along with a change to the writer, and what comes back.

use std::sync::Arc;

use bytes::Bytes;
use switchboard_core::Pass;
use switchboard_core::Refusal;
use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::Key;

use super::Answer;

/// What is committed together with a change: the key that makes it happen once, the signature that must not come again.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    pub key: Option<(Key, [u8; 32])>,
    pub nonce: Option<Nonce>,
    /// What lets an external agent in, if one calls.
    pub pass: Option<Arc<Pass>>,
    /// Prints a refusal, to be kept with the signature for a request that may be found again where it lies.
    pub keeps_refusal: Option<fn(&Refusal) -> Vec<u8>>,
}

impl Guard {
    /// Where the refusal of this very request is kept.
    pub fn refusal(&self) -> Option<(Key, [u8; 32])> {
        let ((key, body_hash), nonce) = (self.key.as_ref()?, self.nonce.as_ref()?);
        let key = Key {
            principal: Arc::clone(&key.principal),
            operation: "refused",
            key: format!("{}/{}", key.key, nonce.value).into(),
        };
        Some((key, *body_hash))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<R> {
    /// The reply, and in print if it was kept under a key.
    Fresh(R, Option<Arc<[u8]>>),
    /// The same call came before; these are the bytes of its answer.
    Replayed(Arc<[u8]>),
}

impl<R> Outcome<R> {
    /// The answer; what is in print already is not printed again.
    pub fn print(self, render: fn(&R) -> Vec<u8>) -> Answer {
        let (body, replayed) = match self {
            Outcome::Fresh(reply, None) => (render(&reply).into(), false),
            Outcome::Fresh(_, Some(kept)) => (Bytes::from_owner(kept), false),
            Outcome::Replayed(kept) => (Bytes::from_owner(kept), true),
        };
        Answer { body, replayed }
    }
}
