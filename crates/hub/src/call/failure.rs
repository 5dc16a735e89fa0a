//! The one place where everything that can go wrong becomes an answer.

use switchboard_core::AgentId;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::{ErrorBody, ErrorCode};
use switchboard_wire::runtime::GateRecord;

use super::rate::TooFast;
use crate::hub;

/// Why a call was not answered as it wished.
#[derive(Debug)]
pub enum Failure {
    Hub(hub::Error),
    Malformed(Malformed),
    UnsupportedVersion(String),
    Unauthenticated(String),
    NotYou {
        caller: AgentId,
        agent: AgentId,
    },
    Forbidden(&'static str),
    TooFast(TooFast),
    TooLarge,
    /// For an external agent.
    TooLargeFromOutside,
    /// The outbox is another one than the caller has read.
    EpochMismatch,
    /// The outbox begins here; what the caller asks for is gone.
    CursorExpired {
        oldest: u64,
    },
    /// A version of a capability did not pass a gate.
    Rejected {
        gate: String,
        message: String,
        gates: Vec<GateRecord>,
    },
    /// Another node was not joined.
    JoinFailed {
        reason: String,
        message: String,
    },
}

/// When to come back after a failure of ours, in seconds.
pub const RETRY_AFTER: u64 = 1;

impl Failure {
    /// Status, body, and when to try again.
    pub fn answer(&self) -> (ErrorBody, Option<u64>) {
        use ErrorCode as Code;
        let plain = |code, message: &str| (ErrorBody::new(code, message), None);
        match self {
            Failure::Hub(error) => hub_answer(error),
            Failure::Malformed(malformed) => (malformed.clone().into(), None),
            Failure::UnsupportedVersion(version) => (ErrorBody::unsupported_version(version), None),
            Failure::Unauthenticated(message) => plain(Code::Unauthenticated, message),
            Failure::NotYou { caller, agent } => plain(
                Code::NotYou,
                &format!(
                    "{caller} signed this, but it acts as {agent}; an agent may act only as itself"
                ),
            ),
            Failure::Forbidden(message) => plain(Code::Forbidden, message),
            Failure::TooFast(too_fast) => {
                let seconds = too_fast.seconds();
                let limit = too_fast.limit;
                let message = format!("rate limit exceeded: {limit}; retry in {seconds} s");
                (ErrorBody::new(Code::RateLimited, message), Some(seconds))
            }
            Failure::TooLarge => plain(Code::TooLarge, "a body may have at most 1 MiB"),
            Failure::TooLargeFromOutside => plain(
                Code::TooLarge,
                "a body of an external agent may have at most 256 KiB",
            ),
            Failure::EpochMismatch => plain(
                Code::EpochMismatch,
                "this outbox is another one than was read, as after a restore; reset the cursor",
            ),
            Failure::CursorExpired { oldest } => {
                let message = format!("this outbox begins at {oldest}; what came before is gone");
                let body = ErrorBody::new(Code::CursorExpired, message);
                let oldest_seq = Some(*oldest);
                (ErrorBody { oldest_seq, ..body }, None)
            }
            Failure::Rejected {
                gate,
                message,
                gates,
            } => {
                let body = ErrorBody::new(Code::PublishFailed, message);
                let (reason, gates) = (Some(gate.clone()), gates.clone());
                (
                    ErrorBody {
                        reason,
                        gates,
                        ..body
                    },
                    None,
                )
            }
            Failure::JoinFailed { reason, message } => {
                let body = ErrorBody::new(Code::JoinFailed, message);
                let reason = Some(reason.clone());
                (ErrorBody { reason, ..body }, None)
            }
        }
    }
}

fn hub_answer(error: &hub::Error) -> (ErrorBody, Option<u64>) {
    let later = |code, message: String| (ErrorBody::new(code, message), Some(RETRY_AFTER));
    match error {
        hub::Error::Refused(refusal) => (refusal.into(), None),
        hub::Error::Unavailable(_) => later(ErrorCode::DbUnavailable, error.to_string()),
        hub::Error::InDoubt(why) => later(
            ErrorCode::DbUnavailable,
            format!(
                "the ledger became unavailable during the commit ({why}): the outcome is unknown; check before you retry, or retry with the same Idempotency-Key, which is always safe"
            ),
        ),
        hub::Error::Overloaded => later(
            ErrorCode::Overloaded,
            "the hub is overloaded; retry later".to_owned(),
        ),
        hub::Error::Broken => later(ErrorCode::DbUnavailable, error.to_string()),
        hub::Error::BadCursor => (
            Malformed::field("after", "must be the next of the previous page").into(),
            None,
        ),
        hub::Error::Stopping => later(
            ErrorCode::DbUnavailable,
            "the hub is stopping; retry later".to_owned(),
        ),
    }
}

impl From<hub::Error> for Failure {
    fn from(error: hub::Error) -> Self {
        Failure::Hub(error)
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Failure::Malformed(malformed)
    }
}

impl From<TooFast> for Failure {
    fn from(too_fast: TooFast) -> Self {
        Failure::TooFast(too_fast)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use switchboard_core::Refusal;

    use super::*;
    use crate::call::rate::Limit;

    #[test]
    fn every_failure_has_its_status_and_code() {
        let too_fast = TooFast {
            retry_after: Duration::from_millis(1001),
            limit: Limit {
                per_minute: 60,
                what: "claims of an agent",
                setting: "claim_per_minute",
            },
        };
        let cases = [
            (
                Failure::Hub(hub::Error::Refused(Refusal::KeyReused)),
                409,
                "idempotency_key_reused",
                None,
            ),
            (
                Failure::Hub(hub::Error::Refused(Refusal::Replayed)),
                401,
                "unauthenticated",
                None,
            ),
            (
                Failure::Hub(hub::Error::Unavailable("x".into())),
                503,
                "db_unavailable",
                Some(1),
            ),
            (
                Failure::Hub(hub::Error::InDoubt("x".into())),
                503,
                "db_unavailable",
                Some(1),
            ),
            (
                Failure::Hub(hub::Error::Overloaded),
                503,
                "overloaded",
                Some(1),
            ),
            (
                Failure::Hub(hub::Error::Stopping),
                503,
                "db_unavailable",
                Some(1),
            ),
            (
                Failure::Hub(hub::Error::Broken),
                503,
                "db_unavailable",
                Some(1),
            ),
            (
                Failure::Hub(hub::Error::BadCursor),
                400,
                "invalid_operation",
                None,
            ),
            (
                Failure::Malformed(Malformed::missing("agentId")),
                400,
                "invalid_operation",
                None,
            ),
            (
                Failure::UnsupportedVersion("2.0".into()),
                400,
                "invalid_operation",
                None,
            ),
            (
                Failure::Unauthenticated("x".into()),
                401,
                "unauthenticated",
                None,
            ),
            (
                Failure::NotYou {
                    caller: "a".into(),
                    agent: "b".into(),
                },
                403,
                "not_you",
                None,
            ),
            (Failure::Forbidden("x"), 403, "forbidden", None),
            (Failure::TooFast(too_fast), 429, "rate_limited", Some(2)),
            (Failure::TooLarge, 413, "too_large", None),
            (Failure::TooLargeFromOutside, 413, "too_large", None),
            (
                Failure::Rejected {
                    gate: "smoke".into(),
                    message: "x".into(),
                    gates: Vec::new(),
                },
                409,
                "publish_failed",
                None,
            ),
            (
                Failure::JoinFailed {
                    reason: "unreachable".into(),
                    message: "x".into(),
                },
                409,
                "join_failed",
                None,
            ),
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
        assert_eq!(
            Failure::TooFast(too_fast).answer().0.message,
            "rate limit exceeded: at most 60 claims of an agent a minute (limits.claim_per_minute); retry in 2 s"
        );
    }
}
