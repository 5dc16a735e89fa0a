//! Caretaker: takes grants from agents that are not there any more, and grants what has become possible.

use super::super::Verb;
use super::{budget_of, is_there, want_those_who_wait};
use crate::budget::Resource;
use crate::changes::Changes;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantBudgets;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetsSwept {
    pub granted: usize,
    /// The next instant at which there may be something to grant. Engines do not know it, so whoever sweeps keeps it.
    pub due: Option<Timestamp>,
}

impl Verb for GrantBudgets {
    type Reply = BudgetsSwept;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        for resource in Resource::ALL {
            if let Some(budget) = budget_of(want, *resource) {
                want_those_who_wait(want, budget);
                for grant in &budget.grants {
                    want.agent(&grant.agent);
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(BudgetsSwept, Changes), Refusal> {
        let mut changes = Changes::default();
        let mut due: Option<Timestamp> = None;
        for resource in Resource::ALL {
            let Some(known) = budget_of(&mut Want::new(slice), *resource) else {
                continue;
            };
            let mut budget = known.clone();
            budget.grants.retain(|grant| is_there(slice, &grant.agent));
            budget
                .queue
                .retain(|request| is_there(slice, &request.agent));
            let granted = budget.settle(now, |agent| is_there(slice, agent));
            changes.events.extend(granted);
            due = due.into_iter().chain(budget.next_at()).min();
            if budget != *known {
                changes.put(budget);
            }
        }
        let granted = changes.events.len();
        Ok((BudgetsSwept { granted, due }, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Swarm;
    use super::super::super::{Deregister, MarkSilent, Touch};
    use super::super::testing::{SECOND, TICK, prompt};
    use super::*;
    use crate::limits;

    const MODEL: Resource = Resource::Model;

    fn nothing_yet(swarm: &mut Swarm) {
        assert_eq!(swarm.grant_budgets(), 0);
        assert!(swarm.said().is_empty());
    }

    #[test]
    fn a_grant_that_nobody_reports_on_ends() {
        let mut swarm = Swarm::of(&["A", "B"]);
        swarm.acquire(prompt("A", "p"));
        swarm.acquire(prompt("B", "p"));
        let ends_at = swarm.now + limits::BUDGET_HOLD;
        let swept = swarm.ok(GrantBudgets);
        assert_eq!(swept.due, Some(ends_at));
        swarm.wait(limits::BUDGET_HOLD - TICK);
        nothing_yet(&mut swarm);
        swarm.wait(TICK);
        assert_eq!(swarm.ok(GrantBudgets).due, None, "nobody waits any more");
        assert_eq!(swarm.granted(MODEL), [("B", "p")]);
    }

    #[test]
    fn whoever_leaves_or_falls_silent_loses_grants_and_places() {
        let silent = |swarm: &mut Swarm| {
            for _ in 0..2 {
                swarm.wait(limits::SILENT_AFTER / 2 + TICK);
                swarm.ok(Touch { agent: "C".into() });
            }
            swarm.ok(MarkSilent);
        };
        let gone = |swarm: &mut Swarm| {
            for agent in ["A", "B"] {
                swarm.ok(Deregister {
                    agent: agent.into(),
                });
            }
            swarm.wait(SECOND);
        };
        let ways: [&dyn Fn(&mut Swarm); 2] = [&silent, &gone];
        for goes in ways {
            let mut swarm = Swarm::of(&["A", "B", "C"]);
            for agent in ["A", "B", "C"] {
                swarm.acquire(prompt(agent, "p"));
            }
            nothing_yet(&mut swarm);
            goes(&mut swarm);
            assert_eq!(swarm.grant_budgets(), 1);
            assert_eq!(swarm.granted(MODEL), [("C", "p")]);
            assert!(swarm.budget(MODEL).queue.is_empty());
        }
    }

    #[test]
    fn who_was_last_served_is_remembered_within_bounds() {
        for agents in [
            limits::BUDGET_SERVED_MAX - 1,
            limits::BUDGET_SERVED_MAX,
            limits::BUDGET_SERVED_MAX + 1,
        ] {
            let mut swarm = Swarm::new();
            for number in 1..=agents {
                let agent = format!("w{number}");
                swarm.enter(&agent);
                swarm.acquire(prompt(&agent, "p"));
                swarm.done(&agent, &format!("model-{number}"));
                swarm.wait(SECOND);
            }
            let served = &swarm.budget(MODEL).served;
            assert_eq!(served.len(), agents.min(limits::BUDGET_SERVED_MAX));
            let is_first_known = served.contains_key(&"w1".into());
            assert_eq!(is_first_known, agents <= limits::BUDGET_SERVED_MAX);
        }
    }

    #[test]
    fn a_sweep_that_finds_nothing_writes_nothing() {
        let mut swarm = Swarm::of(&["A"]);
        let idle = BudgetsSwept {
            granted: 0,
            due: None,
        };
        assert_eq!(swarm.ok(GrantBudgets), idle);
        assert!(swarm.records.is_empty());
        swarm.acquire(prompt("A", "p"));
        let (seq, before) = (swarm.head.seq, swarm.records.clone());
        assert_eq!(swarm.ok(GrantBudgets), idle);
        assert_eq!((swarm.head.seq, &swarm.records), (seq, &before));
    }
}
