//! One call to the hub: addressed, signed, sent, retried, read.
//!
//! Knows HTTP and the shape of a refusal, and nothing about tasks or agents. A mutating call carries one idempotency
//! key however often it is sent, so a lost answer never makes a thing happen twice.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{Response, StatusCode, Upgraded, Url};
use serde::de::DeserializeOwned;
use switchboard_wire::jetpack::{EventPlace, ProofQuery, ProofResponse};
use switchboard_wire::signature::{AgentKey, MasterKey, SignedRequest, to_hex};
use switchboard_wire::{IsoTime, Query as _, in_words};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::debug;
use ulid::Ulid;

use crate::broker::over_http;
use crate::call::Call;
use crate::client::address;
use crate::error::{Error, distrust, is_not_http};
use crate::retry::RetryPolicy;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Largest proof that is read.
const PROOF_BYTES_MAX: usize = 4096;
const API: [&str; 2] = ["api", "v1"];

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const VERSION: HeaderName = HeaderName::from_static("switchboard-protocol-version");

/// The connection to one hub and how to use it.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) signer: Option<Signer>,
    pub(crate) token: Option<HeaderValue>,
    /// What the hub has to prove before anything is sent to it, and the address it is called at.
    pub(crate) prover: Option<(MasterKey, SocketAddr)>,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Duration,
    /// The key to use instead of a fresh one.
    pub(crate) key: Option<String>,
}

/// Signs calls as one agent.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    pub(crate) agent: String,
    pub(crate) key: AgentKey,
}

