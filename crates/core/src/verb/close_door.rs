//! An agent leaves by one door: what it holds by it goes back unspent.
//!
//! Whoever is there by no other one signs off, unless the door keeps those who leave by it.

use super::ending::GiveBack;
use super::hand::{queue_again, want_unacknowledged};
use super::{Deregister, Verb, speaker};
use crate::agent::{Agent, Presence};
use crate::changes::Changes;
use crate::doors::Door;
use crate::event::Event;
use crate::id::AgentId;
use crate::message::Delivery;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseDoor {
    pub agent: AgentId,
    pub door: Door,
}

const BACK: GiveBack = GiveBack {
    crashed: false,
    why: "its worker left",
};

impl Verb for CloseDoor {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(agent) = want.agent(&self.agent) {
            BACK.asks_all(want, agent);
            want_unacknowledged(want, agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        if self.door.policy().keeps {
            return Ok(((), self.keep(known, now)));
        }
        if known.doors.iter().all(|door| *door == self.door) {
            let agent = self.agent.clone();
            return Deregister { agent }.decide(slice, now);
        }
        let (mut changes, mut agent) = (Changes::default(), known.clone());
        let streams = self.door.policy().streams;
        for task in known.holds.iter().filter_map(|id| slice.task(id)) {
            // What is watched was pushed over a stream.
            if task.watch.is_some() == streams {
                BACK.apply(slice, &mut changes, task, &mut agent, now);
            }
        }
        agent.close_door(self.door);
        if streams {
            agent.stream.name = None;
            let is_its = |row: &Delivery| row.via.is_none_or(|via| via == self.door);
            queue_again(slice, &mut changes, &mut agent, is_its, now);
        }
        changes.put(agent);
        Ok(((), changes))
    }
}

impl CloseDoor {
    /// It stays known, with its tasks and its mail, and is away if it is there by no other door.
    fn keep(&self, known: &Agent, now: Timestamp) -> Changes {
        let (mut changes, mut agent) = (Changes::default(), known.clone());
        agent.close_door(self.door);
        if agent.doors.is_empty() && known.is_live() {
            agent.presence = Presence::Silent { since: now };
            agent.silent_after = None;
            changes.event(Event::AgentStatusChanged {
                agent: agent.id.clone(),
                status: agent.status().to_owned(),
                task: agent.current.as_ref().map(|current| current.task.clone()),
            });
        }
        if agent.doors != known.doors {
            changes.put(agent);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, assign, join_bus, register, word};
    use super::*;
    use crate::attempt::Outcome;
    use crate::limits;
    use crate::task::TaskStatus;
    use crate::verb::{Claimed, Join};

    fn leave() -> CloseDoor {
        CloseDoor {
            agent: "A".into(),
            door: Door::Bus,
        }
    }

    #[test]
    fn who_may_leave_by_standing() {
        for standing in Standing::ALL {
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "ok",
            };
            let outcome = Swarm::with_agent(standing).run(leave());
            assert_eq!(word(&outcome), expected, "{standing:?}");
        }
    }

    #[test]
    fn its_task_goes_back_unspent_and_nothing_more_is_pushed_to_it() {
        let mut swarm = Swarm::new();
        swarm.ok(join_bus("A"));
        for id in ["T", "U"] {
            swarm.add(id);
        }
        assert!(matches!(swarm.ok(assign("A")), Claimed::Task(_)));
        swarm.ok(leave());
        let task = swarm.task("T");
        assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 0));
        assert!(task.previous_agents.is_empty());
        assert_eq!(swarm.attempts[0].outcome, Outcome::Released);
        assert!(swarm.agent("A").is_gone());
        assert_eq!(word(&swarm.run(assign("A"))), "agent_not_registered");
        swarm.ok(join_bus("A"));
        assert!(
            matches!(swarm.ok(assign("A")), Claimed::Task(_)),
            "it is back"
        );
    }

    #[test]
    fn whoever_is_there_by_another_door_keeps_what_it_took_there() {
        for (door, kept, given_back, left, limit) in [
            (
                Door::Bus,
                "T",
                "U",
                Door::Jetpack,
                Some(limits::SILENT_AFTER),
            ),
            (
                Door::Jetpack,
                "U",
                "T",
                Door::Bus,
                join_bus("A").silent_after,
            ),
        ] {
            let mut swarm = Swarm::new();
            swarm.ok(register("A", &[]));
            swarm.ok(join_bus("A"));
            swarm.add("T");
            swarm.hold("A", "T");
            swarm.add("U");
            assert!(matches!(swarm.ok(assign("A")), Claimed::Task(_)));
            let agent = "A".into();
            swarm.ok(CloseDoor { agent, door });
            assert_eq!(swarm.task(kept).status(), TaskStatus::Claimed, "{door}");
            assert_eq!(swarm.task(given_back).status(), TaskStatus::Ready, "{door}");
            let agent = swarm.agent("A");
            assert_eq!((&agent.doors[..], agent.is_live()), (&[left][..], true));
            assert_eq!(agent.silent_after, limit, "{door}");
        }
    }

    #[test]
    fn the_limits_of_the_doors_that_are_left_count() {
        // One that knows no limit is closed: the other one's counts again.
        let mut swarm = Swarm::new();
        swarm.ok(register("A", &[]));
        swarm.ok(Join {
            silent_after: None,
            ..join_bus("A")
        });
        assert_eq!(swarm.agent("A").silent_after, None);
        swarm.ok(leave());
        assert_eq!(swarm.agent("A").silent_after, Some(limits::SILENT_AFTER));
    }

    #[test]
    fn who_leaves_by_a_door_that_keeps_stays_known_with_all_it_holds() {
        let mut swarm = Swarm::new();
        let leave = || CloseDoor {
            agent: "A".into(),
            door: Door::Squidrun,
        };
        swarm.ok(Join::by(Door::Squidrun, "A"));
        assert_eq!(swarm.agent("A").silent_after, None, "no limit");
        swarm.add("T");
        swarm.hold("A", "T");
        swarm.ok(leave());
        let agent = swarm.agent("A");
        assert_eq!((agent.status(), agent.is_gone()), ("offline", false));
        assert_eq!(swarm.task("T").status(), TaskStatus::Claimed);
        swarm.wait(limits::SILENT_AFTER * 100);
        swarm.ok(crate::verb::MarkSilent);
        assert_eq!(swarm.task("T").status(), TaskStatus::Claimed);
        // What is said in its name does not bring it back, its door does.
        swarm.ok(super::super::testing::progress("A", "T"));
        assert_eq!(swarm.agent("A").status(), "offline");
        swarm.ok(Join::by(Door::Squidrun, "A"));
        assert_eq!(swarm.agent("A").status(), "busy");
        // Another door goes on as the same agent.
        swarm.ok(leave());
        swarm.join("A", &[]);
        assert_eq!(swarm.task("T").holder(), Some(&"A".into()));
        assert_eq!(swarm.agent("A").silent_after, Some(limits::SILENT_AFTER));
    }

    #[test]
    fn the_limits_of_other_doors_count_again() {
        let mut swarm = Swarm::new();
        let bus = join_bus("A");
        let told = bus.silent_after;
        assert!(told.is_some());
        swarm.ok(bus);
        swarm.ok(Join::by(Door::Squidrun, "A"));
        assert_eq!(swarm.agent("A").silent_after, None);
        swarm.ok(CloseDoor {
            agent: "A".into(),
            door: Door::Squidrun,
        });
        assert_eq!(swarm.agent("A").silent_after, told);
        assert_eq!(swarm.agent("A").status(), "idle");
    }
}
