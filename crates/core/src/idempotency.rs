//! Remembered answers: a call that is repeated with its key acts once.

use std::sync::Arc;

use crate::time::Timestamp;

/// Who called what under which key. Without the principal one agent could read another's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub principal: Arc<str>,
    pub operation: &'static str,
    pub key: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub key: Key,
    pub body_hash: [u8; 32],
    /// The dialect's own answer, as bytes that only it understands.
    pub answer: Arc<[u8]>,
    pub at: Timestamp,
}
