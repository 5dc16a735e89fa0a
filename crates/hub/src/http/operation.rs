//! The ten operations over HTTP: each on its own path, or any in an envelope.

use switchboard_wire::jetpack::{Operation, Request, WaitQuery};

use super::call::{Call, VERSION};
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState};
use crate::call::{Asked, open};

/// An operation on its own path.
pub async fn on_path(app: AppState, call: Call, operation: Operation) -> Result<Reply, Failure> {
    let (envelope, mut request) = open::operation(operation, &call.body)?;
    envelope.expect_covered(operation, request.path_member())?;
    if let Request::Claim(claim) = &mut request
        && call.uri.query().is_some()
    {
        claim.wait = claim.wait.or(call.query::<WaitQuery>()?.wait);
    }
    let id = match request.path_member() {
        Some(_) => Some(call.id()?),
        None => None,
    };
    let opened = (envelope, request);
    let asked = app.understand(opened, id.as_deref(), call.header(VERSION))?;
    perform(&app, &call, asked).await
}

/// Any of them, in an envelope that names it.
pub async fn protocol(app: AppState, call: Call) -> Result<Reply, Failure> {
    let asked = app.read(&call.body, call.header(VERSION))?;
    perform(&app, &call, asked).await
}

/// Finds out who asks, and performs it.
pub async fn perform(app: &App, call: &Call, asked: Asked) -> Result<Reply, Failure> {
    let caller = call.caller(app, Some(&asked.envelope)).await?;
    let (seal, what) = (call.seal(&asked.envelope), (asked.operation, asked.call));
    let answer = app.perform(&caller, what, seal, call.peer.ip).await?;
    let mut reply = Reply::from(answer);
    reply.versionless = asked.versionless;
    Ok(reply)
}
