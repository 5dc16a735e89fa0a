//! The gate before a restart: opened, signed, looked at.

use switchboard_core::release_gate::ReleaseGate;
use switchboard_wire::jetpack::{OpenGateRequest, SignGateRequest, from_wire, to_wire};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let read = app.hub.read(|reader| reader.private::<ReleaseGate>(""));
    Ok(Reply::ok(&to_wire::release_gate(read.await?.as_ref())))
}

pub async fn open(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<OpenGateRequest>(&app, &call).await?;
    let verb = from_wire::open_gate(request, change.caller.name().to_owned())?;
    change.run(verb, 200, told).await
}

pub async fn sign(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (mut change, request) = Change::read::<SignGateRequest>(&app, &call).await?;
    let verb = from_wire::sign_gate(request)?;
    change.acts_as(&verb.by)?;
    change.run(verb, 200, told).await
}

fn told(gate: &ReleaseGate) -> Vec<u8> {
    to_json(&to_wire::release_gate(Some(gate)))
}
