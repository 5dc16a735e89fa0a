//! A coordinator is about to run a program as somebody: one at a time, whoever runs it.

use super::Verb;
use crate::changes::Changes;
use crate::coordinators::Coordinators;
use crate::id::AgentId;
use crate::limits;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::run::Run;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginRun {
    pub id: String,
    pub agent: AgentId,
    pub place: String,
    pub by: String,
}

impl Verb for BeginRun {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Coordinators>("");
        want.privates::<Run>(&Run::all());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut want = Want::new(slice);
        let present = want.private::<Coordinators>("");
        let serves = |run: &Run| {
            let seen = present.and_then(|all| all.seen.get(&run.by));
            let is_heard = |seen: &Timestamp| now.since(*seen) <= limits::COORDINATOR_GONE_AFTER;
            run.by == self.by || seen.is_some_and(is_heard)
        };
        let runs = want.privates::<Run>(&Run::all());
        let other = runs
            .iter()
            .find(|run| run.agent == self.agent && serves(run));
        if let Some(run) = other {
            return Err(Refusal::Invalid {
                field: "agent",
                message: format!("{} runs already, since {}", run.agent, run.began_at.0),
            });
        }
        let mut changes = Changes::default();
        // Of places that never came back.
        if let Some(oldest) = runs.first().filter(|_| runs.len() >= limits::RUNS_MAX) {
            changes.remove::<Record>(Run::at(oldest.id.clone()));
        }
        changes.put(Run {
            id: self.id.clone(),
            agent: self.agent.clone(),
            place: self.place.clone(),
            by: self.by.clone(),
            began_at: now,
        });
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, word};
    use super::super::{Attend, EndRun};
    use super::*;

    fn begin(id: &str, agent: &str, by: &str) -> BeginRun {
        BeginRun {
            id: id.to_owned(),
            agent: agent.into(),
            place: "here".to_owned(),
            by: by.to_owned(),
        }
    }

    fn attend(swarm: &mut Swarm, me: &str) {
        swarm.ok(Attend {
            me: me.to_owned(),
            ended: Vec::new(),
        });
    }

    #[test]
    fn one_runs_at_a_time_unless_its_coordinator_is_gone() {
        let mut swarm = Swarm::new();
        attend(&mut swarm, "a");
        swarm.ok(begin("r1", "bg-1", "a"));
        for by in ["a", "b"] {
            assert_eq!(word(&swarm.run(begin("r2", "bg-1", by))), "invalid", "{by}");
        }
        swarm.ok(begin("r3", "bg-2", "b"));
        swarm.wait(limits::COORDINATOR_GONE_AFTER + Duration::from_millis(1));
        swarm.ok(begin("r4", "bg-1", "b"));
    }

    #[test]
    fn what_ended_makes_room_and_a_crash_is_an_incident() {
        let mut swarm = Swarm::new();
        let end = |crash: Option<&str>| EndRun {
            id: "r1".to_owned(),
            crash: crash.map(str::to_owned),
        };
        swarm.ok(begin("r1", "bg-1", "a"));
        assert!(swarm.ok(end(None)));
        assert!(!swarm.ok(end(Some("late"))), "it is over");
        swarm.ok(begin("r1", "bg-1", "a"));
        assert!(swarm.ok(end(Some("exit status: 3"))));
        let told = swarm.said.iter().filter(|event| {
            matches!(event, crate::Event::IncidentOpened { kind, subject, message, .. }
                if (&**kind, &**subject, &**message) == ("agent_crash", "bg-1", "exit status: 3"))
        });
        assert_eq!(told.count(), 1);
    }

    #[test]
    fn no_more_is_noted_than_is_useful() {
        let mut swarm = Swarm::new();
        for number in 0..=limits::RUNS_MAX {
            swarm.ok(begin(&format!("r{number}"), &format!("bg-{number}"), "a"));
            swarm.wait(Duration::from_millis(1));
        }
        let end = |id: &str| EndRun {
            id: id.to_owned(),
            crash: None,
        };
        assert!(!swarm.ok(end("r0")), "the oldest gave way");
        assert!(swarm.ok(end("r1")));
    }
}
