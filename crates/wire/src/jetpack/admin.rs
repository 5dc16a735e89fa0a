//! Keys of agents and tokens of people; secrets are shown once.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Scope;
use crate::IsoTime;

/// `POST /agents/:id/keys`; keys of earlier generations stop working.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyResponse {
    pub success: bool,
    pub agent_id: String,
    pub generation: u64,
    /// `sbk_` and 64 hexadecimal digits, the key; shown only here.
    pub key: String,
}

/// `DELETE /agents/:id/keys`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRevokedResponse {
    pub success: bool,
    pub generation: u64,
}

/// `POST /tokens`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = agent_of_a_scope)]
pub struct NewTokenRequest {
    pub name: String,
    pub scope: Scope,
    /// The agent that a token of scope `agent` is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// A token of scope `agent` is that of one agent, any other of none.
fn agent_of_a_scope(schema: &mut Schema) {
    let agent = Scope::Agent.as_str();
    let one = json!({ "scope": { "const": agent }, "agentId": { "type": "string" } });
    let none = json!({ "scope": { "not": { "const": agent } }, "agentId": { "type": "null" } });
    let forms = json!([{ "properties": one, "required": ["agentId"] }, { "properties": none }]);
    schema.insert("anyOf".to_owned(), forms);
}

/// A token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    pub id: String,
    pub name: String,
    pub scope: Scope,
    /// The agent that it acts as, if its scope is `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub created_at: IsoTime,
    /// Only in the response that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The created token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenResponse {
    pub success: bool,
    pub token: Token,
}

/// `GET /tokens`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokensResponse {
    pub success: bool,
    pub tokens: Vec<Token>,
}

/// A response with nothing but success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    pub success: bool,
}
