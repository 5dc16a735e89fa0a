//! A verb that writes what it is told, so that every kind of row can be written without a reason.

use switchboard_core::lane::LaneKey;
use switchboard_core::{
    Changes, Delivery, Noun as _, Refusal, Row, RowKey, Slice, Timestamp, Verb, Want,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Put(pub Changes);

impl Verb for Put {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let changes = &self.0;
        for pulse in &changes.pulses {
            want.agent(&pulse.agent);
        }
        for row in &changes.puts {
            match row {
                Row::Agent(agent) => drop(want.agent(&agent.id)),
                Row::FormerAgent(former) => drop(want.agent(&former.id)),
                Row::Task(task) => {
                    if let Some(known) = want.task(&task.id) {
                        want.lane_of(known);
                    }
                    want.lane_for(&LaneKey::of(task));
                }
                Row::Lease(lease) => drop(want.leases_near(&lease.path)),
                Row::Message(message) => drop(want.message(&message.id)),
                Row::Delivery(delivery) => drop(want.row::<Delivery>(&delivery.key())),
                Row::Baseline(_) => drop(want.baseline()),
                Row::Remembered(remembered) => drop(want.remembered(&remembered.key)),
                Row::Nonce(nonce) => drop(want.nonce_was_seen(nonce)),
                Row::Token(token) => drop(want.token(&token.id)),
                Row::Record(record) => drop(want.record(&record.key())),
                Row::Attempt(_) | Row::Snapshot(_) | Row::Learning(_) => {}
            }
        }
        for key in &changes.drops {
            match key {
                RowKey::Agent(id) => drop(want.agent(id)),
                RowKey::Task(id) => drop(want.task(id)),
                RowKey::Lease(path) => drop(want.leases_near(path)),
                RowKey::Record(key) => drop(want.record(key)),
                _ => {}
            }
        }
    }

    fn decide(&self, _slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        Ok(((), self.0.clone()))
    }
}
