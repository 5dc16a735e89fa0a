//! What a request in a file comes to: the same as over HTTP, and once.
//!
//! A file stays where it is until it was answered, and is found again if the hub ends before. So every request has a key,
//! its own or that of its file, and a signature may be shown again for the answer that it earned.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use switchboard_core::idempotency::Key;
use switchboard_core::verb::Touch;
use switchboard_core::{AgentId, Changes, Refusal, Slice, Timestamp, Verb, Want};
use switchboard_wire::jetpack::{ErrorBody, from_wire};

use crate::auth::{Caller, Signer};
use crate::http::operation::{self, operation_of};
use crate::http::protocol::{Enveloped, at_once, is_read};
use crate::http::reply::Reply;
use crate::http::seal::Seal;
use crate::http::{App, Failure, to_json};
use crate::hub::{self, Guard, Outcome};

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
pub fn glance(app: &App, body: &[u8]) -> Result<(AgentId, bool), Failure> {
    use from_wire::Call as Asked;
    let asked = Enveloped::read(app, body, None)?.asked;
    let wait_for = match &asked {
        Asked::Claim { wait_for, .. } | Asked::Receive { wait_for, .. } => *wait_for,
        Asked::Register(_)
        | Asked::Heartbeat(_)
        | Asked::Progress(_)
        | Asked::Complete(_)
        | Asked::Fail(_)
        | Asked::Send(_)
        | Asked::AcquireLease(_)
        | Asked::ReleaseLease { .. } => Duration::ZERO,
    };
    Ok((asked.agent().clone(), !wait_for.is_zero()))
}

/// Opens, attributes, counts and performs a request.
pub async fn act(app: &App, request: &mut Request) -> Result<Reply, Failure> {
    let Enveloped {
        envelope, asked, ..
    } = Enveloped::read(app, &request.body, None)?;
    let asked = match request.patience {
        Patience::AsAsked => asked,
        Patience::None => at_once(asked),
    };
    let Signer { caller, timely } = app.auth.signer(&app.hub, &request.body, &envelope).await?;
    let agent = asked.agent().clone();
    caller.may_act_as(&agent)?;
    let operation = operation_of(&asked);
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
    let mut guard = seal.guard(&caller, Some(agent.as_str()), operation.as_str())?;
    guard.keeps_refusal = Some(|refusal| to_json(&ErrorBody::from(refusal)));
    let refused = guard.refusal();
    let attempt = async {
        match recall(app, &guard).await? {
            Some(answer) if !is_read(&asked) => return Ok(answer),
            Some(_) => guard.nonce = None,
            None => timely?,
        }
        if !request.counted {
            operation::allow(app, &caller, operation, &agent, FROM)?;
            request.counted = true;
        }
        perform(app, asked, guard, &caller).await
    };
    match (attempt.await, refused) {
        // Used up or too old by now; it may have had its answer.
        (
            Err(
                failure @ (Failure::Hub(hub::Error::Refused(Refusal::Replayed))
                | Failure::Unauthenticated(_)),
            ),
            Some(refused),
        ) => answer_under(app, refused).await?.ok_or(failure),
        (attempted, _) => attempted,
    }
}

async fn perform(
    app: &App,
    asked: from_wire::Call,
    mut guard: Guard,
    caller: &Caller,
) -> Result<Reply, Failure> {
    if is_read(&asked) && guard.nonce.is_some() {
        // A read leaves no answer behind. That its signature was used is kept under its key instead.
        let touch = Touch {
            agent: asked.agent().clone(),
        };
        app.hub.call(touch, guard.clone(), |()| Vec::new()).await?;
        guard.nonce = None;
    }
    operation::act(app, asked, guard, caller).await
}

/// The answer that a signed request got before the hub ended; the ledger would take it for a stolen copy of itself.
async fn recall(app: &App, guard: &Guard) -> Result<Option<Reply>, Failure> {
    match (&guard.key, &guard.nonce) {
        (Some(key), Some(_)) => answer_under(app, key.clone()).await,
        (Some(_), None) | (None, _) => Ok(None),
    }
}

async fn answer_under(app: &App, key: (Key, [u8; 32])) -> Result<Option<Reply>, Failure> {
    let key = Guard {
        key: Some(key),
        ..Guard::default()
    };
    Ok(match app.hub.call(Recall, key, |()| Vec::new()).await? {
        Outcome::Fresh(()) => None,
        Outcome::Replayed(answer) => Some(Reply::bytes(200, answer.to_vec())),
    })
}

/// Asks whether a key is known, and changes nothing.
struct Recall;

impl Verb for Recall {
    type Reply = ();

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        Ok(((), Changes::default()))
    }

    fn is_final(&self, (): &()) -> bool {
        false
    }
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
        | Failure::BodyTooLarge
        | Failure::HeadersTooLarge
        | Failure::BodyCut
        | Failure::NoSuchPath
        | Failure::MethodNotAllowed
        | Failure::WrongHost(_) => Remedy::Reject,
        Failure::NotYou { .. }
        | Failure::Forbidden(_)
        | Failure::TooFast(_)
        | Failure::TooManyStreams
        | Failure::NoRoom
        | Failure::TooManyOfYours => Remedy::Answer,
    }
}
