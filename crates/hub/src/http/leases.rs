//! File leases: taken, kept, given back, looked at.

use switchboard_core::verb::ExtendLease;
use switchboard_wire::jetpack::{
    CheckLeaseQuery, ExtendLeaseRequest, LeasePage, LeaseQuery, from_wire, to_wire,
};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;

pub async fn extend(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (mut change, request) = Change::read::<ExtendLeaseRequest>(&app, &call).await?;
    let verb: ExtendLease = from_wire::extend_lease(request, &app.root)?;
    change.acts_as(&verb.agent)?;
    change
        .run(verb, 200, |lease| to_json(&to_wire::lease_granted(lease)))
        .await
}

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: LeaseQuery = call.query()?;
    let (filter, page) = from_wire::lists::leases(query, &app.root)?;
    let now = app.hub.time();
    let found = app
        .hub
        .read(move |reader| reader.leases(&filter, &page))
        .await?;
    // One that has run out is over, also before the caretaker has put it away.
    let live = found.rows.iter().filter(|lease| !lease.is_over(now));
    let leases = live.map(to_wire::lease).collect();
    Ok(Reply::ok(&LeasePage {
        success: true,
        leases,
        next: found.next,
    }))
}

pub async fn check(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: CheckLeaseQuery = call.query()?;
    let state = app
        .hub
        .run(from_wire::check_lease(query, &app.root)?)
        .await?;
    Ok(Reply::ok(&to_wire::lease_state(&state)))
}
