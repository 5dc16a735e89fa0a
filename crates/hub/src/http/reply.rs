//! What a call is answered: a status and JSON, written once.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

use crate::call::{Answer, to_json};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");
const NO_VERSION: HeaderValue =
    HeaderValue::from_static("299 - \"protocolVersion is missing; 1.0 is assumed\"");

/// An answer that is still to be put into a response, or into its place in a batch.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
    /// The answer of the first time.
    pub replayed: bool,
    /// The call did not say which version it speaks.
    pub versionless: bool,
    pub retry_after: Option<u64>,
    pub closes: bool,
}

impl Reply {
    pub fn json<T: Serialize + ?Sized>(status: u16, message: &T) -> Self {
        Self::bytes(status, to_json(message))
    }

    pub fn ok<T: Serialize + ?Sized>(message: &T) -> Self {
        Self::json(200, message)
    }

    pub fn bytes(status: u16, body: impl Into<Bytes>) -> Self {
        Reply {
            status,
            body: body.into(),
            replayed: false,
            versionless: false,
            retry_after: None,
            closes: false,
        }
    }

    pub fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON);
        if self.replayed {
            headers.insert(REPLAY, HeaderValue::from_static("true"));
        }
        if self.versionless {
            headers.insert(header::WARNING, NO_VERSION);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        let mut reply = Reply::bytes(200, answer.body);
        reply.replayed = answer.replayed;
        reply
    }
}

/// 429 and 503 say so: a signature that was answered like that is not used up.
pub fn may_come_again(status: u16) -> bool {
    matches!(status, 429 | 503)
}
