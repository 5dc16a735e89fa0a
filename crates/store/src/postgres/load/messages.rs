//! Asks about messages, their deliveries and inboxes.

use std::collections::HashSet;

use switchboard_core::slice::{InboxAsk, InboxOrder};
use switchboard_core::{Ask, Delivery, Message, RowKey, limits};

use super::{Load, by_ordinal, load, select};
use crate::postgres::rows::{Batch, Behind, rows_max};
use crate::postgres::session::Query;
use crate::rows;
use crate::table::{MESSAGES, READ, qualified};

pub(super) fn loads<'a>(asks: &[&'a Ask], loads: &mut Vec<Load<'a>>) {
    let mut messages = Vec::new();
    let (mut deliveries, mut delivery_rows) = (Vec::new(), Batch::default());
    for ask in asks {
        match ask {
            Ask::Row(RowKey::Message(id)) => messages.push(id),
            Ask::Row(RowKey::Delivery((message, agent))) => {
                deliveries.push((message, agent));
                delivery_rows
                    .text(message.as_str())
                    .text(agent.as_str())
                    .end();
            }
            Ask::Inbox(ask) => loads.push(inbox(ask)),
            _ => unreachable!("only asks about messages come here"),
        }
    }
    if !messages.is_empty() {
        // The sum keeps the planner from the index on numbers, which it prefers for a table that was small when it planned.
        let query = select(
            rows::MESSAGE,
            "messages WHERE id = ANY($1) AND rev > 0 AND number + 0 > 0",
        );
        let query = query.texts(messages.iter().map(|id| id.as_str()));
        loads.push(load(query, move |rows, slice| {
            for row in &rows {
                slice.put_row(rows::message(row)?);
            }
            messages
                .into_iter()
                .for_each(|id| slice.load::<Message>(id.clone(), None));
            Ok(())
        }));
    }
    if !deliveries.is_empty() {
        let sql = format!(
            "SELECT {}, q.i FROM unnest($1, $2) WITH ORDINALITY AS q(m, a, i)
             JOIN messages ON messages.id = q.m JOIN sb_delivery d ON d.number = messages.number AND d.agent = q.a",
            qualified(rows::DELIVERY, "d")
        );
        loads.push(load(Query::rows(sql, delivery_rows), move |rows, slice| {
            let found = by_ordinal(deliveries.len(), &rows, rows::delivery)?;
            for ((message, agent), mut delivery) in deliveries.into_iter().zip(found) {
                slice.load::<Delivery>((message.clone(), agent.clone()), delivery.pop());
            }
            Ok(())
        }));
    }
}

/// Waiting messages, until their payloads are more than a verb hands out; the rest stays where it is.
fn inbox(ask: &InboxAsk) -> Load<'_> {
    let filter = if ask.kinds.is_empty() {
        ""
    } else {
        "AND m.type = ANY($3)"
    };
    let from = "sb_delivery d JOIN messages m ON m.number = d.number WHERE d.state = 'queued' AND d.agent = $1";
    let bytes_of = "coalesce(octet_length(m.payload), 4)";
    let (found, order) = match ask.order {
        InboxOrder::Oldest => {
            let columns = format!("d.number AS n, {bytes_of} AS bytes");
            (
                format!("SELECT {columns} FROM {from} {filter} ORDER BY d.number LIMIT $2"),
                "w.n",
            )
        }
        // Each part by its index, so that a long inbox is not sorted for its first few.
        InboxOrder::MostUrgent => {
            let part = |range: &str, order: &str| {
                let columns =
                    format!("coalesce(d.prio, 2) AS prio, d.number AS n, {bytes_of} AS bytes");
                format!(
                    "(SELECT {columns} FROM {from} AND d.prio {range} {filter} ORDER BY {order} LIMIT $2)"
                )
            };
            let urgent = part("< 2", "d.prio, d.number");
            let usual = part("IS NULL", "d.number");
            let low = part("> 2", "d.prio, d.number");
            let parts = format!("{urgent} UNION ALL {usual} UNION ALL {low}");
            (format!("{parts} ORDER BY prio, n LIMIT $2"), "w.prio, w.n")
        }
    };
    let sql = format!(
        "SELECT {message}, {delivery} FROM (
           SELECT w.*, sum(w.bytes) OVER (ORDER BY {order}) - w.bytes AS before FROM ({found}) w) w
         JOIN messages m ON m.number = w.n JOIN sb_delivery d ON d.number = w.n AND d.agent = $1
         WHERE w.before <= {bytes} ORDER BY {order}",
        message = qualified(rows::MESSAGE, "m"),
        delivery = qualified(rows::DELIVERY, "d"),
        bytes = 4 * limits::RECEIVE_BYTES,
    );
    let mut query = Query::new(sql)
        .text(ask.agent.as_str())
        .int(rows_max(ask.limit));
    if !ask.kinds.is_empty() {
        query = query.texts(ask.kinds.iter().map(String::as_str));
    }
    load(query, |found, slice| {
        let mut ids = Vec::with_capacity(found.len());
        let mut seen = HashSet::new();
        for row in &found {
            let message = rows::message(row)?;
            let delivery = rows::delivery(&Behind(row, MESSAGES.count(READ)))?;
            let id = message.id.clone();
            if seen.insert(id.clone()) {
                slice.put_row(message);
                slice.put_row(delivery);
                ids.push(id);
            }
        }
        slice.ranges.inbox.insert(ask.clone(), ids);
        Ok(())
    })
}
