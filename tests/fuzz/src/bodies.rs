//! Bodies of calls: what is accepted prints and reads back the same, what is refused says where.

use std::fmt::Debug;
use std::sync::Arc;

use serde::Serialize;
use switchboard_core::GatePolicy;
use switchboard_wire::jetpack::from_wire::{self, Call, Context};
use switchboard_wire::jetpack::{
    AckRequest, BaselineRequest, BatchRequest, CommandRequest, CreateTasksRequest, Envelope,
    IncomingBatch, NewTokenRequest, Operation, PatchTaskRequest, RejectTaskRequest, Request,
    Version,
};
use switchboard_wire::runtime::{
    self, ExchangeRequest, InviteNodeRequest, JoinNodeRequest, TicketRequest,
};
use switchboard_wire::{Malformed, parse};

const ROOT: &str = "/home/me/project";

pub fn check(bytes: &[u8]) {
    for operation in Operation::ALL {
        if let Some(request) = again(bytes, |bytes| Request::parse(*operation, bytes)) {
            named(bytes, understood(request, ROOT));
        }
    }
    if let Some(request) = again(bytes, CreateTasksRequest::parse) {
        named(
            bytes,
            with_context(ROOT, |at| from_wire::create(request, at)),
        );
    }
    if let Some(patch) = again(bytes, |bytes| parse::<PatchTaskRequest>(bytes)) {
        named(bytes, from_wire::change("t1".into(), patch));
    }
    if let Some(request) = again(bytes, BaselineRequest::parse) {
        named(bytes, from_wire::baseline(request, "steward".to_owned()));
    }
    if let Some(request) = again(bytes, |bytes| parse::<AckRequest>(bytes)) {
        named(bytes, from_wire::acknowledge("m1", &request));
    }
    if let Some(request) = again(bytes, |bytes| parse::<ExchangeRequest>(bytes)) {
        named(bytes, runtime::from_wire::introduced(&request));
    }
    again(bytes, |bytes| parse::<TicketRequest>(bytes));
    again(bytes, |bytes| parse::<JoinNodeRequest>(bytes));
    again(bytes, |bytes| parse::<InviteNodeRequest>(bytes));
    again(bytes, |bytes| parse::<Envelope>(bytes));
    again(bytes, |bytes| parse::<CommandRequest>(bytes));
    again(bytes, |bytes| parse::<NewTokenRequest>(bytes));
    again(bytes, |bytes| parse::<RejectTaskRequest>(bytes));
    let batch = again(bytes, |bytes| parse::<BatchRequest>(bytes));
    let incoming = parse::<IncomingBatch<'_>>(bytes);
    assert_eq!(
        batch.map(|batch| batch.operations.len()),
        incoming.ok().map(|batch| batch.operations.len()),
        "a batch is the same to the hub as to its clients"
    );
}

/// Why an operation in its envelope is refused before anything is looked up, if it is.
pub fn refused(bytes: &[u8], root: &str) -> Option<Malformed> {
    let read = || {
        let envelope: Envelope = parse(bytes)?;
        if let Version::Unsupported(version) = envelope.version(None) {
            return Err(Malformed::field("protocolVersion", version));
        }
        let (_, request) = Request::parse_envelope(bytes)?;
        understood(request, root)
    };
    read().err()
}

fn understood(request: Request, root: &str) -> Result<Call, Malformed> {
    with_context(root, |context| Call::new(request, None, context))
}

fn with_context<R>(root: &str, act: impl FnOnce(&mut Context<'_>) -> R) -> R {
    act(&mut Context {
        root,
        policy: &Arc::new(GatePolicy::default()),
        fresh: &mut |letters| format!("{letters}_1"),
    })
}

/// Reads; what was read is the same after it was printed.
pub(crate) fn again<T: Debug + PartialEq + Serialize>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Result<T, Malformed>,
) -> Option<T> {
    match read(bytes) {
        Ok(message) => {
            let printed = serde_json::to_vec(&message).unwrap();
            assert_eq!(read(&printed).as_ref(), Ok(&message));
            Some(message)
        }
        Err(malformed) => {
            told(bytes, &malformed);
            None
        }
    }
}

/// A message of the right shape that says something out of bounds is refused by the field's name.
fn named<T>(bytes: &[u8], judged: Result<T, Malformed>) {
    if let Err(malformed) = judged {
        assert!(malformed.field.is_some(), "{malformed}");
        told(bytes, &malformed);
    }
}

/// A refusal says something, and not more than a few times what was sent.
pub(crate) fn told(bytes: &[u8], malformed: &Malformed) {
    assert!(!malformed.message.is_empty());
    assert_ne!(malformed.field.as_deref(), Some(""));
    assert!(malformed.to_string().len() <= 1024 + 4 * bytes.len());
}
