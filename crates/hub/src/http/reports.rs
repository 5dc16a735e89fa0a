//! PROGRESS, COMPLETE and FAIL: what the holder says about its task.

use switchboard_wire::jetpack::Operation;

use super::call::Call;
use super::error::Failure;
use super::reply::Reply;
use super::{Shared, operation};

pub async fn progress(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::Progress, Some(&call.id()?)).await
}

pub async fn complete(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::Complete, Some(&call.id()?)).await
}

pub async fn fail(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::Fail, Some(&call.id()?)).await
}
