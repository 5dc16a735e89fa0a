//! Messages between agents, their acknowledgements, and what became of each.

use switchboard_core::Refusal;
use switchboard_core::rights::Right;
use switchboard_core::verb::Acknowledge;
use switchboard_wire::jetpack::{
    AckRequest, Envelope, MessagePage, MessageQuery, MessageResponse, Request, from_wire, to_wire,
};

use super::call::{Call, VERSION};
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use super::{AppState, gate, operation};
use crate::call::to_json;
use crate::hub;

/// An agent's own messages, or everyone's.
pub async fn receive(app: AppState, call: Call) -> Result<Reply, Failure> {
    let query: MessageQuery = call.query()?;
    if query.all == Some(true) {
        return everyones(app, call, query).await;
    }
    if query.from.is_some() || query.to.is_some() || query.after.is_some() {
        from_wire::lists::messages(query.clone())?;
    }
    let request = Request::ReceiveMessages(from_wire::receive_query(query)?);
    let opened = (Envelope::default(), request);
    let asked = app.understand(opened, None, call.header(VERSION))?;
    // Nobody has to prove anything: then at least no page from elsewhere takes them.
    if !asked.call.is_read() && !app.auth.is_asked_for() {
        gate::check_referer(&call.headers, &call.uri)?;
    }
    operation::perform(&app, &call, asked).await
}

async fn everyones(app: AppState, call: Call, query: MessageQuery) -> Result<Reply, Failure> {
    app.reader(&call).await?.may(Right::AllMessages)?;
    let (filter, page) = from_wire::lists::messages(query)?;
    let found = app
        .hub
        .read(move |reader| reader.messages(&filter, &page))
        .await?;
    let messages = found.rows.iter().map(to_wire::message).collect();
    Ok(Reply::ok(&MessagePage {
        success: true,
        messages,
        next: found.next,
    }))
}

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    let caller = app.reader(&call).await?;
    let id = from_wire::message_id("id", &call.id()?)?;
    let wanted = id.clone();
    let found = app.hub.read(move |reader| reader.message(&wanted)).await?;
    let Some((message, deliveries)) = found else {
        return Err(hub::Error::Refused(Refusal::MessageNotFound { message: id }).into());
    };
    caller.may_read_message(&message, deliveries.iter().map(|delivery| &delivery.agent))?;
    Ok(Reply::ok(&MessageResponse {
        success: true,
        message: to_wire::message(&message),
        deliveries: deliveries.iter().map(to_wire::delivery).collect(),
    }))
}

pub async fn acknowledge(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (mut change, request) = Change::read::<AckRequest>(&app, &call).await?;
    let verb: Acknowledge = from_wire::acknowledge(&call.id()?, &request)?;
    change.acts_as(&verb.agent)?;
    change
        .run(verb, 200, |reply| to_json(&to_wire::acknowledged(reply)))
        .await
}
