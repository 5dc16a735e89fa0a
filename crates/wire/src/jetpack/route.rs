//! What a route is: method, path, and the messages that go in and come out.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use switchboard_core::rights::Right;

use super::ErrorCode;
use crate::Parameter;

/// Makes the schema of one message.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: Method,
    /// With `{id}` where the path names something.
    pub path: &'static str,
    pub operation_id: &'static str,
    pub tag: &'static str,
    pub summary: &'static str,
    pub query: &'static [Parameter],
    pub request: RequestBody,
    pub answer: Answer,
    /// The status of a success.
    pub status: u16,
    /// What this route may refuse with, beyond what any route may.
    pub errors: &'static [ErrorCode],
    /// What its caller must be allowed to do; nothing where anybody may call.
    pub right: Option<Right>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether calls may carry an idempotency key.
    pub const fn is_mutating(self) -> bool {
        !matches!(self, Self::Get)
    }
}

/// What a route takes.
#[derive(Clone, Copy, Debug)]
pub enum RequestBody {
    None,
    /// Every member may be left out, and so may the body.
    Optional(SchemaOf),
    Required(SchemaOf),
    /// Any of the ten operations in its envelope.
    Operation,
}

/// What a route answers.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Json(SchemaOf),
    /// One or the other, depending on the request.
    Either(SchemaOf, SchemaOf),
    /// The answer of whichever operation was called.
    Operation,
    /// JSON, or server-sent events for who accepts them.
    JsonOrStream(SchemaOf),
    /// Any JSON object.
    Object,
    /// Text of this media type.
    Text(&'static str),
}

impl Route {
    pub(super) const fn new(
        method: Method,
        path: &'static str,
        operation_id: &'static str,
        summary: &'static str,
        answer: Answer,
    ) -> Self {
        let (query, errors) = (&[], &[]);
        Self {
            method,
            path,
            operation_id,
            tag: "",
            summary,
            query,
            request: RequestBody::None,
            answer,
            status: 200,
            errors,
            right: match method {
                Method::Get => Some(Right::Read),
                Method::Post | Method::Put | Method::Patch | Method::Delete => Some(Right::Act),
            },
        }
    }

    pub(super) const fn tag(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    pub(super) const fn takes(self, schema: SchemaOf) -> Self {
        Self {
            request: RequestBody::Required(schema),
            ..self
        }
    }

    pub(super) const fn may_take(self, schema: SchemaOf) -> Self {
        Self {
            request: RequestBody::Optional(schema),
            ..self
        }
    }

    pub(super) const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    pub(super) const fn creates(self) -> Self {
        Self {
            status: 201,
            ..self
        }
    }

    pub(super) const fn errors(self, errors: &'static [ErrorCode]) -> Self {
        Self { errors, ..self }
    }

    /// For whoever may do this, instead of reading or acting as an agent.
    pub(super) const fn right(self, right: Right) -> Self {
        Self {
            right: Some(right),
            ..self
        }
    }

    pub(super) const fn open(self) -> Self {
        Self {
            right: None,
            ..self
        }
    }

    /// Whether callers show who they are.
    pub fn takes_credential(&self) -> bool {
        // Below `/ansible/` most calls show what they are let in by: an invite, a token of their own.
        let is_admin = self.path.starts_with("/ansible/") && self.right.is_some();
        self.is_api() || self.path.starts_with("/runtime/") || is_admin
    }

    /// Below `/api/v1`: authenticated, limited, and with the errors that any call may get.
    pub fn is_api(&self) -> bool {
        self.path.starts_with("/api/v1/")
    }
}

/// The schema of one message, made when it is asked for.
pub(super) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
