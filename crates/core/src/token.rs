//! Tokens of people and programs that are not agents. Only a hash of the secret is kept.

use serde::{Deserialize, Serialize};

use crate::id::TokenId;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub scope: Scope,
    pub hash: [u8; 32],
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Scope {
        Steward = "steward",
        Viewer = "viewer",
        Node = "node",
        Sql = "sql",
        SqlSteward = "sql:steward",
    }
}
