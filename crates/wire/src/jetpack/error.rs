//! Errors: one shape everywhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use switchboard_core::Refusal;
use switchboard_core::job::refusal::JobRefusal;
use switchboard_core::node::PROTOCOL_VERSION;
use switchboard_core::refusal::{Denied, NotAdmitted};

use super::SUPPORTED_VERSIONS;
use crate::Malformed;
use crate::runtime::GateRecord;
use crate::words::words;

words! {
    /// Stable codes for programs.
    pub enum ErrorCode {
        InvalidOperation = "invalid_operation",
        Unauthenticated = "unauthenticated",
        NotYou = "not_you",
        LeaseNotYours = "lease_not_yours",
        InvalidInvite = "invalid_invite",
        ExpiredInvite = "expired_invite",
        NodeProofInvalid = "node_proof_invalid",
        InvalidAccessToken = "invalid_access_token",
        ExpiredAccessToken = "expired_access_token",
        InvalidRefreshToken = "invalid_refresh_token",
        InvalidProof = "invalid_proof",
        ScopeDenied = "scope_denied",
        NodeMismatch = "node_mismatch",
        NoRoute = "no_route",
        EventExists = "event_exists",
        VersionExists = "version_exists",
        WrongNode = "wrong_node",
        PublishFailed = "publish_failed",
        EpochMismatch = "epoch_mismatch",
        CursorExpired = "cursor_expired",
        Forbidden = "forbidden",
        TaskNotFound = "task_not_found",
        AgentNotRegistered = "agent_not_registered",
        RecipientNotFound = "recipient_not_found",
        MessageNotFound = "message_not_found",
        LeaseNotFound = "lease_not_found",
        NotFound = "not_found",
        MethodNotAllowed = "method_not_allowed",
        TooLarge = "too_large",
        HeadersTooLarge = "headers_too_large",
        TaskAlreadyClaimed = "task_already_claimed",
        AgentAlreadyRegistered = "agent_already_registered",
        TaskAlreadyExists = "task_already_exists",
        MessageAlreadyExists = "message_already_exists",
        IdempotencyKeyReused = "idempotency_key_reused",
        InviteUsed = "invite_used",
        ReplayDetected = "replay_detected",
        JoinFailed = "join_failed",
        WrongHost = "wrong_host",
        RateLimited = "rate_limited",
        DbUnavailable = "db_unavailable",
        Overloaded = "overloaded",
    }
}

impl ErrorCode {
    /// The HTTP status that goes with it.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidOperation | Self::NoRoute | Self::WrongNode => 400,
            Self::Unauthenticated
            | Self::InvalidInvite
            | Self::ExpiredInvite
            | Self::NodeProofInvalid
            | Self::InvalidAccessToken
            | Self::ExpiredAccessToken
            | Self::InvalidRefreshToken
            | Self::InvalidProof => 401,
            Self::NotYou
            | Self::LeaseNotYours
            | Self::Forbidden
            | Self::NodeMismatch
            | Self::ScopeDenied => 403,
            Self::TaskNotFound
            | Self::AgentNotRegistered
            | Self::RecipientNotFound
            | Self::MessageNotFound
            | Self::LeaseNotFound
            | Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::TooLarge => 413,
            Self::HeadersTooLarge => 431,
            Self::TaskAlreadyClaimed
            | Self::AgentAlreadyRegistered
            | Self::TaskAlreadyExists
            | Self::MessageAlreadyExists
            | Self::IdempotencyKeyReused
            | Self::InviteUsed
            | Self::ReplayDetected
            | Self::JoinFailed
            | Self::EventExists
            | Self::VersionExists
            | Self::PublishFailed
            | Self::EpochMismatch => 409,
            Self::CursorExpired => 410,
            Self::WrongHost => 421,
            Self::RateLimited => 429,
            Self::DbUnavailable | Self::Overloaded => 503,
        }
    }
}

/// The body of every refusal and failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    pub success: bool,
    pub error: ErrorCode,
    /// For a person.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The supported protocol versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported: Option<Vec<String>>,
    /// Where an outbox begins, for who asked for what came before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_seq: Option<u64>,
    /// Where to ask instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What each gate said of a version that was not published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateRecord>,
}

