//! One call as it came in: its head, its whole body, and who is at the other end.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use bytes::Bytes;
use parking_lot::Mutex;
use switchboard_core::rights::Right;
use switchboard_wire::jetpack::{Envelope, VersionQuery};
use switchboard_wire::{Malformed, Query};

use super::App;
use super::body::{self, Share};
use super::error::Failure;
use crate::auth::{Beside, Caller, Evidence, Mark};
use crate::call::{Seal, open};

pub const KEY: &str = "idempotency-key";
pub const VERSION: &str = "switchboard-protocol-version";

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Whom the call is from, past proxies that are trusted.
    pub ip: IpAddr,
    /// Our end: the address that was called.
    pub local: SocketAddr,
    /// To us, or to a proxy that is trusted.
    pub tls: bool,
    pub spent: Arc<Spent>,
}

/// The signature that let in the call which a connection serves now.
#[derive(Debug, Default)]
pub struct Spent(Mutex<Option<Mark>>);

impl Spent {
    pub fn take(&self) -> Option<Mark> {
        self.0.lock().take()
    }
}

pub struct Call {
    /// The operation of its route.
    pub operation: &'static str,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub peer: Peer,
    /// Who brought the token in its headers.
    pub known: Option<Caller>,
    /// What its route asks of the caller.
    right: Option<Right>,
    share: Share,
}

impl Call {
    /// Whoever shows a token is known before anything of the body is read.
    pub async fn receive(
        app: &App,
        request: Request,
        operation: &'static str,
        right: Option<Right>,
    ) -> Result<Call, Failure> {
        // Where anybody may call, a token that nobody asked for is not looked at.
        let known = match right {
            None => None,
            Some(_) => app.auth.by_header(&app.hub, request.headers()).await?,
        };
        if let (Some(caller), Some(right)) = (&known, right) {
            caller.may(right)?;
        }
        let is_stranger = known.is_none() && app.auth.is_asked_for();
        let share = Share::of(is_stranger.then(|| Arc::clone(&app.room)));
        let mut call = Self::read(request, known, share).await?;
        call.operation = operation;
        call.right = right;
        if call.method == Method::GET && call.uri.path().starts_with("/api/") {
            call.check_version()?;
        }
        Ok(call)
    }

    /// A call without a body says which version it speaks in its query, or beside it.
    fn check_version(&self) -> Result<(), Failure> {
        let query = self.uri.query().unwrap_or_default();
        let mut envelope = Envelope::default();
        // Few say it there, and reading a query costs.
        if query.contains("protocolVersion") {
            envelope.protocol_version = VersionQuery::from_query(query)?.protocol_version;
        }
        open::lacks_version(&envelope, self.header(VERSION))?;
        Ok(())
    }

    async fn read(request: Request, known: Option<Caller>, share: Share) -> Result<Call, Failure> {
        let (mut head, body) = request.into_parts();
        let body = body::read(&head.headers, body, &share).await?;
        let peer = head.extensions.remove::<Peer>().unwrap_or_else(|| Peer {
            ip: IpAddr::from([0, 0, 0, 0]),
            local: SocketAddr::from(([0, 0, 0, 0], 0)),
            tls: false,
            spent: Arc::default(),
        });
        Ok(Call {
            operation: "",
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body,
            peer,
            known,
            right: None,
            share,
        })
    }

    /// Who calls; from here on somebody answers for the body, and for the signature.
    pub async fn caller(&self, app: &App, envelope: Option<&Envelope>) -> Result<Caller, Failure> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let caller = app.auth.caller(&app.hub, self.evidence(envelope)).await?;
        self.share.give_back();
        if let Some(mark) = caller.mark {
            *self.peer.spent.0.lock() = Some(mark);
        }
        if let Some(right) = self.right {
            caller.may(right)?;
        }
        Ok(caller)
    }

    /// Another call that this one amounts to, by a caller that is known; it has the same key.
    pub fn within(&self, method: Method, uri: Uri, body: Bytes, caller: Caller) -> Call {
        let key = self.headers.get(KEY);
        let headers = key.map(|key| (HeaderName::from_static(KEY), key.clone()));
        Call {
            operation: self.operation,
            method,
            uri,
            headers: headers.into_iter().collect(),
            body,
            peer: self.peer.clone(),
            known: Some(caller),
            right: None,
            share: Share::default(),
        }
    }

    /// The id in `/api/v1/<family>/<id>…`.
    pub fn id(&self) -> Result<Cow<'_, str>, Malformed> {
        let raw = self.uri.path().split('/').nth(4).unwrap_or_default();
        if !raw.contains('%') {
            return Ok(Cow::Borrowed(raw));
        }
        decode(raw)
            .map(Cow::Owned)
            .ok_or_else(|| Malformed::field("id", "is not valid percent-encoded UTF-8"))
    }

    pub fn query<Q: Query>(&self) -> Result<Q, Malformed> {
        Q::from_query(self.uri.query().unwrap_or_default())
    }

    /// Path and query, as they were sent.
    pub fn target(&self) -> &str {
        self.uri
            .path_and_query()
            .map_or(self.uri.path(), |target| target.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// What is the same each time it is asked for.
    pub fn seal<'a>(&'a self, envelope: &'a Envelope) -> Seal<'a> {
        let key = self.headers.get(KEY);
        Seal {
            place: [self.method.as_str(), self.target()],
            body: &self.body,
            envelope,
            header_key: key.map(|value| value.to_str().unwrap_or_default()),
            part: None,
            signed_part: None,
        }
    }

    pub fn evidence<'a>(&'a self, envelope: Option<&'a Envelope>) -> Evidence<'a> {
        Evidence {
            method: self.method.as_str(),
            target: self.target(),
            beside: &self.headers,
            body: &self.body,
            envelope,
        }
    }
}

impl Beside for HeaderMap {
    fn named(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(HeaderValue::as_bytes)
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn the_id_in_the_path_is_decoded() {
        for (uri, id) in [
            ("/api/v1/tasks/tsk_1/complete", Some("tsk_1")),
            ("/api/v1/tasks/%2342", Some("#42")),
            ("/api/v1/agents/a%2Fb%C3%BC/heartbeat?x=1", Some("a/bü")),
            ("/api/v1/agents/%zz", None),
            ("/api/v1/agents/%ff", None),
        ] {
            let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            let call = Call::read(request, None, Share::default()).await.unwrap();
            assert_eq!(call.id().ok().as_deref(), id, "{uri}");
        }
    }
}
