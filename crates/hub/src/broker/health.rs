//! Whether there is a way to a target right now.

use std::sync::Arc;

use switchboard_core::{Agent, AgentId, Timestamp};
use switchboard_wire::squidrun::frame::{HealthCheck, Outbound};
use switchboard_wire::squidrun::{Target, to_wire};

use super::state::Broker;

impl Broker {
    pub(super) async fn health(self: Arc<Self>, asked: HealthCheck) -> Outbound {
        let seen = match self.roles().target(&asked.target) {
            Some(target @ (Target::Role(_) | Target::Slot { .. })) => {
                self.last_seen(target.id()).await
            }
            Some(Target::User | Target::Telegram) | None => None,
        };
        to_wire::health(asked, self.roles(), |_| seen, self.hub.wall())
    }

    /// When it was last heard of, by a connection here or wherever else it is.
    async fn last_seen(&self, id: AgentId) -> Option<Timestamp> {
        if let Some(seen) = self.seen_ms(&id) {
            return Some(Timestamp(seen));
        }
        let read = self.hub.read(move |ledger| ledger.agent(&id)).await;
        let mut agent = read.ok().flatten().filter(Agent::is_live)?;
        self.hub.freshen(&mut agent);
        // The ledger's clock may differ from the wall's.
        Some(Timestamp(agent.seen_at.0 + self.hub.wall_ahead_ms()))
    }
}
