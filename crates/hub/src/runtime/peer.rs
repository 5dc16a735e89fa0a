//! Calls to another node, with tickets that it gave.

use std::time::Duration;

use aws_lc_rs::rand;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use switchboard_core::node::Node;
use switchboard_core::{NodeId, limits};
use switchboard_wire::IsoTime;
use switchboard_wire::runtime::{TicketRequest, TicketResponse, proof};
use switchboard_wire::signature::to_hex;
use tokio::time::{Instant, timeout};

use super::gateway::Own;
use super::pin;
use crate::call::to_json;
use crate::hub::{self, Hub};

/// A call may be held back for as long as a long poll, and then has to be answered.
const ANSWERS_WITHIN: Duration = limits::WAIT_MAX.saturating_add(Duration::from_secs(10));
/// No answer is longer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A ticket is used for so long; the clocks of two nodes need not agree.
const TICKET_USED_FOR: Duration = Duration::from_secs(45);
/// What another node says of an error is shown up to here.
const WHY_BYTES_MAX: usize = 1024;

/// One other node, and how it is called.
pub struct Peer {
    hub: Hub,
    pub node_id: NodeId,
    endpoint: String,
    http: reqwest::Client,
    ticket: Mutex<Option<(String, Instant)>>,
}

/// Why another node did not answer as it should.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// It said no. The whole body is there for who knows more of it.
    #[error("{message} ({code})")]
    Refused {
        status: u16,
        code: String,
        message: String,
        body: Bytes,
    },
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
    /// Our own ledger.
    #[error(transparent)]
    Hub(#[from] hub::Error),
}

impl Peer {
    /// A node that has an address; one without brings its events itself.
    pub fn new(hub: &Hub, node: &Node) -> Result<Peer, Trouble> {
        let none = || Trouble::Unreachable(format!("node {} has no endpoint", node.node_id));
        let endpoint = node.endpoint.clone().ok_or_else(none)?;
        let pin = node.certificate.as_deref().map(str::parse).transpose();
        let pin = pin.map_err(|why| Trouble::Unreadable(str::to_owned(why)))?;
        Ok(Peer {
            hub: hub.clone(),
            node_id: node.node_id.clone(),
            http: pin::client(&endpoint, pin).map_err(Trouble::Unreachable)?,
            endpoint,
            ticket: Mutex::default(),
        })
    }

    /// `path` is as it is sent, with its query.
    pub async fn get(&self, path: &str) -> Result<Bytes, Trouble> {
        self.call(Method::GET, path, None).await
    }

