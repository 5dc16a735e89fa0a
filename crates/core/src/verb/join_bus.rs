//! A worker signs on over the bus: a new agent, one that comes back, or one more door of an agent that is there.

use std::time::Duration;

use super::hand::{queue_again, want_unacknowledged};
use super::{Verb, awake, check_unreserved};
use crate::agent::{Agent, Command, Doing, Door, Presence};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct JoinBus {
    pub agent: AgentId,
    pub skills: Skills,
    /// Silent for longer than this over the bus alone, it is taken for dead.
    pub ttl: Duration,
    /// The connection, by a name that no other one has.
    pub stream: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// It was here before and keeps its tasks, leases and epochs.
    pub resumed: bool,
    pub agent: Box<Agent>,
    /// The tasks it holds, oldest claim first.
    pub holds: Vec<Task>,
    pub commands: Vec<Command>,
}

impl Verb for JoinBus {
    type Reply = Joined;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(agent) = want.agent(&self.agent) {
            for task in &agent.holds {
                want.task(task);
            }
            want_unacknowledged(want, agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Joined, Changes), Refusal> {
        check_unreserved(&self.agent)?;
        let mut changes = Changes::default();
        let known = slice.agent(&self.agent).filter(|known| !known.is_gone());
        let mut agent = match known {
            Some(known) => awake(known, &mut changes, now),
            None => self.newcomer(slice, now),
        };
        let is_new_door = !agent.doors.contains(&Door::Bus);
        agent.skills = if agent.doors.contains(&Door::Jetpack) {
            agent.skills.with(&self.skills)
        } else {
            self.skills.clone()
        };
        agent.open_door(Door::Bus, self.ttl);
        agent.stream.name = Some(self.stream.clone());
        // Whatever became of the stream before, this one has taken its place.
        queue_again(slice, &mut changes, &mut agent, now);
        if known.is_none() || is_new_door {
            changes.event(Event::AgentRegistered {
                agent: agent.id.clone(),
                resumed: known.is_some(),
            });
        }
        let holds = agent.holds.iter().filter_map(|id| slice.task(id).cloned());
        let joined = Joined {
            resumed: known.is_some(),
            holds: holds.collect(),
            commands: agent.commands.clone(),
            agent: Box::new(agent.clone()),
        };
        changes.put(agent);
        Ok((joined, changes))
    }
}

impl JoinBus {
    fn newcomer(&self, slice: &Slice, now: Timestamp) -> Agent {
        let mut agent = match slice.agent(&self.agent) {
            Some(gone) => gone.clone(),
            None => Agent::without_row(&self.agent, slice.former_agent(&self.agent), now),
        };
        agent.doors.clear();
        agent.commands.clear();
        agent.metrics = None;
        agent.registered_at = now;
        agent.seen_at = now;
        agent.last_active_at = now;
        agent.presence = Presence::Live(Doing::Idle);
        agent
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, register, word};
    use super::super::{Deregister, MarkSilent};
    use super::*;
    use crate::limits;
    use crate::task::TaskStatus;

    const TTL: Duration = Duration::from_secs(90);
    const TICK: Duration = Duration::from_millis(1);

    fn join(agent: &str) -> JoinBus {
        JoinBus {
            agent: agent.into(),
            skills: Skills::new(["rust"]),
            ttl: TTL,
            stream: "s".to_owned(),
        }
    }

    #[test]
    fn who_joins_by_standing() {
        // agentbus.reconnect.continuation
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            let joined = swarm.ok(join("A"));
            let was_there = !matches!(standing, Standing::Unknown | Standing::Gone);
            assert_eq!(joined.resumed, was_there, "{standing:?}");
            assert!(swarm.agent("A").is_live());
            assert!(swarm.agent("A").doors.contains(&Door::Bus));
            assert!(swarm.said().contains(&"agent_registered"), "{standing:?}");
            assert!(swarm.ok(join("A")).resumed);
            assert!(swarm.said().is_empty(), "a reconnect is no news");
        }
    }

    #[test]
    fn the_most_patient_door_decides_about_silence() {
        for (doors, limit) in [
            (&["bus"][..], TTL),
            (&["bus", "jetpack"], limits::SILENT_AFTER),
            (&["jetpack", "bus"], limits::SILENT_AFTER),
        ] {
            let mut swarm = Swarm::new();
            for door in doors {
                match *door {
                    "bus" => drop(swarm.ok(join("A"))),
                    _ => drop(swarm.ok(register("A", &[]))),
                }
            }
            swarm.wait(limit);
            assert_eq!(swarm.ok(MarkSilent).done, 0, "{doors:?}");
            swarm.wait(TICK);
            assert_eq!(swarm.ok(MarkSilent).done, 1, "{doors:?}");
        }
    }

    #[test]
    fn a_second_dialect_is_one_more_door_of_the_same_agent() {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        let joined = swarm.ok(join("A"));
        assert_eq!(joined.holds.len(), 1);
        assert_eq!(swarm.agent("A").doors, [Door::Jetpack, Door::Bus]);
        let mut swarm = Swarm::new();
        swarm.ok(join("A"));
        assert!(swarm.ok(register("A", &["go"])).resumed);
        assert_eq!(swarm.agent("A").doors, [Door::Jetpack, Door::Bus]);
        let mut other = register("A", &[]);
        other.machine = None;
        assert_eq!(word(&swarm.run(other)), "agent_already_registered");
        swarm.ok(Deregister { agent: "A".into() });
        swarm.ok(join("A"));
        assert_eq!(swarm.agent("A").doors, [Door::Bus]);
    }

    #[test]
    fn nobody_joins_under_a_name_of_the_hub_or_one_that_reads_like_it() {
        for id in ["steward", "Switchboard", "stew\u{2060}ard"] {
            assert_eq!(word(&Swarm::new().run(join(id))), "invalid", "{id:?}");
        }
    }
}
