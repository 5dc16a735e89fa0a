//! The control plane as this node has it: records of what there is, never what is said.

use switchboard_core::capability::Capability;
use switchboard_core::cursor::{Announced, Cursor, CursorStatus, Neighbour};
use switchboard_core::node::Node;
use switchboard_core::outbox::Control;
use switchboard_core::query::Readable;
use switchboard_core::{Timestamp, limits};
use switchboard_wire::Json;
use switchboard_wire::runtime::{
    ControlResponse, NodeHealth, SignalPayload, event_to_wire, to_wire,
};

use super::Own;
use crate::hub::{Error, Hub};

pub async fn control(hub: &Hub) -> Result<ControlResponse, Error> {
    let own = Own::read(hub).await?;
    let (here, epoch) = (own.gateway.node_id.clone(), own.gateway.route_epoch.clone());
    let this = own.gateway.as_node(&own.signer.public_key());
    let now = hub.time();
    let records = hub.read(move |reader| records(reader, &this, now)).await?;
    Ok(ControlResponse {
        node_id: here.to_string(),
        epoch,
        records,
    })
}

/// Of every kind one after the other; a new kind of record is added here.
fn records<E>(
    reader: &dyn Readable<Error = E>,
    this: &Node,
    now: Timestamp,
) -> Result<Vec<SignalPayload>, E> {
    let mut records = vec![of_node(this, NodeHealth::Online)];
    for node in reader.nodes()? {
        records.push(of_node(&node, health(reader, &node, now)?));
    }
    for known in reader.privates(&Announced::all(limits::FAR_AGENTS_MAX))? {
        let known: Announced = known;
        let record = Control::Agent {
            agent: known.agent,
            is_live: known.is_live,
        };
        if known.is_live {
            records.push(event_to_wire::signal(known.rev, &record, &this.node_id));
        }
    }
    let own = Capability::of_node(&this.node_id, limits::CAPABILITIES_MAX);
    let own: Vec<Capability> = reader.privates(&own)?;
    let told = own.iter().flat_map(Capability::records);
    records.extend(told.map(|(rev, record)| event_to_wire::signal(rev, &record, &this.node_id)));
    Ok(records)
}

fn of_node(node: &Node, status: NodeHealth) -> SignalPayload {
    SignalPayload {
        path: format!("nodes.{}", node.node_id),
        rev: node.rev,
        record: Json::of(&to_wire::record(node, status)).unwrap_or_default(),
    }
}

/// Not heard of for longer than its lease: offline. Heard of, and nothing more is read of it: degraded.
fn health<E>(
    reader: &dyn Readable<Error = E>,
    node: &Node,
    now: Timestamp,
) -> Result<NodeHealth, E> {
    let known: Option<Neighbour> = reader.private(node.node_id.to_string())?;
    let heard_at = known.map_or(node.joined_at, |known| known.heard_at);
    let cursor: Option<Cursor> = reader.private(node.node_id.to_string())?;
    let status = cursor.map(|cursor| cursor.status);
    Ok(match status {
        _ if now >= heard_at + limits::OWNER_LEASE_FOR => NodeHealth::Offline,
        Some(CursorStatus::Gap | CursorStatus::Halted | CursorStatus::Expired) => {
            NodeHealth::Degraded
        }
        Some(CursorStatus::Active) | None => NodeHealth::Online,
    })
}

/// Whether nothing goes to and fro between this node and another: neither has an address.
pub fn is_cut<E>(reader: &dyn Readable<Error = E>, node: &Node) -> Result<bool, E> {
    // Who followed an invite of this node knows where it is.
    if node.vouched_by.is_none() {
        return Ok(false);
    }
    let own = reader.gateway()?;
    let has_none = node.endpoint.is_none() && own.is_some_and(|own| own.endpoint.is_none());
    Ok(has_none
        && reader
            .private::<Cursor>(node.node_id.to_string())?
            .is_none())
}
