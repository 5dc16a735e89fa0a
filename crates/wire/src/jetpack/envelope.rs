//! What goes around any operation: version, name, request id, signature; and batches of operations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{
    AcquireLeaseRequest, ClaimRequest, CompleteRequest, FailRequest, HeartbeatRequest, Operation,
    ProgressRequest, ReceiveMessagesRequest, RegisterRequest, ReleaseLeaseRequest,
    SendMessageRequest,
};
use crate::query::query;
use crate::{Json, Malformed, parse};

/// The protocol versions that are spoken here.
pub const SUPPORTED_VERSIONS: &[&str] = &["1.0"];

/// The members that any request body may have in addition to its own.
///
/// It is read from the same bytes as the request itself, so that no message pays for buffering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// An idempotency key: the same key with the same body returns the same response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// When it was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

query! {
    /// Any `GET` below `/api/v1`.
    pub struct VersionQuery {
        "protocolVersion" => protocol_version: Option<String>, "The protocol version, if it is not in a header.";
    }
}

/// How a request stands to the versions spoken here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    Supported,
    /// Accepted, with a warning.
    Missing,
    Unsupported(String),
}

impl Envelope {
    /// Of an operation, ready to be sealed around its request.
    pub fn of(operation: Operation) -> Self {
        Self {
            protocol_version: Some(SUPPORTED_VERSIONS[0].to_owned()),
            operation: Some(operation),
            ..Self::default()
        }
    }

    /// Judges the version in the body and the one in the header.
    pub fn version(&self, header: Option<&str>) -> Version {
        let said = [self.protocol_version.as_deref(), header];
        let mut said = said.into_iter().flatten().peekable();
        match (
            said.peek().is_some(),
            said.find(|it| !SUPPORTED_VERSIONS.contains(it)),
        ) {
            (_, Some(foreign)) => Version::Unsupported(foreign.to_owned()),
            (true, None) => Version::Supported,
            (false, None) => Version::Missing,
        }
    }

    /// A body on the path of one operation may repeat its name, and may not name another.
    pub fn expect(&self, operation: Operation) -> Result<(), Malformed> {
        match self.operation {
            Some(named) if named != operation => Err(Malformed::field(
                "operation",
                format!("is {named}, but this is the path of {operation}"),
            )),
            _ => Ok(()),
        }
    }

    /// The same for a body that may be signed: such a signature covers no path, so the body has to say itself what it
    /// asks for, the operation and the `member` that the path names too.
    pub fn expect_covered(
        &self,
        operation: Operation,
        member: Option<(&str, Option<&str>)>,
    ) -> Result<(), Malformed> {
        self.expect(operation)?;
        if self.signature.is_none() {
            return Ok(());
        }
        let needed = |field: &str| Malformed::field(field, "must be in a signed body");
        if self.operation.is_none() {
            return Err(needed("operation"));
        }
        match member {
            Some((field, None)) => Err(needed(field)),
            Some((_, Some(_))) | None => Ok(()),
        }
    }

    /// Puts the envelope's members and the request's into one object.
    pub fn seal<T: Serialize>(&self, request: &T) -> Result<Value, serde_json::Error> {
        let mut sealed = serde_json::to_value(self)?;
        if let (Value::Object(all), Value::Object(own)) =
            (&mut sealed, serde_json::to_value(request)?)
        {
            all.extend(own);
        }
        Ok(sealed)
    }
}

/// Any of the ten operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Register(RegisterRequest),
    Heartbeat(HeartbeatRequest),
    Claim(ClaimRequest),
    Progress(ProgressRequest),
    Complete(CompleteRequest),
    Fail(FailRequest),
    SendMessage(SendMessageRequest),
    ReceiveMessages(ReceiveMessagesRequest),
    AcquireLease(AcquireLeaseRequest),
    ReleaseLease(ReleaseLeaseRequest),
}

