//! A skill that agents of this node are asked to install: one task of another node, and here one for each agent.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, CorrId, EventId, NodeId, TaskId};
use crate::record::Private;

/// How far the parts of such a task are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The whole, as the node that gave it calls it.
    pub task: TaskId,
    pub origin: NodeId,
    /// The event that gave it.
    pub event: EventId,
    pub corr_id: CorrId,
    /// Who has neither confirmed nor let it lapse.
    pub waiting: Vec<AgentId>,
    pub confirmed: u32,
    pub asked: u32,
}

impl Private for Distribution {
    fn key(&self) -> Cow<'static, str> {
        self.task.to_string().into()
    }
}
