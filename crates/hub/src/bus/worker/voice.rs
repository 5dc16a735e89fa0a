//! What the bus says to a worker over its stream.

use std::sync::Arc;

use switchboard_core::{AgentId, Received, Task};
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::to_wire;

use super::super::frame::{Frame, Outbox, send};
use super::super::server::BusState;
use crate::stream::{self, Held, Offer, Voice};

pub(super) struct Speaker {
    bus: Arc<BusState>,
    pub outbox: Arc<Outbox>,
}

impl Speaker {
    pub fn new(bus: &Arc<BusState>, outbox: &Arc<Outbox>) -> Speaker {
        Speaker {
            bus: Arc::clone(bus),
            outbox: Arc::clone(outbox),
        }
    }
}

impl Voice for Speaker {
    type Frame = Frame;

    fn outbox(&self) -> &stream::Outbox<Frame> {
        &self.outbox
    }

    fn offer(&self, task: &Task, offer: Offer) {
        let message = to_wire::assigned(task, offer == Offer::Resumed);
        for part in message.cut(self.bus.room("task_assigned.v1")) {
            send(&self.outbox, part);
        }
    }

    fn revoke(&self, held: &Held, reason: String) {
        let (claim, corr_id) = ((held.number, held.epoch), held.corr_id.clone());
        send(&self.outbox, to_wire::revoked(claim, reason, Some(corr_id)));
    }

    fn stop(&self, agent: &AgentId, reason: &str) {
        send(&self.outbox, to_wire::stop(agent, reason));
    }

    fn mail(&self, mail: Received) {
        let id = mail.message.id.clone();
        let mut parts = to_wire::mail(mail).cut(self.bus.room("agent_message.v1"));
        let last = parts.pop();
        for part in parts {
            send(&self.outbox, part);
        }
        if let Some(last) = last {
            self.outbox.push(Frame::Mail(Box::new(last.into()), id));
        }
    }
}
