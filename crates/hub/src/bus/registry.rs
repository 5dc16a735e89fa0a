//! Who is connected to this coordinator, and how to send them something.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::AgentId;
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::message::Outbound;

use super::frame::{Frame, Outbox};
use crate::stream::Ended;

#[derive(Default)]
pub(super) struct Registry {
    workers: Mutex<HashMap<AgentId, Arc<Outbox>>>,
    operators: Mutex<HashMap<AgentId, Arc<Outbox>>>,
}

impl Registry {
    /// The newer connection of an id wins; the older one is told why it ends.
    pub fn enter(&self, role: Role, id: &AgentId, outbox: &Arc<Outbox>) {
        let before = self.of(role).lock().insert(id.clone(), Arc::clone(outbox));
        if let Some(before) = before {
            before.end(Ended::Replaced);
        }
    }

    /// True if no newer connection has taken the place.
    pub fn leave(&self, role: Role, id: &AgentId, outbox: &Arc<Outbox>) -> bool {
        let mut here = self.of(role).lock();
        let is_last = here
            .get(id)
            .is_some_and(|present| Arc::ptr_eq(present, outbox));
        if is_last {
            here.remove(id);
        }
        is_last
    }

    /// False if the worker is not connected here.
    pub fn send(&self, worker: &AgentId, message: Outbound<'static>) -> bool {
        let outbox = self.workers.lock().get(worker).cloned();
        outbox.is_some_and(|outbox| outbox.push(Frame::Message(Box::new(message))))
    }

    pub fn to_workers(&self, message: &Outbound<'static>) {
        let workers: Vec<_> = self.workers.lock().values().cloned().collect();
        for outbox in workers {
            outbox.push(Frame::Message(Box::new(message.clone())));
        }
    }

    pub fn to_operators(&self, frame: impl Fn() -> Frame) {
        for outbox in self.operator_outboxes() {
            outbox.push(frame());
        }
    }

    pub fn operator_outboxes(&self) -> Vec<Arc<Outbox>> {
        self.operators.lock().values().cloned().collect()
    }

    pub fn operators(&self) -> usize {
        self.operators.lock().len()
    }

    pub fn workers(&self) -> usize {
        self.workers.lock().len()
    }

    fn of(&self, role: Role) -> &Mutex<HashMap<AgentId, Arc<Outbox>>> {
        match role {
            Role::Worker => &self.workers,
            Role::Operator | Role::Director => &self.operators,
        }
    }
}
