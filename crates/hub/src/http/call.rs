//! One call as it came in: its head, its whole body, and who is at the other end.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Uri, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use switchboard_core::limits;
use switchboard_wire::jetpack::Envelope;
use switchboard_wire::{Malformed, Query};

use super::error::Failure;
use crate::auth::Evidence;

/// A body that takes longer than this is given up.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Whom the call is from, past proxies that are trusted.
    pub ip: IpAddr,
}

pub struct Call {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub peer: Peer,
}

impl Call {
    pub async fn read(request: Request) -> Result<Call, Failure> {
        let (head, body) = request.into_parts();
        let body = read_body(&head.headers, body).await?;
        let nobody = Peer {
            ip: IpAddr::from([0, 0, 0, 0]),
        };
        let peer = head.extensions.get::<Peer>().copied().unwrap_or(nobody);
        Ok(Call {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body,
            peer,
        })
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

    pub fn evidence<'a>(&'a self, envelope: Option<&'a Envelope>) -> Evidence<'a> {
        Evidence {
            method: self.method.as_str(),
            target: self.target(),
            headers: &self.headers,
            body: &self.body,
            envelope,
        }
    }
}

/// The whole body; one that says it is too large is refused before it is read.
async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Failure> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let told = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|bytes| bytes > limits::BODY_BYTES_MAX as u64) {
        return Err(Failure::BodyTooLarge);
    }
    match tokio::time::timeout(BODY_WITHIN, collect(body)).await {
        Ok(read) => read,
        Err(_) => Err(Failure::BodyCut),
    }
}

async fn collect(mut body: Body) -> Result<Bytes, Failure> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Failure::BodyCut)?.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.len() > limits::BODY_BYTES_MAX {
            return Err(Failure::BodyTooLarge);
        }
        // Nearly every body comes in one piece and need not be copied.
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
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
    use super::*;

    async fn read(request: axum::http::request::Builder, body: Body) -> Result<Call, Failure> {
        Call::read(request.body(body).unwrap()).await
    }

    fn at(uri: &str) -> axum::http::request::Builder {
        axum::http::Request::builder().uri(uri)
    }

    #[tokio::test]
    async fn a_body_of_the_limit_is_read_and_one_byte_more_is_not() {
        for (bytes, fits) in [
            (limits::BODY_BYTES_MAX - 1, true),
            (limits::BODY_BYTES_MAX, true),
            (limits::BODY_BYTES_MAX + 1, false),
        ] {
            let body = vec![b' '; bytes];
            // In one piece, announced; and in pieces that nobody announced.
            let announced = at("/x").header(header::CONTENT_LENGTH, bytes);
            assert_eq!(
                read(announced, Body::from(body.clone())).await.is_ok(),
                fits,
                "{bytes}"
            );
            let pieces: Vec<Result<Bytes, std::io::Error>> = body
                .chunks(100_000)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            let stream = Body::from_stream(futures_util::stream::iter(pieces));
            let call = read(at("/x"), stream).await;
            assert_eq!(
                call.as_ref().map(|call| call.body.len()).ok(),
                fits.then_some(bytes),
                "{bytes}"
            );
        }
    }

    #[tokio::test]
    async fn an_announced_body_is_refused_before_it_is_read() {
        let unread = Body::from_stream(futures_util::stream::poll_fn(
            |_| -> std::task::Poll<Option<std::io::Result<Bytes>>> {
                panic!("the body was read");
            },
        ));
        let announced = at("/x").header(header::CONTENT_LENGTH, limits::BODY_BYTES_MAX + 1);
        assert!(matches!(
            read(announced, unread).await,
            Err(Failure::BodyTooLarge)
        ));
    }

    #[tokio::test]
    async fn the_id_in_the_path_is_decoded() {
        for (uri, id) in [
            ("/api/v1/tasks/tsk_1/complete", Some("tsk_1")),
            ("/api/v1/tasks/%2342", Some("#42")),
            ("/api/v1/agents/a%2Fb%C3%BC/heartbeat?x=1", Some("a/bü")),
            ("/api/v1/agents/%zz", None),
            ("/api/v1/agents/%ff", None),
        ] {
            let call = read(at(uri), Body::empty()).await.unwrap();
            assert_eq!(call.id().ok().as_deref(), id, "{uri}");
        }
    }
}
