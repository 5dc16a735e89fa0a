//! REGISTER: an agent announces itself.

use super::Verb;
use super::ending::GiveBack;
use crate::agent::{Agent, AgentKind, Capabilities, Doing, Door, Machine, Presence};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, TaskId};
use crate::limits;
use crate::refusal::Refusal;
use crate::skills::Skills;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    pub agent: AgentId,
    pub name: String,
    pub kind: AgentKind,
    pub skills: Skills,
    pub capabilities: Capabilities,
    pub machine: Option<Machine>,
    /// A new process goes on with what the old one held.
    pub resume: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub registered_at: Timestamp,
    /// It keeps its tasks and leases; the same process again also its epochs.
    pub resumed: bool,
    /// What a new process goes on with, each under its new epoch.
    pub tasks: Vec<(TaskId, u64)>,
}

/// What becomes of the tasks of an id that a new process takes over.
const LOST: GiveBack = GiveBack {
    crashed: true,
    why: "its agent was replaced by a new process",
};

impl Verb for Register {
    type Reply = Registered;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let floor = want.slice().head.floor;
        let Some(known) = want.agent(&self.agent) else {
            return;
        };
        if self.takes_over(known, floor, now) {
            LOST.asks_all(want, known);
        } else if self.resume {
            for id in &known.holds {
                if let Some(task) = want.task(id) {
                    want.lane_of(task);
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Registered, Changes), Refusal> {
        super::check_unreserved(&self.agent)?;
        let mut changes = Changes::default();
        let known = slice.agent(&self.agent);
        // Live in another dialect: the same agent with one more door.
        let joins = |known: &Agent| known.is_live() && !known.doors.contains(&Door::Jetpack);
        let resumed = known.is_some_and(|known| {
            !known.is_gone() && (self.resume || self.is_same_process(known) || joins(known))
        });
        let mut agent = match known {
            None => Agent::without_row(&self.agent, slice.former_agent(&self.agent), now),
            Some(known) if resumed || known.is_gone() => known.clone(),
            Some(known) if self.takes_over(known, slice.head.floor, now) => {
                let mut agent = known.clone();
                let released = |path, agent| Event::LeaseReleased { path, agent };
                LOST.apply_all(slice, &mut changes, known, &mut agent, released, now);
                agent
            }
            Some(known) => {
                return Err(Refusal::AgentAlreadyRegistered {
                    agent: self.agent.clone(),
                    seen_at: known.seen_at,
                    holds: known.holds.clone(),
                });
            }
        };
        if !resumed {
            agent.doors.clear();
        }
        agent.open_door(Door::Jetpack, limits::SILENT_AFTER);
        self.describe(&mut agent);
        agent.registered_at = now;
        agent.seen_at = now;
        agent.last_active_at = now;
        if !resumed {
            agent.commands.clear();
            agent.metrics = None;
        }
        agent.presence = Presence::Live(if agent.holds.is_empty() {
            Doing::Idle
        } else {
            Doing::Busy
        });
        changes.event(Event::AgentRegistered {
            agent: self.agent.clone(),
            resumed,
        });
        let goes_on = agent.holds.iter().filter(|_| self.resume);
        let held: Vec<&Task> = goes_on.filter_map(|id| slice.task(id)).collect();
        let mut tasks = Vec::with_capacity(held.len());
        for task in held {
            let (task, event) = task.clone().resume(&agent.id, now);
            tasks.push((task.id.clone(), task.epoch));
            changes.task((task, event));
        }
        changes.put(agent);
        Ok((
            Registered {
                registered_at: now,
                resumed,
                tasks,
            },
            changes,
        ))
    }
}

impl Register {
    /// Whether the id is free for a new process because the old one has been silent too long.
    fn takes_over(&self, known: &Agent, floor: Timestamp, now: Timestamp) -> bool {
        !known.is_gone()
            && !self.resume
            && !self.is_same_process(known)
            && (!known.is_live()
                || known.doors.contains(&Door::Jetpack) && known.is_silent(floor, now))
    }

    fn is_same_process(&self, known: &Agent) -> bool {
        match (&self.machine, &known.machine) {
            (Some(here), Some(there)) => here.id == there.id && here.pid == there.pid,
            (Some(_) | None, _) => false,
        }
    }

    fn describe(&self, agent: &mut Agent) {
        agent.name.clone_from(&self.name);
        agent.kind = self.kind;
        agent.skills = self.skills.clone();
        agent.capabilities = self.capabilities.clone();
        agent.machine.clone_from(&self.machine);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, complete, order, register, word};
    use super::super::{Complete, RotateKey, Serve};
    use super::*;
    use crate::agent::CommandKind;
    use crate::limits;
    use crate::task::{FailureKind, TaskStatus};

    fn another_process(agent: &str) -> Register {
        let mut register = register(agent, &[]);
        if let Some(machine) = &mut register.machine {
            machine.pid = 2;
        }
        register
    }

    fn without_machine(agent: &str) -> Register {
        Register {
            machine: None,
            ..register(agent, &[])
        }
    }

    #[test]
    fn no_agent_takes_the_name_of_the_steward_or_the_hub() {
        for id in ["steward", "switchboard"] {
            let outcome = Swarm::default().run(register(id, &[]));
            assert_eq!(word(&outcome), "invalid", "{id}");
        }
    }

    #[test]
    fn who_may_register_by_standing() {
        // jetpack.register.active_rejected, jetpack.register.stale_reregister, jetpack.register.response
        for standing in Standing::ALL {
            let (same, other) = match standing {
                Standing::Unknown | Standing::Silent | Standing::Gone => ("ok", "ok"),
                Standing::Live | Standing::Stopping => ("ok", "agent_already_registered"),
            };
            let outcome = Swarm::with_agent(standing).run(register("A", &[]));
            assert_eq!(word(&outcome), same, "the same process, {standing:?}");
            for newcomer in [another_process("A"), without_machine("A")] {
                let outcome = Swarm::with_agent(standing).run(newcomer);
                assert_eq!(word(&outcome), other, "another, {standing:?}");
            }
        }
    }

    #[test]
    fn what_was_said_is_stored() {
        // jetpack.register.timestamp_recorded, jetpack.register.machine_optional, jetpack.register.capability_limits
        let mut swarm = Swarm::new();
        let said = register("A", &["Rust", "SQL"]);
        let answer = swarm.ok(said.clone());
        let agent = swarm.agent("A");
        assert_eq!(
            (answer.registered_at, answer.resumed),
            (agent.registered_at, false)
        );
        assert_eq!(agent.registered_at, swarm.now);
        assert_eq!(agent.skills, Skills::new(["rust", "sql"]));
        assert_eq!(
            (&agent.capabilities, &agent.machine),
            (&said.capabilities, &said.machine)
        );
        assert_eq!(agent.presence, Presence::Live(Doing::Idle));
        assert_eq!(swarm.said(), ["agent_registered"]);
    }

    #[test]
    fn an_id_is_free_once_it_has_been_silent_for_more_than_two_minutes() {
        // jetpack.register.stale_reregister, jetpack.register.active_rejected
        for (after, expected) in [
            (
                limits::SILENT_AFTER - Duration::from_millis(1),
                "agent_already_registered",
            ),
            (limits::SILENT_AFTER, "agent_already_registered"),
            (limits::SILENT_AFTER + Duration::from_millis(1), "ok"),
        ] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.wait(after);
            let outcome = swarm.run(another_process("A"));
            assert_eq!(word(&outcome), expected, "{after:?}");
        }
    }

    #[test]
    fn silence_during_an_outage_frees_no_id() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.wait(Duration::from_secs(600));
        swarm.ok(Serve { starting: true });
        assert_eq!(
            word(&swarm.run(another_process("A"))),
            "agent_already_registered"
        );
    }

