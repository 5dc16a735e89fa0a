//! What must be so once everything has come to its end.

use std::collections::BTreeSet;

use super::station::Station;
use super::world::World;
use crate::id::{AgentId, EventId, MessageId, NodeId};
use crate::message::DeliveryState;
use crate::order::{Delivered, Destination, Order, TaskOrderState};
use crate::outbox::Outgoing;
use crate::task::{TaskState, TaskStatus};

/// Incidents by which a person hears that events of a node may be lost to another.
const LOSSES: [&str; 4] = [
    "epoch_mismatch",
    "cursor_expired",
    "outbox_gap",
    "outbox_tombstone",
];

pub fn all(world: &World) {
    for station in &world.stations {
        numbers_have_no_gap(station);
        mail_came_once(station);
        for (event, (_, published)) in &station.facts.published {
            let order = station.order(event);
            let order = order.unwrap_or_else(|| panic!("{event} of {} is forgotten", station.id));
            assert_eq!(order.recipients, published.recipients, "{event}");
            see(world, station, order);
        }
    }
    each_task_is_at_one_node(world);
}

fn numbers_have_no_gap(station: &Station) {
    let mut seqs: Vec<u64> = station.rows::<Outgoing>().map(|row| row.seq).collect();
    seqs.sort_unstable();
    let last = station.swarm.head.outbox;
    let expected: Vec<u64> = (last + 1 - seqs.len() as u64..=last).collect();
    assert_eq!(seqs, expected, "the outbox of {}", station.id);
}

/// Whatever an agent was handed, it was handed once; and what was handed over is known to be.
fn mail_came_once(station: &Station) {
    for (key, count) in &station.facts.received {
        assert_eq!(*count, 1, "{key:?} at {}", station.id);
    }
    for delivery in station.swarm.deliveries.values() {
        let key = (delivery.agent.clone(), delivery.message.clone());
        let was_handed = match delivery.state {
            DeliveryState::Handed | DeliveryState::Acknowledged => true,
            DeliveryState::Queued | DeliveryState::Expired | DeliveryState::Failed => false,
        };
        let known = station.facts.received.contains_key(&key);
        assert_eq!(known, was_handed, "{key:?} at {}", station.id);
    }
}

fn see(world: &World, station: &Station, order: &Order) {
    let far: usize = order.destinations.iter().map(|one| one.agents.len()).sum();
    if order.task.is_none() {
        let here = mail(station, &order.event);
        assert_eq!(here.len(), order.recipients.len() - far, "{order:?}");
    }
    for one in &order.destinations {
        let there = world.station(&one.node);
        match order.task {
            None => see_message(station, there, order, one),
            Some(_) => see_task(station, there, order, one),
        }
    }
}

/// Who has a delivery of an event at a node.
fn mail(station: &Station, event: &EventId) -> BTreeSet<AgentId> {
    let message = MessageId::from(event.as_str());
    let of = station.swarm.deliveries.values();
    let of = of.filter(|one| one.message == message);
    of.map(|one| one.agent.clone()).collect()
}

fn see_message(station: &Station, there: &Station, order: &Order, one: &Destination) {
    let has = mail(there, &order.event);
    let what = || {
        format!(
            "{} from {} at {}: {one:?}, {has:?}",
            order.event, station.id, there.id
        )
    };
    match one.state {
        Delivered::Emitted => panic!("nobody ever answered {}", what()),
        Delivered::Accepted | Delivered::Processed => {
            // Who had left by then gets nothing.
            let steady = one.agents.iter();
            let mut steady = steady.filter(|agent| !there.facts.left.contains(*agent));
            let is_well = steady.all(|agent| has.contains(agent));
            assert!(is_well || is_told(station, there), "{}", what());
        }
        Delivered::Failed => {
            assert!(one.reason.is_some(), "{}", what());
            assert!(has.is_empty() || is_told(station, there), "{}", what());
        }
        Delivered::Dead => assert!(is_dead_letter(station, order), "{}", what()),
    }
}

fn see_task(station: &Station, there: &Station, order: &Order, one: &Destination) {
    let task = order.task.as_ref().expect("it is a task");
    let row = there.given().find(|(event, _)| **event == order.event);
    let row = row.map(|(_, row)| row);
    let what = || {
        let row = row.map(|row| &row.state);
        format!(
            "{} of {} at {}: {order:?}, {row:?}",
            task.task, station.id, there.id
        )
    };
    let excused = || is_told(station, there);
    match one.state {
        Delivered::Emitted => panic!("nobody ever answered {}", what()),
        Delivered::Accepted => assert!(is_overdue(station, order), "{}", what()),
        Delivered::Processed => {
            let state = row.map(|row| &row.state);
            let agrees = match task.state {
                TaskOrderState::Done => matches!(state, Some(TaskState::Completed { .. })),
                TaskOrderState::Failed => {
                    matches!(
                        state,
                        Some(TaskState::Failed { .. } | TaskState::Canceled { .. })
                    )
                }
                _ => false,
            };
            assert!(agrees || excused(), "{}", what());
        }
        Delivered::Failed => assert!(row.is_none() || excused(), "{}", what()),
        Delivered::Dead => assert!(is_dead_letter(station, order), "{}", what()),
    }
    if task.response_required && !station.facts.left.contains(&task.requester) {
        let heard = |kind: &str| {
            let of = station.swarm.messages.values();
            let of = of.filter(|one| one.corr_id == order.corr_id && one.kind == kind);
            of.filter(|one| !mail(station, &one.id.as_str().into()).is_empty())
                .count()
        };
        let (done, failed) = (heard("task.completed"), heard("task.failed"));
        let expected = match task.state {
            TaskOrderState::Done => (1, 0),
            TaskOrderState::Failed => (0, 1),
            _ => (0, 0),
        };
        assert!(
            (done, failed) == expected || excused(),
            "{done} {failed} {}",
            what()
        );
    }
}

/// A person was told that one of the two may have lost events of the other.
fn is_told(one: &Station, other: &Station) -> bool {
    let knows = |here: &Station, there: &NodeId| {
        LOSSES.iter().any(|kind| {
            let mut subjects = here.alarms(kind);
            subjects.any(|subject| subject.split(' ').next() == Some(there.as_str()))
        })
    };
    knows(one, &other.id) || knows(other, &one.id)
}

fn is_dead_letter(station: &Station, order: &Order) -> bool {
    let mut letters = station.alarms("dead_letter");
    letters.any(|subject| subject == order.event.as_str())
}

fn is_overdue(station: &Station, order: &Order) -> bool {
    let mut overdue = station.alarms("outcome_overdue");
    overdue.any(|subject| subject == order.event.as_str())
}

/// Unless its requester was restored, and gave it anew.
pub fn each_task_is_at_one_node(world: &World) {
    for station in world.stations.iter().filter(|one| !one.was_restored) {
        for event in station.facts.published.keys() {
            let at = world.stations.iter().filter(|one| {
                let mut given = one.given();
                given.any(|(known, _)| known == event)
            });
            let at: Vec<&NodeId> = at.map(|one| &one.id).collect();
            assert!(at.len() <= 1, "the task of {event} is at {at:?}");
        }
    }
    for station in &world.stations {
        for (task, count) in &station.facts.completed {
            let row = station.swarm.task(task.as_str());
            assert_eq!((*count, row.status()), (1, TaskStatus::Completed), "{task}");
        }
    }
}
