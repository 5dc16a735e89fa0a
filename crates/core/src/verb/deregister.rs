//! An agent signs off, or a person removes it. Its name, counters and messages stay.

use super::Verb;
use super::ending::GiveBack;
use super::hand::{queue_again, want_unacknowledged};
use crate::agent::Presence;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deregister {
    pub agent: AgentId,
}

const BACK: GiveBack = GiveBack {
    crashed: false,
    why: "its agent deregistered",
};

impl Verb for Deregister {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(agent) = want.agent(&self.agent) else {
            return;
        };
        BACK.asks_all(want, agent);
        want_unacknowledged(want, agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        let known = super::speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        let mut agent = known.clone();
        let released = |path, agent| Event::LeaseReleased { path, agent };
        BACK.apply_all(slice, &mut changes, known, &mut agent, released, now);
        for command in agent.commands.drain(..) {
            changes.event(Event::CommandObeyed {
                agent: known.id.clone(),
                command: command.id,
            });
        }
        agent.stream.name = None;
        queue_again(slice, &mut changes, &mut agent, |_| true, now);
        agent.current = None;
        agent.presence = Presence::Gone { at: now };
        changes.put(agent);
        changes.event(Event::AgentDeregistered {
            agent: self.agent.clone(),
        });
        Ok(((), changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, send, word};
    use super::*;
    use crate::attempt::Outcome;
    use crate::task::TaskStatus;

    #[test]
    fn who_may_sign_off_by_standing() {
        // jetpack.agent.graceful_shutdown
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "ok",
            };
            let outcome = swarm.run(Deregister { agent: "A".into() });
            assert_eq!(word(&outcome), expected, "{standing:?}");
            assert!(swarm.agents.is_empty() || swarm.agent("A").is_gone());
        }
    }

    #[test]
    fn tasks_and_leases_go_back_without_a_retry_and_history_stays() {
        for status in [TaskStatus::Claimed, TaskStatus::InProgress] {
            let mut swarm = Swarm::with_task(status);
            swarm.lease("A", "src", Some("T"));
            swarm.lease("A", "docs", None);
            swarm.ok(send("m", "B", Some("A")));
            swarm.ok(Deregister { agent: "A".into() });
            let task = swarm.task("T");
            assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 0));
            assert!(task.previous_agents.is_empty() && swarm.leased().is_empty());
            assert_eq!(swarm.attempts[0].outcome, Outcome::Released);
            let agent = swarm.agent("A");
            assert_eq!((agent.holds.len(), agent.current.as_ref()), (0, None));
            assert_eq!(agent.inbox, 1, "messages of a gone agent stay");
            assert_eq!(swarm.said().last(), Some(&"agent_deregistered"));
        }
    }
}
