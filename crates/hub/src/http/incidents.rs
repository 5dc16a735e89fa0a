//! Incidents: listed, and resolved by a person.

use switchboard_core::verb::ResolveIncident;
use switchboard_wire::jetpack::{
    IncidentPage, IncidentQuery, IncidentResponse, ResolveIncidentRequest, from_wire, to_wire,
};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: IncidentQuery = call.query()?;
    let range = from_wire::lists::incidents(query)?;
    let limit = range.limit;
    let found = app.hub.read(move |reader| reader.records(&range)).await?;
    let last = found.last().filter(|_| found.len() == limit);
    let next = last.and_then(|last| last.place());
    let incidents = found
        .iter()
        .filter_map(switchboard_core::record::Listed::of);
    Ok(Reply::ok(&IncidentPage {
        success: true,
        next: next.map(|place| place.to_string()),
        incidents: incidents.map(to_wire::incident).collect(),
    }))
}

pub async fn resolve(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<ResolveIncidentRequest>(&app, &call).await?;
    let verb = ResolveIncident {
        incident: call.id()?.into_owned(),
        by: change.caller.name().to_owned(),
        why: from_wire::reason(request.reason, "resolved by a person")?,
    };
    let resolved = |incident: &switchboard_core::Incident| {
        to_json(&IncidentResponse {
            success: true,
            incident: to_wire::incident(incident),
        })
    };
    change.run(verb, 200, resolved).await
}
