//! What a request in a file comes to: the same as over HTTP, and once.
//!
//! A file stays where it is until it was answered, and is found again if the hub ends before. So every request has a key,
//! its own or that of its file, and a signature may be shown again for the answer that it earned.

use std::net::{IpAddr, Ipv4Addr};

use switchboard_core::idempotency::Key;
use switchboard_core::verb::Touch;
use switchboard_core::{AgentId, Refusal};
use switchboard_wire::jetpack::{ErrorBody, from_wire};

use crate::auth::{Caller, Signer};
use crate::call::{Answer, Asked, Calls, Failure, Guard, Nothing, Seal, to_json};
use crate::hub;

/// The same as an envelope's over HTTP: a request that is repeated through the other door is the same request.
const PLACE: [&str; 2] = ["POST", "/api/v1/protocol"];
/// Files are written on this machine, or by whom it lets.
const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A request as it was read.
pub struct Request {
    pub body: Vec<u8>,
    /// The key that it has if it brings none.
    pub file_key: String,
    pub patience: Patience,
    /// It was counted against its agent's allowance.
    pub counted: bool,
}

/// Whether a request may wait for something to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    AsAsked,
    None,
}

/// Whose request it is, and whether it wants to wait. Not checked, only read.
pub fn glance(calls: &Calls, body: &[u8]) -> Result<(AgentId, bool), Failure> {
    let call = calls.read(body, None)?.call;
    Ok((call.agent().clone(), !call.wait_for().is_zero()))
}

/// Opens, attributes, counts and performs a request.
pub async fn act(calls: &Calls, request: &mut Request) -> Result<Answer, Failure> {
    let Asked {
        envelope,
        operation,
        call,
        ..
    } = calls.read(&request.body, None)?;
    let call = match request.patience {
        Patience::AsAsked => call,
        Patience::None => call.at_once(),
    };
    let signer = calls.auth.signer(&calls.hub, &request.body, &envelope);
    let Signer { caller, timely } = signer.await?;
    caller.may_act_as(call.agent())?;
    let seal = Seal {
        place: PLACE,
        body: &request.body,
        envelope: &envelope,
        header_key: match envelope.request_id {
            Some(_) => None,
            None => Some(&request.file_key),
        },
        part: None,
        signed_part: None,
    };
    let mut guard = seal.guard(&caller, Some(call.agent().as_str()), operation.as_str())?;
    guard.keeps_refusal = Some(|refusal| to_json(&ErrorBody::from(refusal)));
    let refused = guard.refusal();
    let attempt = async {
        match recall(calls, &guard).await? {
            Some(answer) if !call.is_read() => return Ok(answer),
            Some(_) => guard.nonce = None,
            None => timely?,
        }
        if !request.counted {
            calls.allow(&caller, operation, call.agent(), FROM)?;
            request.counted = true;
        }
        perform(calls, call, guard, &caller).await
    };
    match (attempt.await, refused) {
        // Used up or too old by now; it may have had its answer.
        (
            Err(
                failure @ (Failure::Hub(hub::Error::Refused(Refusal::Replayed))
                | Failure::Unauthenticated(_)),
            ),
            Some(refused),
        ) => answer_under(calls, refused).await?.ok_or(failure),
        (attempted, _) => attempted,
    }
}

async fn perform(
    calls: &Calls,
    call: from_wire::Call,
    mut guard: Guard,
    caller: &Caller,
) -> Result<Answer, Failure> {
    if call.is_read() && guard.nonce.is_some() {
        // A read leaves no answer behind. That its signature was used is kept under its key instead.
        let touch = Touch {
            agent: call.agent().clone(),
        };
        calls.run(touch, guard.clone(), |()| Vec::new()).await?;
        guard.nonce = None;
    }
    calls.act(call, guard, caller).await
}

/// The answer that a signed request got before the hub ended; the ledger would take it for a stolen copy of itself.
async fn recall(calls: &Calls, guard: &Guard) -> Result<Option<Answer>, Failure> {
    match (&guard.key, &guard.nonce) {
        (Some(key), Some(_)) => answer_under(calls, key.clone()).await,
        (Some(_), None) | (None, _) => Ok(None),
    }
}

async fn answer_under(calls: &Calls, key: (Key, [u8; 32])) -> Result<Option<Answer>, Failure> {
    let key = Guard {
        key: Some(key),
        ..Guard::default()
    };
    let asked = Nothing { keeps_guard: false };
    let answer = calls.run(asked, key, |()| Vec::new()).await?;
    Ok(Some(answer).filter(|answer| answer.replayed))
}

/// What to do about a request that was not answered as it wished.
#[derive(Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The hub could not; the request waits.
    TryAgain,
    /// It was understood, and refused: that is its answer.
    Answer,
    /// It was not understood, or nobody knows whose it is.
    Reject,
}

pub fn remedy(failure: &Failure) -> Remedy {
    match failure {
        Failure::Hub(error) => match error {
            hub::Error::Refused(Refusal::Replayed) => Remedy::Reject,
            hub::Error::Refused(_) => Remedy::Answer,
            // Under its key it is always safe to ask once more.
            hub::Error::Unavailable(_)
            | hub::Error::InDoubt(_)
            | hub::Error::Overloaded
            | hub::Error::Stopping => Remedy::TryAgain,
            hub::Error::Broken | hub::Error::BadCursor => Remedy::Reject,
        },
        Failure::Malformed(_)
        | Failure::UnsupportedVersion(_)
        | Failure::Unauthenticated(_)
        | Failure::TooLarge
        | Failure::TooLargeFromOutside => Remedy::Reject,
        Failure::NotYou { .. }
        | Failure::Forbidden(_)
        | Failure::TooFast(_)
        | Failure::EpochMismatch
        | Failure::CursorExpired { .. }
        | Failure::Rejected { .. }
        | Failure::JoinFailed { .. } => Remedy::Answer,
    }
}
