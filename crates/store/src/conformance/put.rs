//! A verb that writes what it is told, so that every kind of row can be written without a reason.

use switchboard_core::lane::LaneKey;
use switchboard_core::{Changes, Refusal, Slice, Timestamp, Verb, Want};

#[derive(Clone, Debug, Default)]
pub(super) struct Put(pub Changes);

impl Verb for Put {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let changes = &self.0;
        for agent in &changes.agents {
            want.agent(&agent.id);
        }
        for pulse in &changes.pulses {
            want.agent(&pulse.agent);
        }
        for former in &changes.forgotten_agents {
            want.agent(&former.id);
        }
        for task in &changes.tasks {
            if let Some(known) = want.task(&task.id) {
                want.lane_of(known);
            }
            want.lane_for(&LaneKey::of(task));
        }
        for id in &changes.forgotten_tasks {
            want.task(id);
        }
        let paths = changes.leases.iter().map(|lease| &lease.path);
        for path in paths.chain(&changes.ended_leases) {
            let _ = want.leases_near(path);
        }
        for message in &changes.messages {
            want.message(&message.id);
        }
        for delivery in &changes.deliveries {
            want.delivery(&delivery.message, &delivery.agent);
        }
        if changes.baseline.is_some() {
            want.baseline();
        }
        for (key, _) in &changes.remembered {
            want.remembered(key);
        }
        for nonce in &changes.nonces {
            want.nonce_was_seen(nonce);
        }
        for token in &changes.tokens {
            want.token(&token.id);
        }
    }

    fn decide(&self, _slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        Ok(((), self.0.clone()))
    }
}
