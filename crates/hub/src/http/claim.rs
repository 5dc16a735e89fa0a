//! CLAIM: one task for one agent, at once or as soon as one fits.

use switchboard_wire::jetpack::from_wire;
use switchboard_wire::jetpack::{ClaimRequest, Operation, WaitQuery};

use super::call::Call;
use super::error::Failure;
use super::reply::Reply;
use super::seal::{self, Seal};
use super::{Shared, open, operation};

pub async fn claim(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (envelope, mut request) = open::open::<ClaimRequest>(&call.body)?;
    envelope.expect_covered(Operation::Claim, None)?;
    let versionless = seal::is_versionless(&call, &envelope)?;
    if call.uri.query().is_some() {
        request.wait = request.wait.or(call.query::<WaitQuery>()?.wait);
    }
    let (claim, wait_for) = from_wire::claim(request)?;
    let caller = app
        .auth
        .caller(&app.hub, call.evidence(Some(&envelope)))
        .await?;
    let asked = from_wire::Call::Claim { claim, wait_for };
    let mut reply = operation::perform(
        &app,
        &caller,
        asked,
        Seal::of(&call, &envelope),
        call.peer.ip,
    )
    .await?;
    reply.versionless = versionless;
    Ok(reply)
}
