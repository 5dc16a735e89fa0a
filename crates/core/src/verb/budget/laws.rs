//! What holds whatever agents ask and report, in any order and at any time.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::super::Deregister;
use super::super::testing::Swarm;
use super::testing::{ask, limits_of, report};
use super::{BudgetReported, GrantBudgets};
use crate::budget::{Budget, Kind, Outcome, Resource, Urgency};
use crate::event::Event;
use crate::record::Listed;
use crate::time::Timestamp;

const AGENTS: [&str; 4] = ["A", "B", "C", "D"];

#[derive(Clone, Debug)]
enum Act {
    Ask {
        agent: usize,
        request: u8,
        kind: Kind,
        urgency: Urgency,
    },
    /// On one of the grants that stand.
    Report {
        grant: usize,
        outcome: Outcome,
        retry_after: Option<Duration>,
    },
    Leave(usize),
    Sweep,
    Wait(Duration),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let kind = prop::sample::select(Kind::ALL);
    let urgency = prop::sample::select(Urgency::ALL);
    let outcome = prop::sample::select(&[
        Outcome::Done,
        Outcome::Done,
        Outcome::RateLimited,
        Outcome::Failed,
        Outcome::Unused,
    ]);
    let seconds = (0..90u64).prop_map(Duration::from_secs);
    let asking = (0..AGENTS.len(), 0..4u8, kind, urgency);
    prop::collection::vec(
        prop_oneof![
            6 => asking.prop_map(|(agent, request, kind, urgency)| Act::Ask { agent, request, kind, urgency }),
            4 => (any::<usize>(), outcome, prop::option::weighted(0.2, seconds))
                .prop_map(|(grant, outcome, retry_after)| Act::Report { grant, outcome, retry_after }),
            1 => (0..AGENTS.len()).prop_map(Act::Leave),
            2 => Just(Act::Sweep),
            4 => (0..4000u64).prop_map(|ms| Act::Wait(Duration::from_millis(ms))),
            1 => (0..700u64).prop_map(|s| Act::Wait(Duration::from_secs(s))),
        ],
        1..80,
    )
}

fn budgets(swarm: &Swarm) -> impl Iterator<Item = &Budget> {
    let rows = Resource::ALL.iter();
    let rows = rows.filter_map(|resource| swarm.records.get(&Budget::at(resource.as_str())));
    rows.filter_map(Budget::of)
}

fn act(swarm: &mut Swarm, act: Act) {
    match act {
        Act::Ask {
            agent,
            request,
            kind,
            urgency,
        } => {
            swarm.enter(AGENTS[agent]);
            let ask = ask(AGENTS[agent], &request.to_string(), kind, urgency);
            let answer = swarm.acquire(ask.clone());
            assert_eq!(swarm.acquire(ask), answer, "asked again at once");
        }
        Act::Report {
            grant,
            outcome,
            retry_after,
        } => {
            let now = swarm.now;
            let standing: Vec<_> = budgets(swarm)
                .flat_map(|budget| &budget.grants)
                .filter(|grant| !grant.is_over(now))
                .cloned()
                .collect();
            let Some(grant) = standing.get(grant % standing.len().max(1)) else {
                return;
            };
            swarm.enter(grant.agent.as_str());
            let mut report = report(grant.agent.as_str(), grant.id.as_str(), outcome);
            report.retry_after = retry_after;
            let reported = swarm.ok(report);
            assert!(matches!(reported, BudgetReported::Ended { .. }));
        }
        Act::Leave(agent) => {
            swarm.enter(AGENTS[agent]);
            let agent = AGENTS[agent].into();
            swarm.ok(Deregister { agent });
        }
        Act::Sweep => {
            let due = swarm.ok(GrantBudgets).due;
            let next = budgets(swarm).filter_map(Budget::next_at).min();
            assert_eq!(due, next);
            assert!(next.is_none_or(|next| next > swarm.now), "nothing is left");
        }
        Act::Wait(span) => swarm.wait(span),
    }
}

/// What must be so of every row at any time.
fn check(swarm: &Swarm) {
    for budget in budgets(swarm) {
        let limits = limits_of(budget.resource);
        let room = usize::try_from(limits.concurrent_max).expect("it is small");
        assert!(budget.grants.len() <= room, "{budget:?}");
        let held = budget
            .grants
            .iter()
            .map(|grant| (&grant.agent, &grant.request));
        let waiting = budget
            .queue
            .iter()
            .map(|request| (&request.agent, &request.id));
        let mut seen = HashSet::new();
        assert!(
            held.chain(waiting).all(|name| seen.insert(name)),
            "a request stands once: {budget:?}"
        );
    }
}

/// What the log tells of one resource: grants by kind, and pauses.
struct Told {
    resource: Resource,
    cooldown_until: Timestamp,
    spaced_at: Option<Timestamp>,
}

impl Told {
    fn hear(&mut self, swarm: &Swarm) {
        for event in &swarm.said {
            match event {
                Event::BudgetCooled {
                    resource, until, ..
                } if *resource == self.resource => {
                    assert!(*until > self.cooldown_until, "a pause is only made longer");
                    self.cooldown_until = *until;
                }
                Event::BudgetGranted {
                    resource, grant, ..
                } if *resource == self.resource => self.granted(swarm, grant.as_str()),
                _ => {}
            }
        }
    }

    fn granted(&mut self, swarm: &Swarm, grant: &str) {
        assert!(swarm.now >= self.cooldown_until, "{grant} during a pause");
        let mut grants = swarm.budget(self.resource).grants.iter();
        let grant = grants
            .find(|held| held.id.as_str() == grant)
            .expect("what was granted is held");
        assert!(swarm.agents[&grant.agent].is_live());
        if grant.kind == Kind::Read {
            return;
        }
        if let Some(before) = self.spaced_at {
            let apart_for = limits_of(self.resource).apart_for;
            assert!(swarm.now.since(before) >= apart_for, "{grant:?} too soon");
        }
        self.spaced_at = Some(swarm.now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn limits_hold_in_any_history(acts in acts()) {
        let mut swarm = Swarm::of(&AGENTS);
        let mut told: Vec<Told> = Resource::ALL.iter().map(|resource| Told {
            resource: *resource,
            cooldown_until: Timestamp::ZERO,
            spaced_at: None,
        }).collect();
        for next in acts {
            let seq = swarm.log.len();
            act(&mut swarm, next);
            check(&swarm);
            // Several verbs may have run: all that they said.
            swarm.said = swarm.log[seq..].iter().map(|logged| logged.event.clone()).collect();
            told.iter_mut().for_each(|told| told.hear(&swarm));
        }
    }

    #[test]
    fn whoever_stays_is_served_in_the_end(acts in acts()) {
        let mut swarm = Swarm::of(&AGENTS);
        for next in acts {
            act(&mut swarm, next);
        }
        AGENTS.iter().for_each(|agent| swarm.enter(agent));
        // Each instant that a sweep names brings somebody forward, or ends a grant that is not reported on.
        let waiting: usize = budgets(&swarm).map(|budget| budget.queue.len()).sum();
        let mut turns = 0;
        while let Some(due) = swarm.ok(GrantBudgets).due {
            swarm.now = swarm.now.max(due);
            for agent in AGENTS {
                swarm.ok(super::super::Touch { agent: agent.into() });
            }
            turns += 1;
            prop_assert!(turns <= waiting + 1, "{turns} turns for {waiting}");
        }
        prop_assert!(budgets(&swarm).all(|budget| budget.queue.is_empty()));
    }
}
