//! Takes in pages of another node's outbox, however they come.

use std::collections::BTreeMap;

use switchboard_core::NodeId;
use switchboard_core::cursor::{Cursor, CursorStatus};
use switchboard_core::duty::Fence;
use switchboard_core::limits;
use switchboard_core::outbox::{Dispatch, News};
use switchboard_core::verb::{Consume, TakenIn};
use switchboard_wire::runtime::{Event, Trace, event_from_wire};
use switchboard_wire::{Json, Malformed};

use crate::call::Failure;
use crate::hub::Hub;

/// Deliveries of one piece of a page, which is one commit.
const DELIVERIES_MAX: usize = 1000;

/// How far the events of a source are taken.
pub struct Taken {
    pub last_seq: u64,
    pub status: CursorStatus,
}

/// Takes in what follows, in order. Nothing is taken of a page whose envelopes are wrong.
pub async fn take_in(
    hub: &Hub,
    source: &NodeId,
    epoch: &str,
    events: &[Event],
    fence: Option<Fence>,
) -> Result<Taken, Failure> {
    let verbs = read(hub, source, epoch, events, fence)?;
    let id = source.to_string();
    let cursor = hub.read(move |reader| reader.private::<Cursor>(id)).await?;
    let mut taken = Taken {
        last_seq: cursor.as_ref().map_or(0, |cursor| cursor.last_seq),
        status: cursor.map_or(CursorStatus::Active, |cursor| cursor.status),
    };
    let mut verbs = verbs.into_iter().peekable();
    while verbs.peek().is_some() {
        let (mut piece, mut deliveries) = (Vec::new(), 0);
        while deliveries < DELIVERIES_MAX
            && let Some(verb) = verbs.next()
        {
            deliveries += recipients(&verb.event);
            piece.push(verb);
        }
        for consumed in hub.run_together(piece).await? {
            (taken.last_seq, taken.status) = (consumed.last_seq, consumed.status);
            if matches!(consumed.outcome, TakenIn::Missing | TakenIn::Halted) {
                return Ok(taken);
            }
        }
    }
    Ok(taken)
}

fn recipients(event: &Dispatch) -> usize {
    match &event.news {
        News::Message(letter) => letter.to.len().max(1),
        _ => 1,
    }
}

fn read(
    hub: &Hub,
    source: &NodeId,
    epoch: &str,
    events: &[Event],
    fence: Option<Fence>,
) -> Result<Vec<Consume>, Failure> {
    if events.len() > limits::OUTBOX_PAGE_MAX {
        let message = format!("must have at most {} items", limits::OUTBOX_PAGE_MAX);
        return Err(Malformed::field("events", message).into());
    }
    if epoch.is_empty() || epoch.len() > limits::NAME_BYTES_MAX {
        let message = "must be the epoch of the outbox, as the source tells it";
        return Err(Malformed::field("epoch", message).into());
    }
    #[cfg(debug_assertions)]
    let epoch = super::broken::epoch(epoch);
    let mut verbs = Vec::with_capacity(events.len());
    for (at, event) in events.iter().enumerate() {
        let place = |wrong: Malformed| Malformed {
            field: wrong.field.map(|field| format!("events[{at}].{field}")),
            ..wrong
        };
        #[cfg(debug_assertions)]
        let event = &super::broken::heard(event, source.as_str());
        if event.source_node_id != source.as_str() {
            let message = format!("must be {source}: a node brings only its own events");
            return Err(place(Malformed::field("sourceNodeId", message)).into());
        }
        verbs.push(Consume {
            source: source.clone(),
            epoch: epoch.to_owned(),
            seq: event.seq,
            event: dispatch(event).map_err(place)?,
            payload: event.payload.get().into(),
            installed: event_from_wire::installed(event),
            gap: hub.shared.runtime.gap,
            fence,
        });
    }
    Ok(verbs)
}

/// A payload that is not what its kind says is passed over, as a kind is that nobody knows: it must not hold up others.
fn dispatch(event: &Event) -> Result<Dispatch, Malformed> {
    match event_from_wire::event(event) {
        Err(wrong) if is_in_payload(&wrong) => {
            let (id, kind) = (&event.event_id, &event.kind);
            tracing::warn!(event.id = %id, "the {kind} {id} is passed over: {wrong}");
            let plain = Event {
                kind: "malformed".to_owned(),
                payload: Json::default(),
                trace: Trace {
                    to_nodes: BTreeMap::new(),
                    ..event.trace.clone()
                },
                ..event.clone()
            };
            let read = event_from_wire::event(&plain)?;
            Ok(Dispatch {
                news: News::Other {
                    kind: kind.clone(),
                    payload: "null".into(),
                    wrong: Some(wrong.to_string()),
                },
                ..read
            })
        }
        read => read,
    }
}

fn is_in_payload(wrong: &Malformed) -> bool {
    let field = wrong.field.as_deref().unwrap_or_default();
    field == "payload" || field.starts_with("payload.") || field == "trace.toNodes"
}
