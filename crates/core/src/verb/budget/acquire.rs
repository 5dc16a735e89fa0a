//! An agent asks whether it may make a request: now, or when its turn comes.

use super::super::{Verb, sign_of_life, speaker};
use super::{budget_of, is_there, want_those_who_wait};
use crate::budget::{Budget, Kind, Limits, Request, Resource, Standing, Urgency};
use crate::changes::Changes;
use crate::id::{AgentId, RequestId};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// The same request again, while it waits or its grant stands, gets the same answer and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireBudget {
    pub agent: AgentId,
    pub request: RequestId,
    pub resource: Resource,
    pub kind: Kind,
    pub urgency: Urgency,
    pub limits: Limits,
}

impl Verb for AcquireBudget {
    type Reply = Standing;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.agent(&self.agent);
        if let Some(budget) = budget_of(want, self.resource)
            && budget.is_open(&self.limits, now)
        {
            want_those_who_wait(want, budget);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Standing, Changes), Refusal> {
        let mut changes = Changes::default();
        sign_of_life(speaker(slice, &self.agent)?, &mut changes, now);
        let known = budget_of(&mut Want::new(slice), self.resource);
        let before = known.and_then(|known| known.standing(&self.agent, &self.request, now));
        if let Some(standing) = before {
            return Ok((standing, changes));
        }
        self.check(known)?;
        let mut budget = match known {
            Some(known) => known.clone(),
            None => Budget::new(self.resource, self.limits),
        };
        budget.limits = self.limits;
        budget.queue.push(Request {
            id: self.request.clone(),
            agent: self.agent.clone(),
            kind: self.kind,
            urgency: self.urgency,
            at: now,
        });
        let is_there = |agent: &AgentId| *agent == self.agent || is_there(slice, agent);
        changes.events.extend(budget.settle(now, is_there));
        let standing = budget.standing(&self.agent, &self.request, now);
        let standing = standing.expect("whoever is there stays in the queue or gets a grant");
        changes.put(budget);
        Ok((standing, changes))
    }
}

