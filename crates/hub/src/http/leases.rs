//! File leases: taken, kept, given back, looked at.

use switchboard_core::verb::ExtendLease;
use switchboard_store::LeaseFilter;
use switchboard_wire::jetpack::{
    CheckLeaseQuery, ExtendLeaseRequest, LeasePage, LeaseQuery, Operation, from_wire, to_wire,
};

use super::call::Call;
use super::error::Failure;
use super::lists::page;
use super::reply::{Reply, to_json};
use super::seal::Opened;
use super::{Shared, operation};

pub async fn acquire(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::AcquireLease, None).await
}

pub async fn release(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::ReleaseLease, None).await
}

pub async fn extend(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (opened, request) = Opened::read::<ExtendLeaseRequest>(&app, &call).await?;
    let verb: ExtendLease = from_wire::extend_lease(request, &app.root)?;
    opened.acts_as(&verb.agent)?;
    let guard = opened.guard(Some(&verb.agent), "extendLease")?;
    opened
        .run(verb, guard, 200, |lease| {
            to_json(&to_wire::lease_granted(lease))
        })
        .await
}

pub async fn list(app: Shared, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: LeaseQuery = call.query()?;
    let filter = LeaseFilter {
        agent: query
            .agent_id
            .map(|agent| from_wire::agent_id("agentId", &agent))
            .transpose()?,
        task: query
            .task_id
            .map(|task| from_wire::task_id("taskId", &task))
            .transpose()?,
        near: query
            .under
            .map(|path| from_wire::lease_path("under", &path, &app.root))
            .transpose()?,
    };
    let (page, now) = (page(query.limit, query.after)?, app.hub.time());
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

pub async fn check(app: Shared, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: CheckLeaseQuery = call.query()?;
    let state = app
        .hub
        .run(from_wire::check_lease(query, &app.root)?)
        .await?;
    Ok(Reply::ok(&to_wire::lease_state(&state)))
}
