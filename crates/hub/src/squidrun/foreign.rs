//! Rows that send clients write into the journal themselves, before they send.
//!
//! One that the hub never sees under its id, because its trigger file was overwritten or the hub was down, is said from
//! the row. Where to read next: [`super::journal`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value};
use switchboard_core::{MessageId, Timestamp};
use switchboard_store::journal::Row;
use switchboard_wire::squidrun::{Addressees, CLI, Roles, Saying, Status, Target};

use super::directory::Context;
use super::entry::{Stage, merge};
use super::journal::{Follower, row_of};

/// Rows that are looked at in one go; the next look goes on behind them.
const ROWS_PER_LOOK: usize = 64;
/// A message that has not come by now will not come by itself.
const MISSED_AFTER: Duration = Duration::from_secs(10);
/// And this one nobody waits for any more.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
const NEVER_ARRIVED: &str = "never_arrived";

impl Follower {
    /// Looks at the next rows that others wrote.
    pub(super) async fn take_in_foreign(&mut self) {
        let after = self.looked;
        let recorded = Stage::Recorded.as_str();
        let found = self.with(move |journal| journal.of_status(recorded, after, ROWS_PER_LOOK));
        let Some(found) = found.await else {
            return;
        };
        self.looked = match found.last() {
            Some((place, _)) if found.len() == ROWS_PER_LOOK => *place,
            Some(_) | None => 0,
        };
        if found.is_empty() {
            return;
        }
        self.is_news = true;
        let (context, now) = (Arc::clone(&self.context), self.context.hub.wall());
        let (session, roles) = (self.session, Arc::clone(&context.roles));
        let known = context.hub.read(move |ledger| {
            let look = |(_, row): (i64, Row)| {
                let id = MessageId::from(row.message_id.as_str());
                Ok((row_of(ledger, &id, now, session, &roles)?, row))
            };
            found.into_iter().map(look).collect::<Result<Vec<_>, _>>()
        });
        let Ok(looked) = known.await else {
            return;
        };
        let rows = looked.into_iter().map(|(known, row)| async {
            match known {
                Some(known) => Some(known),
                None => consider(&context, row, now).await,
            }
        });
        let rows: Vec<Row> = join_all(rows).await.into_iter().flatten().collect();
        if !rows.is_empty() {
            self.with(move |journal| journal.put(&rows, None, merge))
                .await;
        }
    }
}

/// What is to be written of a row that the ledger knows nothing of. Those that are said are queued in their order.
async fn consider(context: &Context, row: Row, now: Timestamp) -> Option<Row> {
    let written_at = row.sent_at_ms.or(row.updated_at_ms).unwrap_or_default();
    let age = now.since(Timestamp(written_at));
    if age >= GIVEN_UP_AFTER {
        return Some(failed(&row, NEVER_ARRIVED, now));
    }
    let target = row.target_role.as_deref().unwrap_or_default();
    let is_role = matches!(context.roles.target(target), Some(Target::Role(_)));
    if age < MISSED_AFTER || !is_role || !context.trusts_files {
        return None;
    }
    match context.broker.say(saying(&row, &context.roles)).await {
        // Later, perhaps.
        Status::HandlerError => None,
        status if status.is_accepted() => {
            context.tally.recovered.fetch_add(1, Ordering::Relaxed);
            None
        }
        status => Some(failed(&row, status.as_str(), now)),
    }
}

fn saying(row: &Row, roles: &Roles) -> Saying {
    let metadata = row.metadata_json.as_deref().unwrap_or_default();
    let mut metadata: Map<String, Value> = serde_json::from_str(metadata).unwrap_or_default();
    metadata.insert("recovered".to_owned(), true.into());
    Saying {
        id: Some(row.message_id.clone()),
        from: roles.speaker(row.sender_role.as_deref().unwrap_or(CLI)),
        to: Addressees::One(row.target_role.clone().unwrap_or_default()),
        content: row.raw_body.clone().unwrap_or_default(),
        priority: None,
        metadata: Some(Value::Object(metadata).into()),
        trace: None,
        once: false,
    }
}

fn failed(row: &Row, why: &str, now: Timestamp) -> Row {
    Row {
        message_id: row.message_id.clone(),
        status: Some(Stage::Failed.as_str().to_owned()),
        error_code: Some(why.to_owned()),
        updated_at_ms: Some(now.0),
        ..Row::default()
    }
}
