//! Hrana over HTTP, as JSON: what libSQL's clients send to `/v2/pipeline` and `/v3/pipeline`, and what they expect.
//!
//! A pipeline is a list of requests on one stream. A stream that goes on between two pipelines is named by a baton.
//! What SQL means, what is allowed and how much of it is `switchboard_store::sqlite::door`'s business.

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
