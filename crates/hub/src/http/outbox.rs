//! Events between nodes: published here, read by other nodes, brought by those that nobody reaches.

use axum::response::Response;
use switchboard_core::cursor::{Cursor, Subscriber};
use switchboard_core::order::Order;
use switchboard_core::record::Record;
use switchboard_core::refusal::NotAdmitted;
use switchboard_core::verb::{
    HearNode, NoteReader, NoteUnrouted, Publication, PublishStep, ResendOrder, Reset, ResetCursor,
    Step,
};
use switchboard_core::{EventId, NodeId, Refusal, Sender, limits};
use switchboard_wire::jetpack::from_wire::{page_size, wait_for};
use switchboard_wire::runtime::event_from_wire::Publishing;
use switchboard_wire::runtime::{
    CursorsResponse, DeadLetterQuery, DeadLettersResponse, OrderQuery, OrdersResponse, OutboxQuery,
    PublishRequest, PushRequest, PushResponse, ResetCursorRequest, event_from_wire, event_to_wire,
    from_wire,
};
use switchboard_wire::{Malformed, parse};
use tokio::time::{Instant, timeout_at};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::outbox_stream::stream;
use super::reply::Reply;
use crate::call::{self, Class, to_json};
use crate::hub;
use crate::runtime::{Own, Place, find, look_again, node_id, page, take_in};

pub async fn publish(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (mut change, request) = Change::read::<PublishRequest>(&app, &call).await?;
    let mut fresh = |prefix| app.ids.fresh(prefix);
    let (now, most) = (app.hub.time(), app.hub.shared.runtime.event_bytes_max);
    let published = event_from_wire::publish(&request, now, most, &mut app.context(&mut fresh))?;
    let render = |reply: &_| {
        let published = event_to_wire::published(reply);
        #[cfg(debug_assertions)]
        let published = crate::runtime::broken::published(published);
        to_json(&published)
    };
    let verb = match published {
        Publishing::New(verb) => verb,
        Publishing::Step(verb) => {
            change.acts_in(Class::Publish, &verb.agent)?;
            return match change.run(verb.clone(), 201, render).await {
                Err(Failure::Call(call::Failure::Hub(hub::Error::Refused(Refusal::Unjudged(
                    mut complete,
                ))))) => {
                    // As by any other door: the result is compared with its contract, and it is run again.
                    let finding = find(&app.hub, &complete.task, &complete.result).await?;
                    complete.finding = Some(finding);
                    let step = Step::Complete(complete);
                    change.run(PublishStep { step, ..verb }, 201, render).await
                }
                Ok(reply) => Ok(reply),
                Err(failure) => Err(failure),
            };
        }
    };
    match &verb.from {
        Sender::Agent(agent) => change.acts_in(Class::Publish, agent)?,
        Sender::Person(steward) => change.caller.may_act_as(steward)?,
    }
    let unrouted = match &verb.what {
        Publication::Task(task) => Some(NoteUnrouted {
            required: task.required.clone(),
            corr_id: verb.corr_id.clone(),
        }),
        Publication::Message { .. } => None,
    };
    let published = change.run(verb, 201, render).await;
    if let Err(Failure::Call(call::Failure::Hub(hub::Error::Refused(Refusal::NoRoute(_))))) =
        &published
        && let Some(unrouted) = unrouted
    {
        app.hub.run(unrouted).await?;
    }
    published
}

/// A node that asks says thereby how far it is; a person only looks.
pub async fn read(app: AppState, call: Call) -> Result<Response, Failure> {
    let caller = app.reader(&call).await?;
    let query: OutboxQuery = call.query()?;
    let wait = wait_for(query.wait)?;
    let limit = query
        .limit
        .map_or(limits::OUTBOX_PAGE_MAX, |limit| limit as usize);
    if !(1..=limits::OUTBOX_PAGE_MAX).contains(&limit) {
        let message = format!("must be 1 to {}", limits::OUTBOX_PAGE_MAX);
        return Err(Malformed::field("limit", message).into());
    }
    let accept = call.header("accept");
    let streams = accept.is_some_and(|accept| accept.contains("text/event-stream"));
    let place = Place {
        after: match call.header("last-event-id").filter(|_| streams) {
            Some(id) => Some(id.trim().parse().map_err(|_| {
                Malformed::field("Last-Event-ID", "must be the number of an event")
            })?),
            None => query.after,
        },
        last: match query.last {
            Some(last) => Some(from_wire::event_id("last", &last)?),
            None => None,
        },
    };
    let mut bell = app.hub.shared.outbox_bell.subscribe();
    let deadline = Instant::now() + wait;
    // What is not there yet cannot be durable anywhere: first it is found out whether it is the same outbox.
    let mut found = page(&app.hub, place.clone(), limit).await?;
    let after = place.after.unwrap_or(0);
    #[cfg(debug_assertions)]
    let after = match crate::runtime::broken::is("compaction") {
        true => found.latest_seq,
        false => after,
    };
    let reader = caller.node().map(|node| NoteReader {
        node: node.clone(),
        after,
        lease_for: app.hub.shared.runtime.cursor_lease,
    });
    if let Some(reader) = reader.clone() {
        app.hub.run(reader).await?;
    }
    if streams {
        return stream(app, &caller, &found, (place, limit, reader), bell);
    }
    while found.events.is_empty() && Instant::now() < deadline && !app.stopping.is_cancelled() {
        let look_at = look_again(&app.hub).min(deadline);
        let _ = timeout_at(look_at, bell.changed()).await;
        found = page(&app.hub, place.clone(), limit).await?;
    }
    Ok(Reply::ok(&found).into_response())
}

