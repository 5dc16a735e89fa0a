//! This node's outbox, in pages, for who has read up to a place.

use std::time::Duration;

use switchboard_core::EventId;
use switchboard_core::cursor::Watermark;
use switchboard_core::node::Gateway;
use switchboard_core::outbox::Outgoing;
use switchboard_core::query::Readable;
use switchboard_wire::runtime::{OutboxPage, event_to_wire};
use tokio::time::Instant;

use crate::call::Failure;
use crate::hub::Hub;

/// A page ends once its payloads are larger than this; it has one event at least.
const PAGE_BYTES: usize = 512 * 1024;
/// So many are read at a time.
const STEP: usize = 32;
/// What other coordinators write is looked for this often. What this one writes rings.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY_ALONE: Duration = Duration::from_secs(10);

/// How far somebody has read.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without it, from the oldest event on.
    pub after: Option<u64>,
    /// The event there, as the reader has it.
    pub last: Option<EventId>,
}

/// When whoever waits for an event looks again, unless it is rung before.
pub fn look_again(hub: &Hub) -> Instant {
    Instant::now()
        + match hub.is_shared() {
            true => LOOK_EVERY,
            false => LOOK_EVERY_ALONE,
        }
}

enum Found {
    Page(OutboxPage),
    Mismatch,
    Expired { oldest: u64 },
    NotYet,
}

pub async fn page(hub: &Hub, place: Place, limit: usize) -> Result<OutboxPage, Failure> {
    match hub.read(move |reader| find(reader, &place, limit)).await? {
        Found::Page(page) => Ok(page),
        Found::Mismatch => Err(Failure::EpochMismatch),
        Found::Expired { oldest } => Err(Failure::CursorExpired { oldest }),
        Found::NotYet => {
            let why = "it is not yet served".to_owned();
            Err(crate::hub::Error::Unavailable(why).into())
        }
    }
}

fn find<E>(reader: &dyn Readable<Error = E>, place: &Place, limit: usize) -> Result<Found, E> {
    let Some(own) = reader.private::<Gateway>("")? else {
        return Ok(Found::NotYet);
    };
    let latest = reader.head()?.outbox;
    let watermark = reader.private::<Watermark>("")?.unwrap_or_default();
    let oldest = watermark.seq + 1;
    let begins_after = place.after.unwrap_or(watermark.seq);
    if begins_after > latest || is_another(reader, place, &watermark)? {
        return Ok(Found::Mismatch);
    }
    if begins_after < watermark.seq {
        return Ok(Found::Expired { oldest });
    }
    let (mut events, mut bytes, mut after) = (Vec::new(), 0, begins_after);
    while events.len() < limit && bytes < PAGE_BYTES {
        let step = STEP.min(limit - events.len());
        let rows = reader.privates::<Outgoing>(&Outgoing::after(after, step))?;
        let Some(last) = rows.last() else { break };
        after = last.seq;
        for row in &rows {
            if bytes >= PAGE_BYTES {
                break;
            }
            let event = event_to_wire::event(row, &own.node_id);
            #[cfg(debug_assertions)]
            let event = super::broken::told(event);
            bytes += event.payload.get().len();
            events.push(event);
        }
    }
    Ok(Found::Page(OutboxPage {
        node_id: own.node_id.to_string(),
        epoch: own.route_epoch,
        oldest_seq: oldest,
        latest_seq: latest,
        events,
    }))
}

/// Whether something else is at the reader's place than it has read there.
fn is_another<E>(
    reader: &dyn Readable<Error = E>,
    place: &Place,
    watermark: &Watermark,
) -> Result<bool, E> {
    let (Some(last), Some(after)) = (&place.last, place.after) else {
        return Ok(false);
    };
    if after == 0 || after < watermark.seq {
        return Ok(false);
    }
    let there = match after == watermark.seq {
        true => watermark.event.clone(),
        false => {
            let row = reader.private::<Outgoing>(after.to_string())?;
            row.map(|row| row.event.id)
        }
    };
    Ok(there.as_ref() != Some(last))
}
