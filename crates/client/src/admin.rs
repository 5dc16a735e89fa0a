//! The hub itself: status, health, keys, tokens, envelopes and batches.

use serde_json::Value;
use switchboard_wire::jetpack::{
    BatchRequest, BatchResponse, Done, Envelope, KeyResponse, KeyRevokedResponse, NewTokenRequest,
    PauseRequest, PauseResponse, Request, ResumeRequest, StatusResponse, TokenResponse,
    TokensResponse,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about the hub itself.
#[derive(Debug, Clone, Copy)]
pub struct Admin<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about the hub itself.
    pub fn admin(&self) -> Admin<'_> {
        Admin { client: self }
    }
}

impl Admin<'_> {
    /// The hub at a glance.
    pub async fn status(self) -> Result<StatusResponse, Error> {
        self.client.transport.send(Call::get(&["status"])).await
    }

    /// No new work for anybody, until it is resumed or the pause ends by itself.
    pub async fn pause(self, request: &PauseRequest) -> Result<PauseResponse, Error> {
        let call = Call::post(&["pause"], request)?;
        self.client.transport.send(call).await
    }

    /// New work is handed out again.
    pub async fn resume(self, request: &ResumeRequest) -> Result<PauseResponse, Error> {
        let call = Call::post(&["resume"], request)?;
        self.client.transport.send(call).await
    }

    /// Makes a new signing key for an agent; older ones stop working.
    pub async fn create_key(self, agent: &str) -> Result<KeyResponse, Error> {
        self.client
            .transport
            .send(Call::post(
                &["agents", agent, "keys"],
                &serde_json::json!({}),
            )?)
            .await
    }

    /// Revokes an agent's key without making a new one.
    pub async fn revoke_key(self, agent: &str) -> Result<KeyRevokedResponse, Error> {
        self.client
            .transport
            .send(Call::delete(&["agents", agent, "keys"]))
            .await
    }

    /// Every token, without its secret.
    pub async fn tokens(self) -> Result<TokensResponse, Error> {
        self.client.transport.send(Call::get(&["tokens"])).await
    }

    /// Makes a token; its secret is in this answer only.
    pub async fn create_token(self, request: &NewTokenRequest) -> Result<TokenResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tokens"], request)?)
            .await
    }

    /// Ends a token.
    pub async fn revoke_token(self, id: &str) -> Result<Done, Error> {
        self.client
            .transport
            .send(Call::delete(&["tokens", id]))
            .await
    }

    /// Sends any of the ten operations as an envelope; the answer is that operation's.
    pub async fn protocol(self, request: &Request) -> Result<Value, Error> {
        let body = Envelope::of(request.operation())
            .seal(request)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        self.client
            .transport
            .send(Call::post(&["protocol"], &body)?)
            .await
    }

    /// Sends many operations at once; each acts and is answered by itself.
    pub async fn batch(self, request: &BatchRequest) -> Result<BatchResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["batch"], request)?)
            .await
    }

    /// Statements on the public tables, by libSQL's protocol (`docs/libsql.md`); for a client whose token is of scope `sql`.
    ///
    /// There are no idempotency keys here: have a client for it that does not retry ([`crate::RetryPolicy::NEVER`]).
    pub async fn pipeline(self, request: &Value) -> Result<Value, Error> {
        let call = Call::post(&["v2", "pipeline"], request)?.bare();
        self.client.transport.send(call).await
    }

    /// Whether the process answers.
    pub async fn healthy(self) -> Result<(), Error> {
        self.client
            .transport
            .send_text(Call::get(&["healthz"]).bare())
            .await
            .map(drop)
    }

    /// Whether the ledger answers.
    pub async fn ready(self) -> Result<(), Error> {
        self.client
            .transport
            .send_text(Call::get(&["readyz"]).bare())
            .await
            .map(drop)
    }

    /// The hub's figures in the text form of Prometheus.
    pub async fn metrics(self) -> Result<String, Error> {
        self.client
            .transport
            .send_text(Call::get(&["metrics"]).bare())
            .await
    }

    /// The OpenAPI document.
    pub async fn openapi(self) -> Result<Value, Error> {
        self.client
            .transport
            .send(Call::get(&["openapi.json"]).bare())
            .await
    }
}
