//! The ledger has less than was acknowledged, as after a failover that lost something or a restored backup: it goes on in
//! a new epoch.

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::head::LedgerEpoch;
use crate::incident::Alarm;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginEpoch {
    /// The last event that anybody was told of.
    pub told: u64,
    /// Up to here the ledger is as it was told.
    pub common: u64,
}

impl Verb for BeginEpoch {
    type Reply = LedgerEpoch;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        self.alarm(self.epoch(want.slice())).asks(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(LedgerEpoch, Changes), Refusal> {
        let epoch = self.epoch(slice);
        let mut changes = Changes {
            epoch: Some(epoch),
            ..Changes::default()
        };
        changes.event(Event::EpochBegan {
            epoch: epoch.number,
            after: epoch.after,
            told: self.told,
        });
        self.alarm(epoch).raise(slice, &mut changes, now);
        Ok((epoch, changes))
    }
}

impl BeginEpoch {
    fn epoch(&self, slice: &Slice) -> LedgerEpoch {
        LedgerEpoch {
            number: slice.head.epoch.number + 1,
            after: self.common.min(slice.head.seq),
        }
    }

    fn alarm(&self, epoch: LedgerEpoch) -> Alarm {
        Alarm {
            kind: "ledger_rewound",
            subject: format!("epoch {}", epoch.number),
            corr_id: None,
            message: format!(
                "events after {}{} were acknowledged and are lost, as after a backup was restored, a move was abandoned, or a failover to a standby that had not received them",
                epoch.after,
                match self.told > epoch.after {
                    true => format!(" up to {}", self.told),
                    false => String::new(),
                }
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Swarm;
    use super::*;

    #[test]
    fn an_epoch_begins_where_the_ledger_ends_or_where_it_parts_from_what_was_told() {
        let mut swarm = Swarm::new();
        swarm.ok(BeginEpoch { told: 9, common: 7 });
        let first = LedgerEpoch {
            number: 2,
            after: 0,
        };
        assert_eq!((swarm.head.epoch, swarm.head.seq), (first, 2));
        assert!(swarm.said().contains(&"epoch_began"));
        swarm.ok(BeginEpoch { told: 9, common: 0 });
        let second = LedgerEpoch {
            number: 3,
            after: 0,
        };
        assert_eq!(swarm.head.epoch, second);
        swarm.ok(BeginEpoch { told: 9, common: 1 });
        assert_eq!((swarm.head.epoch.after, swarm.head.seq), (1, 6));
    }
}
