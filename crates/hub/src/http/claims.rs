//! Claims, listed and judged; and the journal of what was said.

use switchboard_core::assertion::Assertion;
use switchboard_core::rights::Right;
use switchboard_wire::jetpack::{
    ClaimJudgedResponse, ClaimPage, ClaimQuery, ClaimStatusRequest, JournalQuery, JournalResponse,
    from_wire, to_wire,
};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;
use crate::hub;
use crate::squidrun::handoff;

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: ClaimQuery = call.query()?;
    let (filter, range) = from_wire::claims(query)?;
    let read = app
        .hub
        .read(move |reader| reader.privates::<Assertion>(&range));
    let mut found = read.await?;
    found.retain(|claim| filter.takes(claim));
    let has_more = found.len() > filter.limit;
    found.truncate(filter.limit);
    let last = found.last().filter(|_| has_more);
    let next = last.and_then(|last| switchboard_core::Record::from(last.clone()).place());
    Ok(Reply::ok(&ClaimPage {
        success: true,
        next: next.map(|place| place.to_string()),
        claims: found.iter().map(to_wire::claim).collect(),
    }))
}

pub async fn judge(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (mut change, request) = Change::read::<ClaimStatusRequest>(&app, &call).await?;
    let verb = from_wire::judge(&call.id()?, request)?;
    change.acts_as(&verb.by)?;
    let judged = |claim: &Assertion| {
        to_json(&ClaimJudgedResponse {
            success: true,
            claim: to_wire::claim(claim),
        })
    };
    change.run(verb, 200, judged).await
}

pub async fn journal(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?.may(Right::AllMessages)?;
    let query: JournalQuery = call.query()?;
    let limit = from_wire::page_size(query.limit)?;
    let dir = app.squidrun.clone();
    let read = tokio::task::spawn_blocking(move || handoff::said(&dir, &query, limit));
    let found = read.await.map_err(|_| hub::Error::Stopping)?;
    let unread = |why| hub::Error::Unavailable(format!("its journal: {why}"));
    let messages = found.map_err(unread)?;
    Ok(Reply::ok(&JournalResponse {
        success: true,
        messages,
    }))
}
