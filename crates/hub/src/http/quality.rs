//! The quality baseline, and what completions measured.

use switchboard_wire::jetpack::{
    BaselineRequest, BaselineResponse, SnapshotPage, SnapshotQuery, from_wire, to_wire,
};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;

pub async fn baseline(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let baseline = app.hub.read(|reader| reader.baseline()).await?;
    Ok(Reply::ok(&BaselineResponse {
        success: true,
        baseline: baseline.as_ref().map(to_wire::baseline),
    }))
}

pub async fn set_baseline(app: AppState, call: Call) -> Result<Reply, Failure> {
    let request = BaselineRequest::parse(&call.body)?;
    let change = Change::new(&app, &call).await?;
    let verb = from_wire::baseline(request, change.caller.name().to_owned())?;
    change
        .run(verb, 200, |baseline| {
            to_json(&BaselineResponse {
                success: true,
                baseline: Some(to_wire::baseline(baseline)),
            })
        })
        .await
}

pub async fn history(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: SnapshotQuery = call.query()?;
    let (filter, page) = from_wire::lists::snapshots(query)?;
    let found = app
        .hub
        .read(move |reader| reader.snapshots(&filter, &page))
        .await?;
    let snapshots = found.rows.iter().map(to_wire::snapshot).collect();
    Ok(Reply::ok(&SnapshotPage {
        success: true,
        snapshots,
        next: found.next,
    }))
}