impl ErrorBody {
    /// With code and message only.
    pub fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            success: false,
            error,
            message: message.into(),
            field: None,
            reason: None,
            supported: None,
            oldest_seq: None,
            endpoint: None,
            gates: Vec::new(),
        }
    }

    /// For a version that is not spoken here.
    pub fn unsupported_version(version: &str) -> Self {
        let shown: String = version.chars().take(32).collect();
        Self {
            field: Some("protocolVersion".to_owned()),
            supported: Some(
                SUPPORTED_VERSIONS
                    .iter()
                    .map(|version| (*version).to_owned())
                    .collect(),
            ),
            ..Self::new(
                ErrorCode::InvalidOperation,
                format!("protocol version {shown:?} is not supported"),
            )
        }
    }

    /// The HTTP status that goes with it.
    pub fn status(&self) -> u16 {
        self.error.status()
    }
}

/// A field as the protocol spells it.
fn camel(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |spelled, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        spelled + &initial.to_ascii_uppercase() + rest
    })
}

impl From<Malformed> for ErrorBody {
    fn from(malformed: Malformed) -> Self {
        let message = malformed.to_string();
        Self {
            field: malformed.field,
            ..Self::new(ErrorCode::InvalidOperation, message)
        }
    }
}

impl From<&Refusal> for ErrorBody {
    /// The one place where the rules' refusals become the protocol's errors.
    fn from(refusal: &Refusal) -> Self {
        let mut body = Self::new(code(refusal), refusal.to_string());
        match refusal {
            Refusal::TaskNotYours { why, .. } => body.reason = Some(why.word().to_owned()),
            Refusal::UnknownDependency { .. } | Refusal::DependencyCycle { .. } => {
                body.field = Some("dependencies".to_owned());
            }
            Refusal::RecipientNotFound { .. } => body.field = Some("message.to".to_owned()),
            Refusal::SnapshotNotFound { .. } => body.field = Some("fromTask".to_owned()),
            Refusal::StaleFencingToken { .. } => {
                body.field = Some("fencingToken".to_owned());
                body.reason = Some("stale_fencing_token".to_owned());
            }
            Refusal::WrongState { status, .. } => body.reason = Some(format!("task_is_{status}")),
            Refusal::TooMany { .. } => body.reason = Some("limit_reached".to_owned()),
            Refusal::NotAdmitted(NotAdmitted::OtherProtocol(_)) => {
                body.field = Some("protocolVersion".to_owned());
                body.supported = Some(vec![PROTOCOL_VERSION.to_owned()]);
            }
            Refusal::Job { why, .. } => body.reason = Some(why.word().to_owned()),
            Refusal::NoRoute(why) => body.reason = Some(why.to_string()),
            Refusal::EventAlreadyExists { .. } => body.field = Some("eventId".to_owned()),
            Refusal::VersionExists { .. } => body.field = Some("version".to_owned()),
            Refusal::WrongNode { endpoint, .. } => body.endpoint.clone_from(endpoint),
            Refusal::Invalid { field, .. } => body.field = Some(camel(field)),
            Refusal::AgentNotRegistered { .. }
            | Refusal::AgentAlreadyRegistered { .. }
            | Refusal::TaskNotFound { .. }
            | Refusal::TaskAlreadyExists { .. }
            | Refusal::MessageNotFound { .. }
            | Refusal::MessageAlreadyExists { .. }
            | Refusal::NotARecipient { .. }
            | Refusal::OwnerBinding { .. }
            | Refusal::LeaseNotYours { .. }
            | Refusal::LeaseNotFound { .. }
            | Refusal::KeyReused
            | Refusal::Replayed
            | Refusal::TokenNotFound
            | Refusal::IncidentNotFound { .. }
            | Refusal::ClaimNotFound { .. }
            | Refusal::NodeNotFound { .. }
            | Refusal::DeadLetterNotFound { .. }
            | Refusal::NotAdmitted(_)
            | Refusal::Denied(_)
            | Refusal::CapabilityNotFound { .. }
            | Refusal::ReviewNotFound { .. }
            | Refusal::Unjudged { .. }
            | Refusal::DutyLost { .. } => {}
        }
        body
    }
}

