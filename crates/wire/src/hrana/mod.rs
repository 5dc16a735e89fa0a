//! Hrana over HTTP, as JSON: what libSQL's clients send to `/v2/pipeline` and `/v3/pipeline`, and what they expect.
//!
//! A pipeline is a list of requests on one stream. A stream that goes on between two pipelines is named by a baton.
//! What SQL means, what is allowed and how much of it is `switchboard_store::sqlite::door`'s business.

use serde::Deserialize;

use crate::Malformed;

mod base64;
mod cursor;
mod request;
mod response;
mod value;

pub use cursor::{CursorEntry, CursorHead, CursorRequest};
pub use request::{Batch, Condition, NamedArg, PipelineRequest, Step, Stmt, StreamRequest};
pub use response::{
    BatchResult, Column, DescribeResult, Described, Error, Parameter, PipelineResponse, Refused,
    StmtResult, StreamResponse, StreamResult,
};
pub use value::Value;

/// Reads one request. The derived readers would also take the number of a `type` for its name.
pub fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Malformed> {
    const TYPE: &[u8] = b"\"type\"";
    for at in 0..bytes.len().saturating_sub(TYPE.len()) {
        let (before, rest) = bytes.split_at(at);
        let Some(rest) = rest.strip_prefix(TYPE) else {
            continue;
        };
        let value = rest.trim_ascii_start().strip_prefix(b":");
        let value = value.and_then(|value| value.trim_ascii_start().first());
        if before.last() != Some(&b'\\') && value.is_some_and(u8::is_ascii_digit) {
            return Err(Malformed::field("type", "expected a string"));
        }
    }
    crate::parse(bytes)
}