    pub async fn post<T: Serialize + Sync>(&self, path: &str, body: &T) -> Result<Bytes, Trouble> {
        self.call(Method::POST, path, Some(to_json(body).into()))
            .await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, Trouble> {
        let url = format!("{}{path}", self.endpoint);
        let mut is_first = true;
        loop {
            let ticket = self.ticket().await?;
            let mut request = self.http.request(method.clone(), &url).bearer_auth(ticket);
            if let Some(body) = &body {
                request = with_json(request, body.clone());
            }
            match answer(request, ANSWERS_WITHIN).await {
                // Its master key may be another by now, its clock set: a new ticket tells.
                Err(Trouble::Refused { status: 401, .. }) if is_first => {
                    *self.ticket.lock() = None;
                    is_first = false;
                }
                answer => return answer,
            }
        }
    }

    /// One that is still good, or a new one.
    async fn ticket(&self) -> Result<String, Trouble> {
        if let Some((ticket, until)) = &*self.ticket.lock()
            && Instant::now() < *until
        {
            return Ok(ticket.clone());
        }
        let asked = Instant::now();
        let own = Own::read(&self.hub).await?;
        let (node, at, nonce) = (
            own.gateway.node_id.as_str(),
            IsoTime::from(self.hub.wall()),
            nonce()?,
        );
        let signed = proof::ticket(node, self.node_id.as_str(), at, &nonce);
        let request = TicketRequest {
            node_id: node.to_owned(),
            at,
            proof: own.signer.sign(&signed),
            nonce,
        };
        let given: TicketResponse =
            post(&self.http, &self.endpoint, "/ansible/auth/ticket", &request).await?;
        let ticket = given.ticket;
        *self.ticket.lock() = Some((ticket.clone(), asked + TICKET_USED_FOR));
        Ok(ticket)
    }
}

/// A call that takes no ticket.
pub async fn post<B: Serialize, T: DeserializeOwned>(
    http: &reqwest::Client,
    endpoint: &str,
    path: &str,
    body: &B,
) -> Result<T, Trouble> {
    let request = http.post(format!("{endpoint}{path}"));
    let bytes = answer(with_json(request, to_json(body).into()), ANSWERS_WITHIN).await?;
    serde_json::from_slice(&bytes).map_err(|error| Trouble::Unreadable(error.to_string()))
}

fn with_json(request: RequestBuilder, body: Bytes) -> RequestBuilder {
    let request = request.header("content-type", "application/json");
    request.body(body)
}

async fn answer(request: RequestBuilder, within: Duration) -> Result<Bytes, Trouble> {
    let read = async {
        let mut response = request.send().await?;
        let mut answer = BytesMut::new();
        while let Some(chunk) = response.chunk().await? {
            answer.extend_from_slice(&chunk);
            if answer.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok::<_, reqwest::Error>((response.status(), answer.freeze()))
    };
    let (status, body) = match timeout(within, read).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => return Err(Trouble::Unreachable(told(&error))),
        Err(_) => return Err(Trouble::Unreachable("it did not answer in time".to_owned())),
    };
    if body.len() > ANSWER_BYTES_MAX {
        let why = format!("it is longer than {ANSWER_BYTES_MAX} bytes");
        return Err(Trouble::Unreadable(why));
    }
    match status.is_success() {
        true => Ok(body),
        false => Err(refused(status.as_u16(), body)),
    }
}

/// What every refusal has, whoever wrote the node.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Said {
    error: Option<String>,
    message: Option<String>,
}

fn refused(status: u16, body: Bytes) -> Trouble {
    let said: Said = serde_json::from_slice(&body).unwrap_or_default();
    let shown = |text: String| limits::cut(&text, WHY_BYTES_MAX).to_owned();
    Trouble::Refused {
        status,
        code: shown(said.error.unwrap_or_else(|| format!("http_{status}"))),
        message: shown(
            said.message
                .unwrap_or_else(|| format!("it answered with status {status}")),
        ),
        body,
    }
}

/// An error with its causes, and without the address, which the caller knows.
fn told(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    let mut words = vec!["the call failed".to_owned()];
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    words.join(": ")
}

fn nonce() -> Result<String, Trouble> {
    let mut bytes = [0; 16];
    let drawn = rand::fill(&mut bytes);
    drawn.map_err(|_| Trouble::Unreachable("there is no randomness".to_owned()))?;
    Ok(to_hex(&bytes))
}

/// An id as a part of a path.
pub fn encoded(id: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let bytes = id.bytes();
    bytes.fold(String::new(), |text, byte| match plain(&byte) {
        true => text + char::from(byte).encode_utf8(&mut [0; 4]),
        false => text + &format!("%{byte:02X}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_part_of_a_path() {
        assert_eq!(encoded("node-1.a_b~"), "node-1.a_b~");
        assert_eq!(encoded("a/b?c#d%ü"), "a%2Fb%3Fc%23d%25%C3%BC");
    }

    #[test]
    fn a_refusal_is_read_whoever_wrote_it() {
        let of = |body: &str| match refused(409, Bytes::from(body.to_owned())) {
            Trouble::Refused { code, message, .. } => (code, message),
            other => panic!("{other:?}"),
        };
        let (code, message) = of(r#"{"error":"epoch_mismatch","message":"another"}"#);
        assert_eq!((&*code, &*message), ("epoch_mismatch", "another"));
        assert_eq!(of("<html>").0, "http_409");
    }
}
