//! What can go wrong on the way to a call, beside the call itself.

use axum::response::Response;
use switchboard_core::limits;
use switchboard_wire::jetpack::{ErrorBody, ErrorCode};

use super::reply::Reply;
use crate::call::{self, RETRY_AFTER};

/// Why a request was not answered as it wished.
#[derive(Debug)]
pub enum Failure {
    Call(call::Failure),
    HeadersTooLarge,
    /// The body did not arrive in time, or broke off.
    BodyCut,
    NoSuchPath,
    MethodNotAllowed,
    WrongHost(String),
    TooManyStreams,
    /// Bodies of callers that are not yet known take all the room they may.
    NoRoom,
    /// The caller itself has them open.
    TooManyOfYours,
}

impl Failure {
    /// Status, body, and when to try again.
    pub fn answer(&self) -> (ErrorBody, Option<u64>) {
        use ErrorCode as Code;
        let plain = |code, message: &str| (ErrorBody::new(code, message), None);
        match self {
            Failure::Call(failure) => failure.answer(),
            Failure::HeadersTooLarge => {
                plain(Code::HeadersTooLarge, "the headers may have at most 32 KiB")
            }
            Failure::BodyCut => plain(
                Code::InvalidOperation,
                "the body is incomplete or did not arrive in time",
            ),
            Failure::NoSuchPath => plain(
                Code::NotFound,
                "there is nothing at this path; see /openapi.json",
            ),
            Failure::MethodNotAllowed => plain(
                Code::MethodNotAllowed,
                "this path does not support this method; see /openapi.json",
            ),
            Failure::WrongHost(message) => plain(Code::WrongHost, message),
            Failure::TooManyStreams => {
                let message =
                    "too many event streams are open; close one, or read pages with ?after=";
                (ErrorBody::new(Code::Overloaded, message), Some(RETRY_AFTER))
            }
            Failure::NoRoom => {
                let message = "too many large bodies of unauthenticated callers are being read; retry later, or send a token in Authorization: Bearer";
                (ErrorBody::new(Code::Overloaded, message), Some(RETRY_AFTER))
            }
            Failure::TooManyOfYours => {
                let max = limits::EVENT_STREAMS_PER_CALLER_MAX;
                let message = format!(
                    "you have {max} event streams open, the maximum per caller; close one, or read pages with ?after="
                );
                (
                    ErrorBody::new(Code::RateLimited, message),
                    Some(RETRY_AFTER),
                )
            }
        }
    }

    /// The connection is of no more use: what follows is not read.
    fn ends_connection(&self) -> bool {
        matches!(self, Failure::HeadersTooLarge)
    }

    pub fn into_reply(self) -> Reply {
        let (body, retry_after) = self.answer();
        let mut reply = Reply::json(body.status(), &body);
        reply.retry_after = retry_after;
        reply.closes = self.ends_connection();
        reply
    }

    pub fn into_response(self) -> Response {
        self.into_reply().into_response()
    }
}

impl<E: Into<call::Failure>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Call(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_status_and_code() {
        let cases = [
            (call::Failure::TooLarge.into(), 413, "too_large", None),
            (Failure::HeadersTooLarge, 431, "headers_too_large", None),
            (Failure::BodyCut, 400, "invalid_operation", None),
            (Failure::NoSuchPath, 404, "not_found", None),
            (Failure::MethodNotAllowed, 405, "method_not_allowed", None),
            (Failure::WrongHost("x".into()), 421, "wrong_host", None),
            (Failure::TooManyStreams, 503, "overloaded", Some(1)),
            (Failure::NoRoom, 503, "overloaded", Some(1)),
            (Failure::TooManyOfYours, 429, "rate_limited", Some(1)),
        ];
        for (failure, status, code, retry_after) in cases {
            let (body, told) = failure.answer();
            assert_eq!(
                (body.status(), body.error.as_str(), told),
                (status, code, retry_after),
                "{failure:?}"
            );
            assert!(!body.success && !body.message.is_empty());
        }
    }
}