impl Transport {
    /// Sends `call`, retries what is transient, and reads the answer.
    pub(crate) async fn send<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let bytes = self.send_bytes(&call).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| self.unreadable(in_words(&error.to_string())))
    }

    /// As [`send`](Self::send), for an answer that is text.
    pub(crate) async fn send_text(&self, call: Call) -> Result<String, Error> {
        let bytes = self.send_bytes(&call).await?;
        String::from_utf8(bytes.to_vec()).map_err(|error| self.unreadable(error.to_string()))
    }

    /// Opens an answer that never ends.
    pub(crate) async fn open(
        &self,
        call: &Call,
        last_event_id: Option<EventPlace>,
    ) -> Result<Response, Error> {
        let url = self.url(call)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(place) = last_event_id
            && let Ok(id) = HeaderValue::try_from(place.to_string())
        {
            headers.insert(HeaderName::from_static("last-event-id"), id);
        }
        self.attempt(call, &url, None, headers, None).await
    }

    /// One key, several tries; an answer that broke off half-way is one more reason to ask again.
    async fn send_bytes(&self, call: &Call) -> Result<Bytes, Error> {
        let url = self.url(call)?;
        let key = call.mutates.then(|| {
            self.key
                .clone()
                .unwrap_or_else(|| Ulid::generate().to_string())
        });
        let mut retries = Retries::new(self.retry);
        loop {
            let timeout = Some(self.timeout + call.wait);
            let answer = match self
                .attempt(call, &url, key.as_deref(), HeaderMap::new(), timeout)
                .await
            {
                Ok(response) => self.read(response, ANSWER_BYTES_MAX).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(bytes) => return Ok(bytes),
                Err(error) => retries.pause(error).await?,
            }
        }
    }

    /// Sends once, with these headers, and reads the answer.
    pub(crate) async fn send_once<T: DeserializeOwned>(
        &self,
        call: &Call,
        headers: HeaderMap,
        key: Option<&str>,
    ) -> Result<T, Error> {
        let (url, timeout) = (self.url(call)?, Some(self.timeout + call.wait));
        let response = self.attempt(call, &url, key, headers, timeout).await?;
        let bytes = self.read(response, ANSWER_BYTES_MAX).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| self.unreadable(in_words(&error.to_string())))
    }

    /// The tries of a call that is made anew each time.
    pub(crate) fn retries(&self) -> Retries {
        Retries::new(self.retry)
    }

    /// Sends once. Each try is signed anew, because a signature is good for one use only.
    async fn attempt(
        &self,
        call: &Call,
        url: &Url,
        key: Option<&str>,
        extra: HeaderMap,
        timeout: Option<Duration>,
    ) -> Result<Response, Error> {
        let path = url.path();
        debug!(http.method = %call.method, http.path = path, key, "sends {} {path}", call.method);
        if let Some((key, called)) = &self.prover {
            self.prove(key, *called).await?;
        }
        let headers = self.headers(call, url, key, extra)?;
        let mut request = self
            .http
            .request(call.method.clone(), url.clone())
            .headers(headers);
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refusal(response).await)
        }
    }

    /// Sends once, as it is, and returns whatever is answered.
    pub(crate) async fn ask(&self, call: &Call, shown: HeaderMap) -> Result<(u16, Bytes), Error> {
        let response = self.asked(call, shown).await?;
        let status = response.status().as_u16();
        Ok((status, self.read(response, ANSWER_BYTES_MAX).await?))
    }

    /// The same, before anything of the answer is read. What is shown takes the place of what the client would show.
    pub(crate) async fn asked(&self, call: &Call, shown: HeaderMap) -> Result<Response, Error> {
        let url = self.url(call)?;
        if let Some((key, called)) = &self.prover {
            self.prove(key, *called).await?;
        }
        let mut headers = self.headers(call, &url, None, HeaderMap::new())?;
        headers.extend(shown);
        let mut request = self.http.request(call.method.clone(), url);
        request = request.headers(headers).timeout(self.timeout + call.wait);
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|source| self.broken(source))
    }

    /// Opens a WebSocket at another address of this hub, once the hub has proven itself, and with the same token.
    pub(crate) async fn upgrade(&self, url: &str) -> Result<Upgraded, Error> {
        if let (Some((key, called)), Some(_)) = (&self.prover, &self.token) {
            self.prove(key, *called).await?;
        }
        let key = generate_key();
        let mut request = self
            .http
            .get(address(&over_http(url))?)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refusal(response).await);
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|word| *word != derive_accept_key(key.as_bytes())) {
            return Err(self.unreadable("it is not that of a WebSocket".to_owned()));
        }
        let upgraded = response.upgrade().await;
        upgraded.map_err(|source| self.broken(source))
    }

    /// Asks the hub for what only who has the key can say. Nothing secret is sent for it.
    async fn prove(&self, key: &MasterKey, called: SocketAddr) -> Result<(), Error> {
        let unproven = || Error::Unproven {
            address: self.address(),
        };
        let nonce = fresh_nonce();
        let query = ProofQuery {
            nonce: Some(nonce.clone()),
        };
        let call = Call::get(&["proof"]).bare().query(query.to_query());
        let request = self.http.get(self.url(&call)?).timeout(self.timeout);
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if !response.status().is_success() {
            let refusal = self.refusal(response).await;
            return Err(match refusal.is_transient() {
                true => refusal,
                false => unproven(),
            });
        }
        let bytes = self.read(response, PROOF_BYTES_MAX).await?;
        let answer: ProofResponse = serde_json::from_slice(&bytes).map_err(|_| unproven())?;
        match key.is_proof(&nonce, called, &answer.proof) {
            true => Ok(()),
            false => Err(unproven()),
        }
    }

    /// Where this client sends to.
    pub(crate) fn address(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    fn url(&self, call: &Call) -> Result<Url, Error> {
        // A URL drops such segments, and the call would land elsewhere.
        if let Some(odd) = call
            .path
            .iter()
            .find(|segment| matches!(segment.as_str(), "" | "." | ".."))
        {
            return Err(Error::Invalid(format!("'{odd}' is not a valid id")));
        }
        let mut url = self.base.clone();
        {
            let mut segments = url
                .path_segments_mut()
                .map_err(|()| Error::Invalid(format!("'{}' is not a hub's address", self.base)))?;
            segments.pop_if_empty();
            if !call.bare {
                segments.extend(API);
            }
            segments.extend(&call.path);
        }
        url.set_query((!call.query.is_empty()).then_some(call.query.as_str()));
        Ok(url)
    }

    fn headers(
        &self,
        call: &Call,
        url: &Url,
        key: Option<&str>,
        mut headers: HeaderMap,
    ) -> Result<HeaderMap, Error> {
        headers.insert(VERSION, HeaderValue::from_static("1.0"));
        if call.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, visible(key, "the idempotency key")?);
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        if let Some(signer) = &self.signer {
            self.sign(signer, call, url, &mut headers)?;
        }
        Ok(headers)
    }

    fn sign(
        &self,
        signer: &Signer,
        call: &Call,
        url: &Url,
        headers: &mut HeaderMap,
    ) -> Result<(), Error> {
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let timestamp = now().to_string();
        let nonce = Ulid::generate().to_string();
        let request = SignedRequest {
            method: call.method.as_str(),
            path_and_query: &target,
            timestamp: &timestamp,
            nonce: Some(&nonce),
            body: call.body.as_deref().unwrap_or_default(),
        };
        let signature = signer.key.sign(&request.to_sign());
        for (name, value) in [
            ("switchboard-agent", signer.agent.as_str()),
            ("switchboard-timestamp", &timestamp),
            ("switchboard-nonce", &nonce),
            ("switchboard-signature", &signature),
        ] {
            headers.insert(HeaderName::from_static(name), visible(value, name)?);
        }
        Ok(())
    }

    async fn refusal(&self, response: Response) -> Error {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        // If what was said is lost, that it was a refusal is still known.
        let bytes = self.read(response, ANSWER_BYTES_MAX).await;
        let bytes = bytes.unwrap_or_default();
        let body: Refusal = serde_json::from_slice(&bytes).unwrap_or_default();
        Error::Refused {
            status,
            code: body.error.unwrap_or_else(|| format!("http_{status}")),
            message: body
                .message
                .unwrap_or_else(|| format!("{} answered with status {status}", self.address())),
            field: body.field,
            reason: body.reason,
            retry_after,
        }
    }

    async fn read(&self, mut response: Response, most: usize) -> Result<Bytes, Error> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|source| self.broken(source))?
        {
            if bytes.len() + chunk.len() > most {
                return Err(self.unreadable(format!("it is longer than {most} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    }

    /// What a failure below HTTP means.
    fn broken(&self, source: reqwest::Error) -> Error {
        let address = self.address();
        if let Some(reason) = distrust(&source) {
            return Error::Untrusted { address, reason };
        }
        if is_not_http(&source) {
            return Error::NotHttp { address };
        }
        Error::Unreachable { address, source }
    }

    pub(crate) fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable {
            address: self.address(),
            reason,
        }
    }
}

/// The tries that one call has left.
pub(crate) struct Retries {
    policy: RetryPolicy,
    waits: Box<dyn Iterator<Item = Duration> + Send>,
}

impl Retries {
    fn new(policy: RetryPolicy) -> Self {
        Self {
            policy,
            waits: Box::new(policy.waits()),
        }
    }

    /// Waits before the next try, or gives `error` back when there is none.
    pub(crate) async fn pause(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_transient() {
            return Err(error);
        }
        let asked = match &error {
            Error::Refused { retry_after, .. } => *retry_after,
            Error::Unreachable { .. }
            | Error::Untrusted { .. }
            | Error::Unproven { .. }
            | Error::NotHttp { .. }
            | Error::Unreadable { .. }
            | Error::Invalid(_) => None,
        };
        let Some(wait) = self
            .waits
            .next()
            .and_then(|backoff| self.policy.wait(backoff, asked))
        else {
            return Err(error);
        };
        debug!("retrying in {wait:?}: {error}");
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// The one shape of every refusal.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Refusal {
    error: Option<String>,
    message: Option<String>,
    field: Option<String>,
    reason: Option<String>,
}

pub(crate) fn fresh_nonce() -> String {
    // Two, because half of one is the time.
    let parts = [Ulid::generate(), Ulid::generate()];
    parts.map(|part| to_hex(&part.to_bytes())).concat()
}

fn visible(text: &str, what: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| {
        Error::Invalid(format!(
            "{what} '{text}' has characters that cannot be sent"
        ))
    })
}

pub(crate) fn now() -> IsoTime {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    IsoTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
