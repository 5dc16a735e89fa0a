//! Pause and resume: no new work for anybody, through whatever door.

use switchboard_core::Director;
use switchboard_wire::jetpack::{PauseRequest, ResumeRequest, from_wire, to_wire};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;

pub async fn pause(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<PauseRequest>(&app, &call).await?;
    let verb = from_wire::pause(request, change.caller.name().to_owned())?;
    change.run(verb, 200, steered).await
}

pub async fn resume(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<ResumeRequest>(&app, &call).await?;
    let verb = from_wire::resume(request, change.caller.name().to_owned())?;
    change.run(verb, 200, steered).await
}

fn steered(told: &Director) -> Vec<u8> {
    // An end that was just ordered lies ahead, and what was over is cleared before long.
    let hold = told.hold(switchboard_core::Timestamp::ZERO);
    to_json(&to_wire::steered(hold.as_ref()))
}
