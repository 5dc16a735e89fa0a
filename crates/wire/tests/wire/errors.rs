//! Every refusal and every code, with its status.

use switchboard_core::refusal::{NotAdmitted, NotYours};
use switchboard_core::{Refusal, TaskStatus, Timestamp};
use switchboard_wire::jetpack::{self, ErrorBody, ErrorCode};

use crate::to_wire::{golden, value};

const T: Timestamp = Timestamp(1_768_816_800_000);

#[test]
fn a_node_that_may_not_is_told_why_by_code() {
    let node = || "n".into();
    for (why, status, code) in [
        (NotAdmitted::UnknownInvite, 401, "invalid_invite"),
        (NotAdmitted::ExpiredInvite(T), 401, "expired_invite"),
        (NotAdmitted::UsedInvite(node()), 409, "invite_used"),
        (NotAdmitted::Mismatch(node()), 403, "node_mismatch"),
        (NotAdmitted::Unproven(node()), 401, "node_proof_invalid"),
        (NotAdmitted::Replayed, 409, "replay_detected"),
    ] {
        let body = ErrorBody::from(&Refusal::from(why));
        assert_eq!((body.status(), body.error.as_str()), (status, code));
        assert!(!body.message.is_empty());
    }
    let other = Refusal::from(NotAdmitted::OtherProtocol("2.0".to_owned()));
    let body = ErrorBody::from(&other);
    assert_eq!(
        (body.status(), body.error.as_str()),
        (400, "invalid_operation")
    );
    assert_eq!(body.field.as_deref(), Some("protocolVersion"));
    assert_eq!(body.supported, Some(vec!["1.0".to_owned()]));
    let unknown = ErrorBody::from(&Refusal::NodeNotFound { node: node() });
    assert_eq!(
        (unknown.status(), unknown.error.as_str()),
        (404, "not_found")
    );
}

#[test]
fn each_refusal_has_its_status_code_and_place() {
    let task = || "t".into();
    let agent = || "a".into();
    let yours = |why| Refusal::TaskNotYours {
        task: "t".into(),
        why,
    };
    let wrong = Refusal::WrongState {
        task: task(),
        status: TaskStatus::Ready,
        wanted: "claimed",
    };
    let field = |name: &'static str| Refusal::Invalid {
        field: name,
        message: "m".to_owned(),
    };
    type Expected = (
        Refusal,
        u16,
        &'static str,
        Option<&'static str>,
        Option<&'static str>,
    );
    let cases: Vec<Expected> = vec![
        (
            Refusal::AgentNotRegistered { agent: agent() },
            404,
            "agent_not_registered",
            None,
            None,
        ),
        (
            Refusal::AgentAlreadyRegistered {
                holds: Vec::new(),
                agent: agent(),
                seen_at: T,
            },
            409,
            "agent_already_registered",
            None,
            None,
        ),
        (
            Refusal::TaskNotFound { task: task() },
            404,
            "task_not_found",
            None,
            None,
        ),
        (
            Refusal::TaskAlreadyExists { task: task() },
            409,
            "task_already_exists",
            None,
            None,
        ),
        (
            yours(NotYours::Reassigned { to: None }),
            409,
            "task_already_claimed",
            None,
            Some("task_reassigned"),
        ),
        (
            yours(NotYours::NotHolder { holder: None }),
            409,
            "task_already_claimed",
            None,
            Some("not_holder"),
        ),
        (
            yours(NotYours::StaleEpoch { current: 2 }),
            409,
            "task_already_claimed",
            None,
            Some("stale_epoch"),
        ),
        (
            yours(NotYours::AlreadyFinished {
                status: TaskStatus::Failed,
            }),
            409,
            "task_already_claimed",
            None,
            Some("already_finished"),
        ),
        (wrong, 400, "invalid_operation", None, Some("task_is_ready")),
        (
            Refusal::UnknownDependency {
                task: task(),
                dependency: task(),
            },
            400,
            "invalid_operation",
            Some("dependencies"),
            None,
        ),
        (
            Refusal::DependencyCycle {
                circle: vec![task()],
            },
            400,
            "invalid_operation",
            Some("dependencies"),
            None,
        ),
        (
            Refusal::RecipientNotFound { agent: agent() },
            404,
            "recipient_not_found",
            Some("message.to"),
            None,
        ),
        (
            Refusal::MessageNotFound {
                message: "m".into(),
            },
            404,
            "message_not_found",
            None,
            None,
        ),
        (
            Refusal::MessageAlreadyExists {
                message: "m".into(),
            },
            409,
            "message_already_exists",
            None,
            None,
        ),
        (
            Refusal::NotARecipient {
                message: "m".into(),
                agent: agent(),
            },
            403,
            "not_you",
            None,
            None,
        ),
        (
            Refusal::LeaseNotYours {
                path: "p".into(),
                held_by: agent(),
            },
            403,
            "lease_not_yours",
            None,
            None,
        ),
        (
            Refusal::LeaseNotFound { path: "p".into() },
            404,
            "lease_not_found",
            None,
            None,
        ),
        (
            Refusal::StaleFencingToken {
                path: "p".into(),
                current: 2,
            },
            403,
            "lease_not_yours",
            Some("fencingToken"),
            Some("stale_fencing_token"),
        ),
        (
            Refusal::KeyReused,
            409,
            "idempotency_key_reused",
            None,
            None,
        ),
        (Refusal::Replayed, 401, "unauthenticated", None, None),
        (Refusal::TokenNotFound, 404, "not_found", None, None),
        (
            Refusal::SnapshotNotFound { task: task() },
            404,
            "not_found",
            Some("fromTask"),
            None,
        ),
        (
            Refusal::TooMany {
                what: "leases",
                limit: 3,
            },
            400,
            "invalid_operation",
            None,
            Some("limit_reached"),
        ),
        (
            field("taskId"),
            400,
            "invalid_operation",
            Some("taskId"),
            None,
        ),
    ];
    for (refusal, status, code, field, reason) in cases {
        let body = ErrorBody::from(&refusal);
        let shown = (
            body.status(),
            body.error.as_str(),
            body.field.as_deref(),
            body.reason.as_deref(),
        );
        assert_eq!(shown, (status, code, field, reason), "{refusal:?}");
        assert!(!body.success && body.message == refusal.to_string());
    }
}

#[test]
fn every_code_has_the_status_that_the_contract_gives_it() {
    let contract = include_str!("../../../../docs/http-api.md");
    for code in ErrorCode::ALL {
        let line = contract
            .lines()
            .find(|line| line.starts_with("  | ") && line.contains(&format!("`{code}`")))
            .unwrap_or_else(|| panic!("{code} is not in the contract"));
        assert!(line.contains(&code.status().to_string()), "{code}: {line}");
    }
    let malformed = switchboard_wire::Malformed::field("agent.type", "unknown value");
    let body = ErrorBody::from(malformed);
    assert_eq!(value(&body), golden("error.response.field"));
    assert_eq!(jetpack::SUPPORTED_VERSIONS, ["1.0"]);
}
