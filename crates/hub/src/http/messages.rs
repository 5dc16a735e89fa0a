//! Messages between agents, their acknowledgements, and what became of each.

use switchboard_core::rights::Right;
use switchboard_core::verb::Acknowledge;
use switchboard_core::{Refusal, limits};
use switchboard_store::MessageFilter;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::from_wire::Fetch;
use switchboard_wire::jetpack::{
    AckRequest, Envelope, MessagePage, MessageQuery, MessageResponse, Operation, from_wire, to_wire,
};

use super::call::Call;
use super::error::Failure;
use super::lists::page;
use super::reply::{Reply, to_json};
use super::seal::{self, Opened, Seal};
use super::{Shared, gate, operation};
use crate::hub;

pub async fn send(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::SendMessage, None).await
}

/// An agent's own messages, or everyone's.
pub async fn receive(app: Shared, call: Call) -> Result<Reply, Failure> {
    let query: MessageQuery = call.query()?;
    if query.all == Some(true) {
        return everyones(app, call, query).await;
    }
    let envelope = Envelope::default();
    let versionless = seal::is_versionless(&call, &envelope)?;
    let (fetch, wait_for) = from_wire::receive(from_wire::receive_query(query)?)?;
    // Nobody has to prove anything: then at least no page from elsewhere takes them.
    if matches!(fetch, Fetch::Next(_)) && !app.auth.is_asked_for() {
        gate::check_referer(&call.headers, &call.uri)?;
    }
    let caller = call.caller(&app, None).await?;
    let asked = from_wire::Call::Receive { fetch, wait_for };
    let mut reply = operation::perform(
        &app,
        &caller,
        asked,
        Seal::of(&call, &envelope),
        call.peer.ip,
    )
    .await?;
    reply.versionless = versionless;
    Ok(reply)
}

async fn everyones(app: Shared, call: Call, query: MessageQuery) -> Result<Reply, Failure> {
    app.reader(&call).await?.may(Right::AllMessages)?;
    if query.types.len() > limits::MESSAGE_TYPES_MAX {
        let message = format!("has more than {} items", limits::MESSAGE_TYPES_MAX);
        return Err(Malformed::field("types", message).into());
    }
    let agent = |field: &str, named: Option<String>| {
        named
            .map(|agent| from_wire::agent_id(field, &agent))
            .transpose()
    };
    let filter = MessageFilter {
        from: agent("from", query.from)?,
        to: agent("to", query.to)?,
        kinds: query.types,
    };
    let page = page(query.limit, query.after)?;
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

pub async fn show(app: Shared, call: Call) -> Result<Reply, Failure> {
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

pub async fn acknowledge(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (opened, request) = Opened::read::<AckRequest>(&app, &call).await?;
    let verb: Acknowledge = from_wire::acknowledge(&call.id()?, &request)?;
    opened.acts_as(&verb.agent)?;
    let guard = opened.guard(Some(&verb.agent), "ackMessage")?;
    opened
        .run(verb, guard, 200, |reply| {
            to_json(&to_wire::acknowledged(reply))
        })
        .await
}
