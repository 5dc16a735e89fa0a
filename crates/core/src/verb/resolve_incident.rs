//! Somebody has looked after an incident.

use super::Verb;
use crate::changes::Changes;
use crate::incident::{Incident, Resolved};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveIncident {
    pub incident: String,
    pub by: String,
    pub why: String,
}

impl Verb for ResolveIncident {
    type Reply = Incident;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Incident>(self.incident.clone());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Incident, Changes), Refusal> {
        let known = Want::new(slice).private::<Incident>(self.incident.clone());
        let open = known.filter(|incident| incident.resolved.is_none());
        let Some(open) = open.cloned() else {
            return Err(Refusal::IncidentNotFound {
                incident: self.incident.clone(),
                is_resolved: known.is_some(),
            });
        };
        let mut changes = Changes::default();
        let resolved = Resolved {
            by: self.by.clone(),
            why: self.why.clone(),
            at: now,
        };
        Ok((open.resolve(&mut changes, resolved), changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, word};
    use super::super::{BeginEpoch, NoteStep};
    use super::*;
    use crate::event::Event;
    use crate::limits;
    use crate::record::Listed as _;

    const STEP: NoteStep = NoteStep { by_ms: 5000 };

    fn resolve(incident: &str) -> ResolveIncident {
        ResolveIncident {
            incident: incident.to_owned(),
            by: "ann".to_owned(),
            why: "the clock was wrong".to_owned(),
        }
    }

    fn incidents(swarm: &Swarm) -> Vec<(String, u64)> {
        let found = swarm.records.values().filter_map(Incident::of);
        found.map(|row| (row.id(), row.count)).collect()
    }

    #[test]
    fn what_happens_again_counts_in_the_open_incident_until_somebody_resolves_it() {
        let mut swarm = Swarm::new();
        swarm.ok(STEP);
        assert_eq!(swarm.said(), ["clock_stepped_forward", "incident_opened"]);
        let began = swarm.now;
        swarm.wait(Duration::from_secs(60));
        swarm.ok(STEP);
        assert_eq!(swarm.said(), ["clock_stepped_forward"], "it is known");
        assert_eq!(
            incidents(&swarm),
            [("clock_stepped:wall clock".to_owned(), 2)]
        );

        let resolved = swarm.ok(resolve("clock_stepped:wall clock"));
        assert_eq!(swarm.said(), ["incident_resolved"]);
        assert_eq!((resolved.first_at, resolved.count), (began, 2));
        assert_eq!(resolved.last_at, swarm.now);
        assert_eq!(resolved.resolved.as_ref().map(|end| &*end.by), Some("ann"));

        swarm.ok(STEP);
        assert_eq!(swarm.said(), ["clock_stepped_forward", "incident_opened"]);
        let open = ("clock_stepped:wall clock".to_owned(), 1);
        assert_eq!(incidents(&swarm), [open, (resolved.id(), 2)]);
    }

    #[test]
    fn only_what_is_open_can_be_resolved() {
        let mut swarm = Swarm::new();
        let unknown = swarm.run(resolve("clock_stepped:wall clock"));
        assert_eq!(word(&unknown), "incident_not_found");
        swarm.ok(STEP);
        let done = swarm.ok(resolve("clock_stepped:wall clock"));
        for id in ["clock_stepped:wall clock", &done.id()] {
            assert_eq!(word(&swarm.run(resolve(id))), "incident_not_found");
        }
    }

    #[test]
    fn a_ledger_that_lost_something_is_an_incident() {
        let mut swarm = Swarm::new();
        swarm.ok(BeginEpoch { told: 9, common: 7 });
        assert_eq!(
            incidents(&swarm),
            [("ledger_rewound:epoch 2".to_owned(), 1)]
        );
    }

    #[test]
    fn the_oldest_makes_room_when_too_many_are_open() {
        let mut swarm = Swarm::new();
        for told in 0..=limits::INCIDENTS_OPEN_MAX as u64 {
            swarm.wait(Duration::from_millis(1));
            swarm.ok(BeginEpoch { told, common: 0 });
        }
        let by_hub = swarm.said.iter().any(|event| {
            matches!(event, Event::IncidentResolved { incident, by, .. }
                if incident == "ledger_rewound:epoch 2" && by == crate::id::HUB)
        });
        assert!(by_hub, "{:?}", swarm.said);
        let found = swarm.records.values().filter_map(Incident::of);
        let open = found.filter(|row| row.resolved.is_none()).count();
        assert_eq!(open, limits::INCIDENTS_OPEN_MAX);
    }
}
