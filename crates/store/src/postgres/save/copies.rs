//! Messages to several and to everyone, for agents that read the table themselves: a row for each, so that reading it is one agent's own deed.

use switchboard_core::changes::AdoptedRow;
use switchboard_core::slice::Save;
use switchboard_core::{Delivery, Message};

use crate::postgres::rows::{Batch, signed};
use crate::postgres::session::Query;
use crate::text::Iso;

// Whoever took a copy's id before has a message of that name.
const COPY: &str = "INSERT INTO messages(number, id, type, from_agent, to_agent, payload, ack_required, expires_at, created_at, rev, copy_of)
   SELECT least(0, (SELECT min(number) FROM messages)) - row_number() OVER (), m.id || ':' || s.id, m.type, m.from_agent, s.id,
     m.payload, m.ack_required, m.expires_at, m.created_at, m.rev, m.number
   FROM messages m JOIN sb_delivery d ON d.number = m.number JOIN sb_sql_agent s ON s.id = d.agent
   WHERE m.number = ANY($1) ON CONFLICT (id) DO NOTHING";

const MARK: &str =
    "UPDATE messages c SET delivered_at = v.delivered_at, acknowledged_at = v.acknowledged_at, acknowledged_by = v.acknowledged_by
     FROM unnest($1, $2, $3, $4, $5) AS v(number, agent, delivered_at, acknowledged_at, acknowledged_by)
     WHERE c.copy_of = v.number AND c.to_agent = v.agent";

/// Whatever a hand made of the copies of these messages, they show what became of their deliveries.
const RESTORE: &str =
    "UPDATE messages c SET delivered_at = v.delivered_at, acknowledged_at = v.acknowledged_at,
       acknowledged_by = CASE WHEN v.acknowledged_at IS NOT NULL THEN c.to_agent END
     FROM (SELECT d.number, d.agent,
         to_char(timestamp '1970-01-01' + d.delivered_at * interval '1 ms', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') AS delivered_at,
         to_char(timestamp '1970-01-01' + d.acknowledged_at * interval '1 ms', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') AS acknowledged_at
       FROM messages m JOIN sb_delivery d ON d.number = m.number WHERE m.id = ANY($1)) v
     WHERE c.copy_of = v.number AND c.to_agent = v.agent";

pub(super) fn save(save: &Save<'_>, queries: &mut Vec<Query>) {
    let adopted = save
        .adopted
        .iter()
        .filter_map(|adopted| match &adopted.row {
            AdoptedRow::Message(id) => Some(id.as_str()),
            AdoptedRow::Task(_)
            | AdoptedRow::Agent(_)
            | AdoptedRow::Lease(_)
            | AdoptedRow::Baseline => None,
        });
    let adopted: Vec<&str> = adopted.collect();
    if !adopted.is_empty() {
        queries.push(Query::new(RESTORE).texts(adopted));
    }
    let new = save.puts::<Message>().filter(|(_, put)| put.is_new);
    let shared: Vec<i64> = new
        .filter(|(message, _)| message.to.one().is_none())
        .map(|(message, _)| signed(message.number))
        .collect();
    if !shared.is_empty() {
        queries.push(Query::new(COPY).ints(shared));
    }
    let mut marked = Batch::default();
    for (delivery, _) in save.puts::<Delivery>().filter(|(_, put)| !put.is_new) {
        let delivered_at = delivery.delivered_at.map(Iso::new);
        let acknowledged_at = delivery.acknowledged_at.map(Iso::new);
        let by = acknowledged_at.as_ref().map(|_| delivery.agent.as_str());
        marked
            .count(delivery.number)
            .text(delivery.agent.as_str())
            .text(delivered_at.as_ref().map(Iso::as_str))
            .text(acknowledged_at.as_ref().map(Iso::as_str))
            .text(by)
            .end();
    }
    super::push(queries, MARK, marked);
}