impl Request {
    /// Reads the request of a known operation.
    pub fn parse(operation: Operation, bytes: &[u8]) -> Result<Self, Malformed> {
        match operation {
            Operation::Register => parse(bytes).map(Self::Register),
            Operation::Heartbeat => parse(bytes).map(Self::Heartbeat),
            Operation::Claim => parse(bytes).map(Self::Claim),
            Operation::Progress => parse(bytes).map(Self::Progress),
            Operation::Complete => parse(bytes).map(Self::Complete),
            Operation::Fail => parse(bytes).map(Self::Fail),
            Operation::SendMessage => parse(bytes).map(Self::SendMessage),
            Operation::ReceiveMessages => parse(bytes).map(Self::ReceiveMessages),
            Operation::AcquireLease => parse(bytes).map(Self::AcquireLease),
            Operation::ReleaseLease => parse(bytes).map(Self::ReleaseLease),
        }
    }

    /// Reads an envelope that has to name its operation, and the request in it.
    pub fn parse_envelope(bytes: &[u8]) -> Result<(Envelope, Self), Malformed> {
        let envelope: Envelope = parse(bytes)?;
        let operation = envelope
            .operation
            .ok_or_else(|| Malformed::missing("operation"))?;
        Ok((envelope, Self::parse(operation, bytes)?))
    }

    /// The member that the operation's own path names, and what the body says of it.
    pub fn path_member(&self) -> Option<(&'static str, Option<&str>)> {
        match self {
            Self::Heartbeat(request) => Some(("agentId", request.agent_id.as_deref())),
            Self::Progress(request) => Some(("taskId", request.task_id.as_deref())),
            Self::Complete(request) => Some(("taskId", request.task_id.as_deref())),
            Self::Fail(request) => Some(("taskId", request.task_id.as_deref())),
            Self::Register(_)
            | Self::Claim(_)
            | Self::SendMessage(_)
            | Self::ReceiveMessages(_)
            | Self::AcquireLease(_)
            | Self::ReleaseLease(_) => None,
        }
    }

    /// Which one it is.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Register(_) => Operation::Register,
            Self::Heartbeat(_) => Operation::Heartbeat,
            Self::Claim(_) => Operation::Claim,
            Self::Progress(_) => Operation::Progress,
            Self::Complete(_) => Operation::Complete,
            Self::Fail(_) => Operation::Fail,
            Self::SendMessage(_) => Operation::SendMessage,
            Self::ReceiveMessages(_) => Operation::ReceiveMessages,
            Self::AcquireLease(_) => Operation::AcquireLease,
            Self::ReleaseLease(_) => Operation::ReleaseLease,
        }
    }
}

impl Serialize for Request {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Register(request) => request.serialize(serializer),
            Self::Heartbeat(request) => request.serialize(serializer),
            Self::Claim(request) => request.serialize(serializer),
            Self::Progress(request) => request.serialize(serializer),
            Self::Complete(request) => request.serialize(serializer),
            Self::Fail(request) => request.serialize(serializer),
            Self::SendMessage(request) => request.serialize(serializer),
            Self::ReceiveMessages(request) => request.serialize(serializer),
            Self::AcquireLease(request) => request.serialize(serializer),
            Self::ReleaseLease(request) => request.serialize(serializer),
        }
    }
}

/// `POST /batch` as the hub reads it: each operation stays text until its turn comes.
#[derive(Debug, Deserialize)]
pub struct IncomingBatch<'a> {
    #[serde(borrow)]
    pub operations: Vec<&'a RawValue>,
}

/// `POST /batch`: independent operations, run in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchRequest {
    /// Envelopes, each with its request.
    pub operations: Vec<Json>,
}

/// The responses, in the order of the operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchResponse {
    pub success: bool,
    pub results: Vec<BatchResult>,
}

/// The response that this operation would have had on its own path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchResult {
    pub status: u16,
    pub body: Json,
}