pub async fn push(app: AppState, call: Call) -> Result<Reply, Failure> {
    let caller = call.caller(&app, None).await?;
    let id = from_wire::node_id("id", &call.id()?)?;
    match caller.node() {
        Some(node) if *node == id => {}
        #[cfg(debug_assertions)]
        Some(_) if crate::runtime::broken::is("plane") => {}
        Some(_) => {
            let why = NotAdmitted::Mismatch(id).into();
            return Err(hub::Error::Refused(why).into());
        }
        None => {
            let message =
                "must be the node whose ticket the call shows: nobody else brings its events";
            return Err(Malformed::field("id", message).into());
        }
    }
    let request: PushRequest = parse(&call.body)?;
    check_place(&app, &id, &request).await?;
    let taken = take_in(&app.hub, &id, &request.epoch, &request.events, None).await?;
    app.hub.run(HearNode { node: id }).await?;
    Ok(Reply::ok(&PushResponse {
        last_seq: taken.last_seq,
        status: taken.status.to_string(),
    }))
}

pub async fn cursors(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let own = Own::read(&app.hub).await?.gateway;
    let cursors = app
        .hub
        .read(|reader| reader.privates(&Cursor::all()))
        .await?;
    let readers = app.hub.read(|reader| reader.privates(&Subscriber::all()));
    let readers = readers.await?;
    let now = app.hub.time();
    let cursors = cursors.iter();
    let cursors = cursors.map(|one: &Cursor| event_to_wire::cursor(one, &own.node_id));
    let readers = readers.iter();
    let readers = readers.map(|one: &Subscriber| event_to_wire::subscriber(one, &own, now));
    Ok(Reply::ok(&CursorsResponse {
        cursors: cursors.chain(readers).collect(),
    }))
}

pub async fn reset(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<ResetCursorRequest>(&app, &call).await?;
    let source = from_wire::node_id("id", &call.id()?)?;
    if request.after > limits::EVENT_SEQ_MAX {
        let message = format!("must be at most {}", limits::EVENT_SEQ_MAX);
        return Err(Malformed::field("after", message).into());
    }
    let own = node_id(&app.hub).await?;
    let to = Reset::After(request.after);
    let cursor = app.hub.run(ResetCursor { source, to }).await?;
    let mut reply = Reply::ok(&event_to_wire::cursor(&cursor, &own));
    reply.versionless = change.versionless;
    Ok(reply)
}

pub async fn orders(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: OrderQuery = call.query()?;
    let range = Order::range(query.ended.unwrap_or(false), page_size(query.limit)?);
    let found = app.hub.read(move |reader| reader.privates::<Order>(&range));
    let orders = found.await?;
    Ok(Reply::ok(&OrdersResponse {
        orders: orders.iter().map(event_to_wire::order).collect(),
    }))
}

/// They stand among the orders that ended, of which so many are looked at.
pub async fn dead_letters(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: DeadLetterQuery = call.query()?;
    let limit = page_size(query.limit)?;
    let found = app.hub.read(move |reader| {
        let mut range = Order::range(true, limits::PAGE_MAX);
        let (mut dead, mut looked_at) = (Vec::new(), 0);
        while dead.len() < limit && looked_at < limits::PAGE_SCAN_MAX {
            let page = reader.privates::<Order>(&range)?;
            let Some(last) = page.last() else { break };
            range.after = Record::from(last.clone()).place();
            looked_at += page.len();
            dead.extend(page.into_iter().filter(Order::is_dead));
        }
        dead.truncate(limit);
        Ok(dead)
    });
    let found: Vec<Order> = found.await?;
    Ok(Reply::ok(&DeadLettersResponse {
        dead_letters: found.iter().map(event_to_wire::order).collect(),
    }))
}

pub async fn resend(app: AppState, call: Call) -> Result<Reply, Failure> {
    let change = Change::new(&app, &call).await?;
    let verb = ResendOrder {
        event: EventId::from(call.id()?.as_ref()),
    };
    let render = |order: &Order| to_json(&event_to_wire::order(order));
    change.run(verb, 200, render).await
}

/// What a source no longer has is not waited for; one that has less than was read is another one.
async fn check_place(
    app: &AppState,
    source: &NodeId,
    request: &PushRequest,
) -> Result<(), Failure> {
    let id = source.to_string();
    let cursor = app.hub.read(move |reader| reader.private::<Cursor>(id));
    let last_seq = cursor.await?.map_or(0, |cursor| cursor.last_seq);
    // A page that comes late has less, too; its sender did not know yet how far it was read.
    let knows = request.after == Some(last_seq);
    let to = match (request.oldest_seq, request.latest_seq) {
        (_, Some(latest)) if knows && latest < last_seq => Reset::Mismatch,
        (Some(oldest), _) if oldest > last_seq + 1 => Reset::Expired { oldest },
        _ => return Ok(()),
    };
    let source = source.clone();
    app.hub.run(ResetCursor { source, to }).await?;
    Ok(())
}