fn code(refusal: &Refusal) -> ErrorCode {
    match refusal {
        Refusal::AgentNotRegistered { .. } => ErrorCode::AgentNotRegistered,
        Refusal::AgentAlreadyRegistered { .. } => ErrorCode::AgentAlreadyRegistered,
        Refusal::TaskNotFound { .. } => ErrorCode::TaskNotFound,
        Refusal::TaskAlreadyExists { .. } => ErrorCode::TaskAlreadyExists,
        Refusal::TaskNotYours { .. } => ErrorCode::TaskAlreadyClaimed,
        Refusal::RecipientNotFound { .. } => ErrorCode::RecipientNotFound,
        Refusal::MessageNotFound { .. } => ErrorCode::MessageNotFound,
        Refusal::MessageAlreadyExists { .. } => ErrorCode::MessageAlreadyExists,
        Refusal::NotARecipient { .. } | Refusal::OwnerBinding { .. } => ErrorCode::NotYou,
        Refusal::LeaseNotYours { .. } | Refusal::StaleFencingToken { .. } => {
            ErrorCode::LeaseNotYours
        }
        Refusal::LeaseNotFound { .. } => ErrorCode::LeaseNotFound,
        Refusal::KeyReused => ErrorCode::IdempotencyKeyReused,
        Refusal::Replayed => ErrorCode::Unauthenticated,
        Refusal::TokenNotFound
        | Refusal::SnapshotNotFound { .. }
        | Refusal::IncidentNotFound { .. }
        | Refusal::ClaimNotFound { .. }
        | Refusal::CapabilityNotFound { .. }
        | Refusal::ReviewNotFound { .. }
        | Refusal::NodeNotFound { .. }
        | Refusal::DeadLetterNotFound { .. } => ErrorCode::NotFound,
        Refusal::VersionExists { .. } => ErrorCode::VersionExists,
        Refusal::WrongNode { .. } => ErrorCode::WrongNode,
        Refusal::Unjudged { .. } => ErrorCode::Overloaded,
        Refusal::NoRoute(_) => ErrorCode::NoRoute,
        Refusal::EventAlreadyExists { .. } => ErrorCode::EventExists,
        Refusal::Job { why, .. } => match why {
            JobRefusal::NotFound | JobRefusal::CheckpointNotFound { .. } => ErrorCode::NotFound,
            JobRefusal::Exists
            | JobRefusal::DirectoryTaken
            | JobRefusal::State { .. }
            | JobRefusal::NotThisRun { .. }
            | JobRefusal::IsQueued(_)
            | JobRefusal::LimitReached(_)
            | JobRefusal::PhaseNotFound { .. }
            | JobRefusal::NothingToCorrect => ErrorCode::InvalidOperation,
        },
        Refusal::NotAdmitted(why) => match why {
            NotAdmitted::UnknownInvite => ErrorCode::InvalidInvite,
            NotAdmitted::ExpiredInvite(_) => ErrorCode::ExpiredInvite,
            NotAdmitted::UsedInvite(_) => ErrorCode::InviteUsed,
            NotAdmitted::OtherProtocol(_) => ErrorCode::InvalidOperation,
            NotAdmitted::Mismatch(_) => ErrorCode::NodeMismatch,
            NotAdmitted::Unproven(_) => ErrorCode::NodeProofInvalid,
            NotAdmitted::Replayed => ErrorCode::ReplayDetected,
        },
        Refusal::Denied(why) => match why {
            Denied::UnknownInvite => ErrorCode::InvalidInvite,
            Denied::ExpiredInvite(_) => ErrorCode::ExpiredInvite,
            Denied::UsedInvite => ErrorCode::InviteUsed,
            Denied::Replayed => ErrorCode::ReplayDetected,
            Denied::AccessToken => ErrorCode::InvalidAccessToken,
            Denied::ExpiredAccess(_) => ErrorCode::ExpiredAccessToken,
            Denied::RefreshToken => ErrorCode::InvalidRefreshToken,
            Denied::Proof(_) => ErrorCode::InvalidProof,
            Denied::Scope(_) => ErrorCode::ScopeDenied,
            Denied::OtherNode => ErrorCode::NodeMismatch,
        },
        Refusal::WrongState { .. }
        | Refusal::UnknownDependency { .. }
        | Refusal::DependencyCycle { .. }
        | Refusal::TooMany { .. }
        | Refusal::DutyLost { .. }
        | Refusal::Invalid { .. } => ErrorCode::InvalidOperation,
    }
}
