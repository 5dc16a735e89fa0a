//! Pause and resume: no new work for anybody, through whatever door.

use switchboard_core::Director;
use switchboard_core::verb::Steer;
use switchboard_wire::jetpack::{PauseRequest, ResumeRequest, from_wire, to_wire};

use super::Shared;
use super::call::Call;
use super::error::Failure;
use super::reply::{Reply, to_json};
use super::seal::Opened;

pub async fn pause(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (opened, request) = Opened::read::<PauseRequest>(&app, &call).await?;
    let verb = from_wire::pause(request, opened.caller.name().to_owned())?;
    steer(&opened, verb, "pause").await
}

pub async fn resume(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (opened, request) = Opened::read::<ResumeRequest>(&app, &call).await?;
    let verb = from_wire::resume(request, opened.caller.name().to_owned())?;
    steer(&opened, verb, "resume").await
}

async fn steer(opened: &Opened<'_>, verb: Steer, route: &'static str) -> Result<Reply, Failure> {
    let guard = opened.guard(None, route)?;
    opened.run(verb, guard, 200, steered).await
}

fn steered(told: &Director) -> Vec<u8> {
    // An end that was just ordered lies ahead, and what was over is cleared before long.
    let hold = told.hold(switchboard_core::Timestamp::ZERO);
    to_json(&to_wire::steered(hold.as_ref()))
}
