//! Caretaker: a node has left. What it was sent and did not end is given up, and its agents are nobody here any more.

use super::chase_orders::{dead_letter, tell_dead};
use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::cursor::{FarAgent, Neighbour, Subscriber};
use crate::id::NodeId;
use crate::limits;
use crate::node::Gateway;
use crate::order::Order;
use crate::record::{Listed as _, Record, RecordRange};
use crate::refusal::Refusal;
use crate::route::{gateway, is_joined};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgetNode;

/// Why its orders end.
const LEFT: &str = "the node left";

impl Verb for ForgetNode {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let Some(gone) = next(want, now) else {
            return;
        };
        want.private::<Gateway>("");
        if is_joined(want, &gone.node) {
            return;
        }
        want.private::<Subscriber>(gone.node.to_string());
        for order in want.privates::<Order>(&orders(gone)) {
            if is_for(order, &gone.node) {
                dead_letter(order).asks(want);
            }
        }
        want.privates::<FarAgent>(&agents(gone));
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let mut changes = Changes::default();
        let Some(gone) = next(&mut want, now) else {
            let sweep = Sweep {
                done: 0,
                more: false,
            };
            return Ok((sweep, changes));
        };
        let more = Sweep {
            done: 1,
            more: true,
        };
        if is_joined(&mut want, &gone.node) {
            changes.put(Neighbour {
                is_gone: false,
                orders_upto: None,
                ..gone.clone()
            });
            return Ok((more, changes));
        }
        let here = gateway(&mut want)?;
        let found = want.privates::<Order>(&orders(gone));
        for order in found.iter().filter(|order| is_for(order, &gone.node)) {
            let mut order = (*order).clone();
            if order.lose(&gone.node, LEFT, now) {
                tell_dead(here, &order, LEFT, &mut changes, now);
                dead_letter(&order).raise(slice, &mut changes, now);
                changes.put(order);
            }
        }
        if let Some(last) = found.last() {
            let place = Record::from((*last).clone()).place();
            changes.put(Neighbour {
                orders_upto: place.map(|place| place.to_string()),
                ..gone.clone()
            });
            return Ok((more, changes));
        }
        let agents = want.privates::<FarAgent>(&agents(gone));
        for agent in &agents {
            changes.remove::<Record>(FarAgent::at(agent.agent.to_string()));
        }
        let left = u32::try_from(agents.len()).unwrap_or(u32::MAX);
        let key = gone.node.to_string();
        match agents.len() < limits::CARETAKER_STEP {
            true => {
                changes.remove::<Record>(Neighbour::at(key.clone()));
                if want.private::<Subscriber>(key.clone()).is_some() {
                    changes.remove::<Record>(Subscriber::at(key));
                }
            }
            false => changes.put(Neighbour {
                agents: gone.agents.saturating_sub(left),
                ..gone.clone()
            }),
        }
        Ok((more, changes))
    }
}

fn next<'a>(want: &mut Want<'a>, now: Timestamp) -> Option<&'a Neighbour> {
    want.due_privates::<Neighbour>(now, 1).first().copied()
}

fn agents(gone: &Neighbour) -> RecordRange {
    FarAgent::of_node(&gone.node, limits::CARETAKER_STEP)
}

/// The next of those that are open.
fn orders(gone: &Neighbour) -> RecordRange {
    let place = gone
        .orders_upto
        .as_ref()
        .and_then(|place| place.parse().ok());
    RecordRange {
        after: place,
        ..Order::range(false, limits::CARETAKER_STEP)
    }
}

fn is_for(order: &Order, node: &NodeId) -> bool {
    order.destinations.iter().any(|one| one.node == *node)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, joined, publish};
    use super::super::{KeepNode, LeaveNode, Publish};
    use super::*;
    use crate::id::AgentId;
    use crate::order::Delivered;

    fn far(swarm: &mut Swarm, node: &str, agents: &[String]) {
        for agent in agents {
            let row: Record = FarAgent {
                agent: agent.as_str().into(),
                home_id: agent.as_str().into(),
                node: node.into(),
                rev: 1,
                is_live: true,
            }
            .into();
            swarm.records.insert(row.key(), row);
        }
    }

    fn count<T: crate::record::Listed>(swarm: &Swarm) -> usize {
        swarm.records.values().filter_map(T::of).count()
    }

    fn sweep(swarm: &mut Swarm) {
        while swarm.ok(ForgetNode).more {}
    }

    fn leave(swarm: &mut Swarm, node: &str) {
        swarm.ok(LeaveNode {
            node: node.into(),
            by: "ann".to_owned(),
        });
    }

    #[test]
    fn what_a_node_was_sent_is_given_up_and_its_agents_are_nobody_once_it_has_left() {
        let mut swarm = Swarm::new();
        joined(&mut swarm, "far");
        swarm.ok(KeepNode {
            node: super::super::testing::node("other"),
        });
        swarm.join("A", &[]);
        let names: Vec<String> = (0..=limits::CARETAKER_STEP)
            .map(|n| format!("f{n}"))
            .collect();
        far(&mut swarm, "far", &names);
        far(&mut swarm, "other", &["o".to_owned()]);
        let many = limits::CARETAKER_STEP + 1;
        for n in 0..many {
            let to = if n % 2 == 0 { "f1" } else { "o" };
            swarm.ok(publish(&format!("evt_{n}"), "A", &[to]));
        }
        leave(&mut swarm, "far");
        sweep(&mut swarm);
        let orders: Vec<&Order> = swarm.records.values().filter_map(Order::of).collect();
        assert_eq!(orders.len(), many);
        for order in orders {
            let (one, ended) = (&order.destinations[0], order.ended_at.is_some());
            let is_dead = one.state == Delivered::Dead;
            assert_eq!(is_dead, one.node.as_str() == "far");
            assert_eq!(ended, is_dead);
        }
        assert_eq!(count::<FarAgent>(&swarm), 1, "the other's");
        assert_eq!(count::<Neighbour>(&swarm), 0);
        let nobody = publish("evt_late", "A", &["f1"]);
        assert!(swarm.run::<Publish>(nobody).is_err());
        let again = swarm.ok(publish("evt_more", "A", &["o"]));
        assert_eq!(again.recipients, [AgentId::from("o")]);
    }

    #[test]
    fn a_node_that_has_come_back_meanwhile_is_not_forgotten() {
        let mut swarm = Swarm::new();
        joined(&mut swarm, "far");
        swarm.join("A", &[]);
        far(&mut swarm, "far", &["f".to_owned()]);
        leave(&mut swarm, "far");
        let mut node = super::super::testing::node("far");
        node.public_key = "far".to_owned();
        swarm.ok(KeepNode { node });
        sweep(&mut swarm);
        assert_eq!(count::<FarAgent>(&swarm), 1);
        assert_eq!(swarm.ok(ForgetNode).done, 0);
    }
}
