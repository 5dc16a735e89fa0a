//! An external agent: it has a key, is admitted by an invite, and proves each call.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use switchboard_wire::runtime::jose::{ProofClaims, hash, prove};
use switchboard_wire::runtime::proof::{Signer, agent_exchange};
use switchboard_wire::runtime::{
    AgentExchangeRequest, AgentTokens, ContextTokenRequest, ContextTokenResponse, InvokeResponse,
    Jwk,
};
use ulid::Ulid;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::transport::Transport;

const DPOP: HeaderName = HeaderName::from_static("dpop");

/// An agent that was admitted, and its tokens.
#[derive(Debug)]
pub struct ExternalAgent {
    transport: Transport,
    key: Signer,
    /// Kept by whoever wants to go on with the session later.
    pub tokens: AgentTokens,
}

impl ExternalAgent {
    /// Exchanges an invite. `seed` is the agent's Ed25519 key, 32 bytes in hexadecimal.
    pub async fn admit(
        client: &Client,
        agent: &str,
        seed: &str,
        invite: &str,
    ) -> Result<ExternalAgent, Error> {
        let (transport, key) = (bare(client), signer(seed)?);
        let request = introduction(&key, agent, invite, &Ulid::generate().to_string())?;
        let call = Call::post(&["ansible", "agent", "auth", "exchange"], &request)?.bare();
        // An exchange counts once: what was lost on the way is not sent again.
        let tokens = transport.send_once(&call, HeaderMap::new(), None).await?;
        Ok(ExternalAgent {
            transport,
            key,
            tokens,
        })
    }

    /// Goes on with a session.
    pub fn resume(
        client: &Client,
        seed: &str,
        tokens: AgentTokens,
    ) -> Result<ExternalAgent, Error> {
        Ok(ExternalAgent {
            transport: bare(client),
            key: signer(seed)?,
            tokens,
        })
    }

    /// Takes the next tokens. The old refresh token must not be used again, whatever becomes of this.
    pub async fn refresh(&mut self) -> Result<(), Error> {
        let body = json!({ "refreshToken": self.tokens.refresh_token });
        let path = ["ansible", "agent", "auth", "refresh"];
        self.tokens = self.once(&path, &body, None, None).await?;
        Ok(())
    }

    /// Invokes an operation. What may have been lost on the way is tried again, and happens once.
    pub async fn invoke<A: Serialize + Sync>(
        &self,
        operation: &str,
        args: &A,
    ) -> Result<InvokeResponse, Error> {
        let body = json!({ "operation": operation, "args": args });
        self.invoke_with(&self.tokens.access_token, body).await
    }

    /// The same with a token for one context.
    pub async fn invoke_in<A: Serialize + Sync>(
        &self,
        context: (&str, &str),
        operation: &str,
        args: &A,
    ) -> Result<InvokeResponse, Error> {
        let (id, token) = context;
        let body = json!({ "operation": operation, "args": args, "contextId": id });
        self.invoke_with(token, body).await
    }

    /// A token for one context, with some of the scopes.
    pub async fn context(
        &self,
        request: &ContextTokenRequest,
    ) -> Result<ContextTokenResponse, Error> {
        let body = serde_json::to_value(request)
            .map_err(|error| Error::Invalid(format!("the request is not JSON: {error}")))?;
        let path = ["ansible", "agent", "context-token"];
        let token = &self.tokens.access_token;
        self.once(&path, &body, Some(token), None).await
    }

    async fn invoke_with(&self, token: &str, body: Value) -> Result<InvokeResponse, Error> {
        let key = Ulid::generate().to_string();
        let path = ["ansible", "agent", "invoke"];
        let mut retries = self.transport.retries();
        loop {
            match self.once(&path, &body, Some(token), Some(&key)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => retries.pause(error).await?,
            }
        }
    }

    /// One call, with a nonce and a proof of its own.
    async fn once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &Value,
        token: Option<&str>,
        key: Option<&str>,
    ) -> Result<T, Error> {
        let mut body = body.clone();
        body["nonce"] = Ulid::generate().to_string().into();
        let call = Call::post(path, &body)?.bare();
        let proof = proof(&self.transport, &self.key, &path.join("/"), token)?;
        let headers = shown(
            &proof,
            token.map(|token| format!("DPoP {token}")).as_deref(),
        )?;
        self.transport.send_once(&call, headers, key).await
    }
}

/// What an exchange says: the key signs the invite, the name and the nonce.
pub(crate) fn introduction(
    key: &Signer,
    agent: &str,
    invite: &str,
    nonce: &str,
) -> Result<AgentExchangeRequest, Error> {
    let wrong = || Error::Invalid("the key cannot be shown".to_owned());
    Ok(AgentExchangeRequest {
        client_proof: key.sign(&agent_exchange(invite, agent, nonce)),
        client_pub_key: Jwk::of_hex(&key.public_key()).ok_or_else(wrong)?,
        invite_token: invite.to_owned(),
        agent_id: agent.to_owned(),
        nonce: nonce.to_owned(),
    })
}

/// A proof of the key for one call.
pub(crate) fn proof(
    transport: &Transport,
    key: &Signer,
    path: &str,
    token: Option<&str>,
) -> Result<String, Error> {
    let claims = ProofClaims {
        jti: Ulid::generate().to_string(),
        htm: Method::POST.to_string(),
        htu: format!("{}/{path}", transport.address()),
        iat: now_seconds(),
        ath: token.map(hash),
    };
    let unsigned = || Error::Invalid("the key cannot sign".to_owned());
    prove(key, &claims).ok_or_else(unsigned)
}

/// A proof, and the token beside it with the word that it is shown under.
pub(crate) fn shown(proof: &str, authorization: Option<&str>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(DPOP, visible(proof)?);
    if let Some(authorization) = authorization {
        headers.insert(AUTHORIZATION, visible(authorization)?);
    }
    Ok(headers)
}

/// The way to the hub, without what else the client shows there.
pub(crate) fn bare(client: &Client) -> Transport {
    Transport {
        token: None,
        signer: None,
        ..Transport::clone(&client.transport)
    }
}

fn signer(seed: &str) -> Result<Signer, Error> {
    let wrong = || Error::Invalid("a key is 32 bytes in hexadecimal".to_owned());
    Signer::from_hex(seed).ok_or_else(wrong)
}

fn visible(text: &str) -> Result<HeaderValue, Error> {
    let read = HeaderValue::from_str(text);
    read.map_err(|_| Error::Invalid("a token has characters that cannot be sent".to_owned()))
}

fn now_seconds() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs() as f64)
}
