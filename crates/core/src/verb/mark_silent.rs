//! Caretaker: agents without a sign of life lose their tasks and leases.

use super::ending::GiveBack;
use super::hand::{queue_again, want_unacknowledged};
use super::{Sweep, Verb};
use crate::agent::{Agent, CommandKind, Presence};
use crate::changes::Changes;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkSilent;

/// Agents looked at in one step; each may hold many tasks.
const STEP: usize = 16;
const LOST: GiveBack = GiveBack {
    crashed: true,
    why: "its agent timed out",
};

impl Verb for MarkSilent {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for agent in silent(want, now) {
            LOST.asks_all(want, agent);
            want_unacknowledged(want, agent);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut changes = Changes::default();
        let silent = silent(&mut Want::new(slice), now);
        for known in &silent {
            let mut agent = (*known).clone();
            changes.event(Event::AgentSilent {
                agent: known.id.clone(),
            });
            let expired = |path, agent| Event::LeaseExpired { path, agent };
            LOST.apply_all(slice, &mut changes, known, &mut agent, expired, now);
            agent
                .commands
                .retain(|command| !matches!(command.kind, CommandKind::Shutdown { .. }));
            agent.stream.name = None;
            queue_again(slice, &mut changes, &mut agent, |_| true, now);
            agent.current = None;
            agent.presence = Presence::Silent {
                since: known.seen_at,
            };
            changes.put(agent);
        }
        let done = silent.len();
        Ok((
            Sweep {
                done,
                more: done == STEP,
            },
            changes,
        ))
    }
}

fn silent<'a>(want: &mut Want<'a>, now: Timestamp) -> Vec<&'a Agent> {
    let floor = want.slice().head.floor;
    let quiet = want.quiet_agents(now, floor, STEP);
    let rows: Vec<_> = quiet.iter().filter_map(|id| want.agent(id)).collect();
    rows.into_iter()
        .filter(|agent| agent.is_live() && agent.is_silent(floor, now))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::limits;

    use super::super::Serve;
    use super::super::testing::{
        Standing, Swarm, complete, register, task_with, without_machine, word,
    };
    use super::*;
    use crate::AgentId;
    use crate::attempt::Outcome;
    use crate::task::{FailureKind, OnDependencyFailure, TaskStatus};

    const TICK: Duration = Duration::from_millis(1);

    #[test]
    fn an_agent_is_silent_after_more_than_two_minutes() {
        // jetpack.coordinator.stale_agents
        for (after, done, status) in [
            (limits::SILENT_AFTER - TICK, 0, "idle"),
            (limits::SILENT_AFTER, 0, "idle"),
            (limits::SILENT_AFTER + TICK, 1, "offline"),
        ] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.wait(after);
            assert_eq!(
                swarm.ok(MarkSilent),
                Sweep { done, more: false },
                "{after:?}"
            );
            assert_eq!(swarm.agent("A").status(), status, "{after:?}");
            assert_eq!(swarm.ok(MarkSilent).done, 0, "once is enough");
        }
    }

    #[test]
    fn only_live_agents_fall_silent() {
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.wait(Duration::from_secs(1000));
            let fell = swarm.ok(MarkSilent).done;
            let expected = matches!(standing, Standing::Live | Standing::Stopping);
            assert_eq!(fell, usize::from(expected), "{standing:?}");
        }
    }

    #[test]
    fn a_shutdown_is_over_when_the_agent_is_silent() {
        let mut swarm = Swarm::with_agent(Standing::Stopping);
        swarm.wait(limits::SILENT_AFTER + TICK);
        swarm.ok(MarkSilent);
        assert!(swarm.agent("A").commands.is_empty());
    }

    #[test]
    fn its_tasks_go_straight_back_with_a_retry_spent_and_its_leases_end() {
        // jetpack.coordinator.stale_agents, jetpack.principle.failures_expected
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.lease("A", "src", Some("T"));
        swarm.lease("A", "docs", None);
        swarm.wait(limits::SILENT_AFTER + TICK);
        swarm.ok(register("B", &[]));
        assert_eq!(swarm.ok(MarkSilent).done, 1);
        let task = swarm.task("T");
        assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 1));
        assert_eq!(task.previous_agents, vec![AgentId::from("A")]);
        assert!(swarm.leased().is_empty());
        let agent = swarm.agent("A");
        assert_eq!(
            (agent.failed, agent.holds.len(), agent.status()),
            (1, 0, "offline")
        );
        let attempt = &swarm.attempts[0];
        assert_eq!(
            (attempt.outcome, attempt.failure),
            (Outcome::Crashed, Some(FailureKind::AgentCrash))
        );
        swarm.hold("B", "T");
        let late = super::super::Complete {
            epoch: Some(1),
            ..complete("A", "T")
        };
        assert_eq!(word(&swarm.run(late)), "task_reassigned");
    }

    #[test]
    fn a_crash_past_the_budget_fails_the_task() {
        for (max_retries, status) in [(0, TaskStatus::Failed), (1, TaskStatus::Ready)] {
            let mut swarm = Swarm::with_agent(Standing::Live);
            swarm.create(task_with("T", |task| task.about.max_retries = max_retries));
            swarm.hold("A", "T");
            swarm.wait(limits::SILENT_AFTER + TICK);
            swarm.ok(MarkSilent);
            assert_eq!(swarm.task("T").status(), status, "{max_retries} retries");
        }
    }

    #[test]
    fn a_dependant_of_two_tasks_that_crash_together_fails_once() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        for id in ["one", "two"] {
            swarm.create(task_with(id, |task| task.about.max_retries = 0));
            swarm.hold("A", id);
        }
        swarm.create(task_with("after", |task| {
            task.dependencies = vec!["one".into(), "two".into()];
            task.on_dependency_failure = OnDependencyFailure::Fail;
        }));
        swarm.wait(limits::SILENT_AFTER + TICK);
        swarm.ok(MarkSilent);
        let failures = swarm
            .said()
            .into_iter()
            .filter(|kind| *kind == "task_failed");
        assert_eq!(failures.count(), 3);
        assert_eq!(swarm.head.count(TaskStatus::Failed), 3);
    }

    #[test]
    fn an_outage_declares_nobody_dead_and_spends_no_retry() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let serve = |starting| Serve { starting };
        swarm.ok(serve(true));
        swarm.wait(Duration::from_secs(600));
        swarm.ok(serve(true));
        assert_eq!(swarm.ok(MarkSilent).done, 0);
        swarm.wait(limits::SILENT_AFTER);
        assert_eq!(
            swarm.ok(MarkSilent).done,
            0,
            "they have two minutes to come back"
        );
        assert_eq!(swarm.task("T").retries, 0);
        swarm.wait(TICK);
        assert_eq!(
            swarm.ok(MarkSilent).done,
            2,
            "whoever did not come back is silent now"
        );
    }

    #[test]
    fn one_step_is_bounded() {
        for (agents, done, more) in [
            (STEP - 1, STEP - 1, false),
            (STEP, STEP, true),
            (STEP + 1, STEP, true),
        ] {
            let mut swarm = Swarm::new();
            for at in 0..agents {
                swarm.ok(without_machine(register(&format!("a{at}"), &[])));
            }
            swarm.wait(limits::SILENT_AFTER + TICK);
            assert_eq!(
                swarm.ok(MarkSilent),
                Sweep { done, more },
                "{agents} agents"
            );
        }
    }
}
