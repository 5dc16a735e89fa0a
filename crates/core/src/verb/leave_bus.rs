//! A worker says that it leaves: what it holds over the bus goes back unspent, and nothing more is pushed to it.
//!
//! Whoever is there in another dialect too only closes this door.

use super::ending::GiveBack;
use super::hand::{queue_again, want_unacknowledged};
use super::{Deregister, Verb, speaker};
use crate::agent::{Agent, Door};
use crate::changes::Changes;
use crate::id::AgentId;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveBus {
    pub agent: AgentId,
}

const BACK: GiveBack = GiveBack {
    crashed: false,
    why: "its worker left",
};

impl Verb for LeaveBus {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(agent) = want.agent(&self.agent) {
            BACK.asks_all(want, agent);
            want_unacknowledged(want, agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        if known.doors.iter().all(|door| *door == Door::Bus) {
            let agent = self.agent.clone();
            return Deregister { agent }.decide(slice, now);
        }
        let mut changes = Changes::default();
        let mut agent = known.clone();
        for task in pushed(slice, known) {
            BACK.apply(slice, &mut changes, task, &mut agent, now);
        }
        agent.doors.retain(|door| *door != Door::Bus);
        agent.silent_after = limits::SILENT_AFTER;
        agent.stream.name = None;
        queue_again(slice, &mut changes, &mut agent, now);
        changes.put(agent);
        Ok(((), changes))
    }
}

/// What it holds over the bus.
fn pushed<'a>(slice: &'a Slice, agent: &Agent) -> impl Iterator<Item = &'a Task> {
    let held = agent.holds.iter().filter_map(|id| slice.task(id));
    held.filter(|task| task.watch.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, assign, join_bus, register, word};
    use super::*;
    use crate::attempt::Outcome;
    use crate::task::TaskStatus;
    use crate::verb::Claimed;

    fn leave() -> LeaveBus {
        LeaveBus { agent: "A".into() }
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
    fn whoever_is_there_in_another_dialect_keeps_what_it_took_there() {
        let mut swarm = Swarm::new();
        swarm.ok(register("A", &[]));
        swarm.ok(join_bus("A"));
        swarm.add("T");
        swarm.hold("A", "T");
        swarm.add("U");
        assert!(matches!(swarm.ok(assign("A")), Claimed::Task(_)));
        swarm.ok(leave());
        assert_eq!(swarm.task("T").status(), TaskStatus::Claimed);
        assert_eq!(swarm.task("U").status(), TaskStatus::Ready);
        let agent = swarm.agent("A");
        assert_eq!(
            (&agent.doors[..], agent.is_live()),
            (&[Door::Jetpack][..], true)
        );
    }
}
