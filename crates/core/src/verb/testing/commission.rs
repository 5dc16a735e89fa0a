//! A task that one agent publishes for another.

use super::{Swarm, joined, publish};
use crate::id::AgentId;
use crate::outbox::Commission;
use crate::task::Priority;
use crate::verb::{Publication, Publish};

/// A task that A publishes.
pub(crate) fn publish_task(id: &str, to: &[&str], response_required: bool) -> Publish {
    Publish {
        event: format!("evt_{id}").into(),
        corr_id: format!("corr_{id}").into(),
        what: Publication::Task(Box::new(Commission {
            task: id.into(),
            title: "do it".to_owned(),
            description: None,
            to: to.iter().map(|id| AgentId::from(*id)).collect(),
            required: Vec::new(),
            priority: Priority::High,
            requester: "A".into(),
            response_required,
            deadline_at: None,
            installs: None,
        })),
        sum: 7,
        ..publish("", "A", &[])
    }
}

/// A node with A and B, where A asked B for the task T.
pub(crate) fn commissioned(response_required: bool) -> Swarm {
    let mut swarm = Swarm::new();
    joined(&mut swarm, "far");
    swarm.join("A", &[]);
    swarm.join("B", &[]);
    swarm.ok(publish_task("T", &["B"], response_required));
    swarm
}