impl AcquireBudget {
    fn check(&self, known: Option<&Budget>) -> Result<(), Refusal> {
        if !self.resource.takes(self.kind) {
            let (resource, kind) = (self.resource, self.kind);
            return Err(Refusal::Invalid {
                field: "kind",
                message: format!("requests to {resource} are not of the kind {kind}"),
            });
        }
        let queue = known.map_or(&[][..], |known| &known.queue);
        if queue.len() >= limits::BUDGET_QUEUE_MAX {
            return Err(Refusal::TooMany {
                what: "requests that wait for this budget",
                limit: limits::BUDGET_QUEUE_MAX,
            });
        }
        let own = queue.iter().filter(|waiting| waiting.agent == self.agent);
        if own.count() >= limits::BUDGET_QUEUE_PER_AGENT_MAX {
            return Err(Refusal::TooMany {
                what: "requests of one agent that wait for this budget",
                limit: limits::BUDGET_QUEUE_PER_AGENT_MAX,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::testing::{Standing as There, Swarm, word};
    use super::super::testing::{SECOND, TICK, ask, prompt, read, write};
    use super::*;

    const GITHUB: Resource = Resource::Github;
    const MODEL: Resource = Resource::Model;

    #[test]
    fn no_more_are_granted_at_a_time_than_there_is_room() {
        let mut swarm = Swarm::of(&["A", "B", "C"]);
        assert_eq!(swarm.acquire(read("A", "r")), "github-1");
        assert_eq!(swarm.said(), ["budget_granted"]);
        assert_eq!(swarm.acquire(read("B", "r")), "github-2");
        assert_eq!(swarm.acquire(read("C", "r")), "#1");
        assert!(swarm.said().is_empty(), "to wait is no news");
        assert_eq!(swarm.acquire(read("A", "s")), "#2");
        assert_eq!(
            swarm.acquire(prompt("A", "r")),
            "model-1",
            "each resource has its own"
        );
        swarm.done("A", "github-1");
        assert_eq!(swarm.said(), ["budget_granted"]);
        assert_eq!(swarm.granted(GITHUB), [("B", "r"), ("C", "r")]);
    }

    #[test]
    fn writes_and_prompts_keep_their_distance_and_reads_do_not() {
        let mut swarm = Swarm::of(&["A", "B"]);
        assert_eq!(swarm.acquire(write("A", "w")), "github-1");
        swarm.done("A", "github-1");
        assert_eq!(swarm.acquire(write("B", "w")), "#1");
        assert_eq!(
            swarm.acquire(read("B", "r")),
            "github-2",
            "it need not wait for the write before it"
        );
        let apart = Duration::from_secs(2);
        assert_eq!(swarm.budget(GITHUB).next_at(), Some(swarm.now + apart));
        swarm.wait(apart - TICK);
        assert_eq!(swarm.grant_budgets(), 0);
        swarm.wait(TICK);
        assert_eq!(swarm.grant_budgets(), 1);
        assert_eq!(swarm.granted(GITHUB), [("B", "r"), ("B", "w")]);
        assert_eq!(swarm.acquire(prompt("A", "p")), "model-1");
        swarm.done("A", "model-1");
        assert_eq!(swarm.acquire(prompt("B", "p")), "#1");
        swarm.wait(SECOND);
        assert_eq!(swarm.acquire(prompt("A", "q")), "#1", "B was first");
        assert_eq!(swarm.granted(MODEL), [("B", "p")]);
    }

    #[test]
    fn the_same_request_again_gets_the_same_answer() {
        let mut swarm = Swarm::of(&["A", "B"]);
        let first = swarm.acquire(prompt("A", "p"));
        let second = swarm.acquire(prompt("B", "p"));
        let before = swarm.budget(MODEL).clone();
        swarm.wait(SECOND);
        assert_eq!(swarm.acquire(prompt("A", "p")), first);
        assert_eq!(swarm.acquire(prompt("B", "p")), second);
        assert_eq!(*swarm.budget(MODEL), before);
        swarm.done("A", &first);
        assert_eq!(swarm.acquire(prompt("B", "p")), "model-2");
        assert_eq!(
            swarm.acquire(prompt("A", "p")),
            "#1",
            "after its end the name is free"
        );
    }

    #[test]
    fn the_more_urgent_class_goes_first() {
        let mut swarm = Swarm::of(&["A"]);
        swarm.acquire(prompt("A", "first"));
        for (at, urgency) in Urgency::ALL.iter().enumerate().rev() {
            swarm.enter(&format!("w{at}"));
            let name = urgency.as_str();
            let place = swarm.acquire(ask(&format!("w{at}"), name, Kind::Request, *urgency));
            assert_eq!(place, "#1", "{name} goes before the less urgent ones");
        }
        let mut order = Vec::new();
        for number in 1..=Urgency::ALL.len() {
            let holder = swarm.granted(MODEL)[0].0.to_owned();
            swarm.wait(SECOND);
            swarm.done(&holder, &format!("model-{number}"));
            order.push(swarm.granted(MODEL)[0].1.to_owned());
        }
        assert_eq!(order, Urgency::WORDS);
    }

    #[test]
    fn in_a_class_whoever_was_served_the_longest_ago_goes_first() {
        let mut swarm = Swarm::of(&["A", "B", "C"]);
        for (agent, grant) in [("B", "model-1"), ("A", "model-2")] {
            swarm.acquire(prompt(agent, "once"));
            swarm.done(agent, grant);
            swarm.wait(SECOND);
        }
        swarm.acquire(prompt("C", "now"));
        for (agent, request) in [("A", "1"), ("A", "2"), ("B", "1"), ("B", "2")] {
            swarm.acquire(prompt(agent, request));
        }
        // They take turns, each in its own order.
        for (number, holder, next) in [
            (3, "C", ("B", "1")),
            (4, "B", ("A", "1")),
            (5, "A", ("B", "2")),
            (6, "B", ("A", "2")),
        ] {
            swarm.wait(SECOND);
            swarm.done(holder, &format!("model-{number}"));
            assert_eq!(swarm.granted(MODEL), [next]);
        }
    }

    #[test]
    fn waiting_lifts_a_request_above_the_most_urgent_newcomers() {
        let mut swarm = Swarm::of(&["A"]);
        swarm.acquire(prompt("A", "served before"));
        let cosmetic = ask("A", "cosmetic", Kind::Request, Urgency::CosmeticWrite);
        swarm.acquire(cosmetic);
        let lifted_after = limits::BUDGET_LIFT_AFTER * Urgency::ALL.len() as u32;
        let asked_at = swarm.now;
        let mut holder = ("A".to_owned(), 1);
        // Each second two newcomers with the most urgent class, and room for one.
        for second in 0.. {
            assert!(second < 1000, "it is never its turn");
            for half in ["a", "b"] {
                let newcomer = format!("h{second}{half}");
                swarm.enter(&newcomer);
                swarm.acquire(ask(&newcomer, "beat", Kind::Request, Urgency::Heartbeat));
            }
            swarm.wait(SECOND);
            swarm.done(&holder.0, &format!("model-{}", holder.1));
            let next = swarm.granted(MODEL)[0];
            if next == ("A", "cosmetic") {
                break;
            }
            holder = (next.0.to_owned(), holder.1 + 1);
        }
        assert_eq!(swarm.now.since(asked_at), lifted_after);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut swarm = Swarm::of(&["A"]);
        swarm.acquire(prompt("A", "held"));
        for number in 0..limits::BUDGET_QUEUE_PER_AGENT_MAX {
            swarm.acquire(prompt("A", &number.to_string()));
        }
        assert_eq!(word(&swarm.run(prompt("A", "more"))), "too_many");
        assert_eq!(
            swarm.acquire(prompt("A", "0")),
            "#1",
            "what waits is still told where"
        );
        let mut number = limits::BUDGET_QUEUE_PER_AGENT_MAX;
        while number < limits::BUDGET_QUEUE_MAX {
            let agent = format!("w{}", number / limits::BUDGET_QUEUE_PER_AGENT_MAX);
            swarm.enter(&agent);
            swarm.acquire(prompt(&agent, &number.to_string()));
            number += 1;
        }
        assert_eq!(swarm.budget(MODEL).queue.len(), limits::BUDGET_QUEUE_MAX);
        swarm.enter("Z");
        let refused = swarm.run(prompt("Z", "more"));
        assert_eq!(word(&refused), "too_many");
        swarm.wait(SECOND);
        swarm.done("A", "model-1");
        assert!(swarm.run(prompt("Z", "more")).is_ok());
    }

    #[test]
    fn grants_are_bounded_whatever_is_configured() {
        let mut swarm = Swarm::of(&["A"]);
        let room = usize::try_from(limits::BUDGET_GRANTS_MAX).expect("it is small");
        for number in 0..room + 1 {
            let mut ask = read("A", &number.to_string());
            ask.limits.concurrent_max = u32::MAX;
            swarm.acquire(ask);
        }
        let budget = swarm.budget(GITHUB);
        assert_eq!((budget.grants.len(), budget.queue.len()), (room, 1));
    }

    #[test]
    fn who_may_ask_by_standing() {
        for standing in There::ALL {
            let mut swarm = Swarm::with_agent(standing);
            let expected = match standing {
                There::Unknown | There::Gone => "agent_not_registered",
                There::Live | There::Stopping | There::Silent => "ok",
            };
            assert_eq!(word(&swarm.run(prompt("A", "p"))), expected, "{standing:?}");
            if expected == "ok" {
                assert!(swarm.agent("A").is_live());
                assert_eq!(swarm.granted(MODEL), [("A", "p")]);
            }
        }
    }

    #[test]
    fn a_resource_takes_its_own_kinds_only() {
        for (resource, kind, expected) in [
            (GITHUB, Kind::Read, "ok"),
            (GITHUB, Kind::Write, "ok"),
            (GITHUB, Kind::Request, "invalid"),
            (MODEL, Kind::Request, "ok"),
            (MODEL, Kind::Read, "invalid"),
            (MODEL, Kind::Write, "invalid"),
        ] {
            let mut swarm = Swarm::of(&["A"]);
            let ask = AcquireBudget {
                resource,
                kind,
                ..read("A", "r")
            };
            assert_eq!(word(&swarm.run(ask)), expected, "{kind} of {resource}");
        }
    }
}