    #[test]
    fn the_same_process_keeps_tasks_leases_and_epochs() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.lease("A", "src", Some("T"));
        swarm.ok(order("A", CommandKind::Ping));
        let answer = swarm.ok(register("A", &["new"]));
        assert!(answer.resumed);
        assert_eq!(swarm.task("T").holder(), Some(&"A".into()));
        assert_eq!(swarm.task("T").epoch, 1);
        assert_eq!(swarm.leased(), [("src", "A")]);
        let agent = swarm.agent("A");
        assert_eq!((agent.status(), agent.commands.len()), ("busy", 1));
        assert_eq!(agent.skills, Skills::new(["new"]));
    }

    #[test]
    fn a_new_process_under_a_stale_id_gives_the_old_tasks_back_in_the_same_commit() {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.lease("A", "src", Some("T"));
        swarm.lease("A", "docs", None);
        swarm.wait(limits::SILENT_AFTER + Duration::from_secs(1));
        let answer = swarm.ok(another_process("A"));
        assert!(!answer.resumed);
        let task = swarm.task("T");
        assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 1));
        assert_eq!(task.previous_agents, vec![AgentId::from("A")]);
        let failure = task.last_failure.as_ref().map(|failure| failure.kind);
        assert_eq!(failure, Some(FailureKind::AgentCrash));
        assert!(swarm.leased().is_empty() && swarm.agent("A").holds.is_empty());
    }

    #[test]
    fn a_new_process_that_resumes_goes_on_under_new_epochs() {
        for (after, standing) in [(0, "alive"), (600, "silent, and nobody has noticed")] {
            let mut swarm = Swarm::with_task(TaskStatus::InProgress);
            swarm.lease("A", "src", Some("T"));
            swarm.wait(Duration::from_secs(after));
            let answer = swarm.ok(Register {
                resume: true,
                ..another_process("A")
            });
            assert!(answer.resumed, "{standing}");
            assert_eq!(answer.tasks, [("T".into(), 2)], "{standing}");
            let task = swarm.task("T");
            assert_eq!((task.status(), task.retries), (TaskStatus::InProgress, 0));
            assert_eq!(swarm.leased(), [("src", "A")]);
            assert_eq!(swarm.said(), ["agent_registered", "task_handed_over"]);
            // What the old process still says no longer counts, with its epoch or without one.
            for (epoch, expected) in [
                (None, "stale_epoch"),
                (Some(1), "stale_epoch"),
                (Some(2), "ok"),
            ] {
                let report = Complete {
                    epoch,
                    ..complete("A", "T")
                };
                assert_eq!(word(&swarm.run(report)), expected, "{epoch:?}, {standing}");
            }
        }
    }

    #[test]
    fn an_epoch_is_needed_until_the_claim_ends() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.ok(Register {
            resume: true,
            ..another_process("A")
        });
        assert!(swarm.task("T").epoch_needed);
        swarm.ok(super::super::ReleaseTask {
            task: "T".into(),
            agent: None,
            epoch: None,
        });
        swarm.hold("A", "T");
        assert!(!swarm.task("T").epoch_needed);
        assert_eq!(word(&swarm.run(complete("A", "T"))), "ok");
    }

    #[test]
    fn who_has_nothing_to_resume_registers() {
        for standing in Standing::ALL {
            let answer = Swarm::with_agent(standing).ok(Register {
                resume: true,
                ..another_process("A")
            });
            assert!(answer.tasks.is_empty(), "{standing:?}");
        }
    }

    #[test]
    fn a_refusal_names_what_is_held_and_how_to_go_on() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let refused = swarm.run(another_process("A")).unwrap_err().to_string();
        assert!(
            refused.contains("T") && refused.contains("resume"),
            "{refused}"
        );
    }

    #[test]
    fn a_gone_agent_keeps_its_counters_when_it_comes_again() {
        let mut swarm = Swarm::with_task(TaskStatus::Completed);
        swarm.ok(super::super::Deregister { agent: "A".into() });
        swarm.ok(another_process("A"));
        assert_eq!(swarm.agent("A").completed, 1);
    }

    #[test]
    fn an_agent_may_get_its_key_before_it_first_registers() {
        let mut swarm = Swarm::new();
        swarm.ok(RotateKey { agent: "A".into() });
        assert!(swarm.agent("A").is_gone());
        swarm.ok(register("A", &[]));
        assert_eq!(
            (swarm.agent("A").key_generation, swarm.agent("A").is_live()),
            (1, true)
        );
    }
}
