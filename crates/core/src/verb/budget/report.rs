//! An agent tells how a granted request went. That ends the grant, and whoever is next gets it.

use std::time::Duration;

use super::super::{Verb, sign_of_life, speaker};
use super::{budget_of, is_there, want_those_who_wait};
use crate::budget::{Budget, Outcome, Resource};
use crate::changes::Changes;
use crate::id::{AgentId, GrantId};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportBudget {
    pub agent: AgentId,
    pub grant: GrantId,
    pub outcome: Outcome,
    /// How long the other side wants to be left alone.
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetReported {
    Ended {
        resource: Resource,
        /// Set if this made everyone pause, or pause for longer.
        cooldown_until: Option<Timestamp>,
    },
    /// The agent holds no such grant, or no longer: nothing was changed.
    Unknown,
}

impl Verb for ReportBudget {
    type Reply = BudgetReported;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.agent(&self.agent);
        if let Some(budget) = self.budget(want, now) {
            want_those_who_wait(want, budget);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(BudgetReported, Changes), Refusal> {
        let mut changes = Changes::default();
        sign_of_life(speaker(slice, &self.agent)?, &mut changes, now);
        let Some(known) = self.budget(&mut Want::new(slice), now) else {
            return Ok((BudgetReported::Unknown, changes));
        };
        let mut budget = known.clone();
        let cooled = budget.end(&self.grant, self.outcome, self.retry_after, now);
        let reported = BudgetReported::Ended {
            resource: budget.resource,
            cooldown_until: cooled.is_some().then_some(budget.cooldown_until).flatten(),
        };
        changes.events.extend(cooled);
        let is_there = |agent: &AgentId| *agent == self.agent || is_there(slice, agent);
        changes.events.extend(budget.settle(now, is_there));
        changes.put(budget);
        Ok((reported, changes))
    }
}

impl ReportBudget {
    /// The one that the grant is of.
    fn budget<'a>(&self, want: &mut Want<'a>, now: Timestamp) -> Option<&'a Budget> {
        let mut found = None;
        for resource in Resource::ALL {
            let budget = budget_of(want, *resource);
            let is_it = |budget: &&Budget| budget.grant(&self.agent, &self.grant, now).is_some();
            found = found.or(budget.filter(is_it));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Swarm;
    use super::super::testing::{SECOND, TICK, limits_of, prompt, read, report};
    use super::*;
    use crate::limits;

    const RETRY_AFTER: Duration = Duration::from_secs(300);

    #[test]
    fn which_outcomes_make_everyone_pause_and_for_how_long() {
        let (github, model) = (Resource::Github, Resource::Model);
        let own = |resource| Some(limits_of(resource).cooldown_for);
        let asked = Some(RETRY_AFTER);
        let short = Some(SECOND);
        for (resource, outcome, retry_after, pause) in [
            (github, Outcome::Done, None, None),
            (github, Outcome::Unused, None, None),
            (github, Outcome::Failed, None, None),
            (github, Outcome::RateLimited, None, own(github)),
            (github, Outcome::RateLimited, asked, asked),
            (github, Outcome::RateLimited, short, own(github)),
            (github, Outcome::Failed, asked, asked),
            (github, Outcome::Done, short, short),
            (github, Outcome::Done, Some(Duration::ZERO), None),
            (model, Outcome::Done, None, None),
            (model, Outcome::Unused, None, None),
            (model, Outcome::Failed, None, own(model)),
            (model, Outcome::RateLimited, None, own(model)),
            (model, Outcome::RateLimited, asked, asked),
            (
                model,
                Outcome::Failed,
                Some(Duration::MAX),
                Some(limits::BUDGET_RETRY_AFTER_MAX),
            ),
        ] {
            let mut swarm = Swarm::of(&["A"]);
            let ask = match resource {
                Resource::Github => read("A", "r"),
                Resource::Model => prompt("A", "r"),
            };
            let grant = swarm.acquire(ask);
            let mut report = report("A", &grant, outcome);
            report.retry_after = retry_after;
            let cooldown_until = pause.map(|pause| swarm.now + pause);
            let expected = BudgetReported::Ended {
                resource,
                cooldown_until,
            };
            let row = format!("{resource} {outcome:?} {retry_after:?}");
            assert_eq!(swarm.ok(report), expected, "{row}");
            assert_eq!(swarm.budget(resource).cooldown_until, cooldown_until);
            let said: &[&str] = if pause.is_some() {
                &["budget_cooled"]
            } else {
                &[]
            };
            assert_eq!(swarm.said(), said, "{row}");
        }
    }

    #[test]
    fn nothing_is_granted_during_a_pause_however_urgent() {
        let mut swarm = Swarm::of(&["A", "B"]);
        let grant = swarm.acquire(read("A", "r"));
        swarm.ok(report("A", &grant, Outcome::RateLimited));
        let until = swarm.now + limits_of(Resource::Github).cooldown_for;
        let mut beat = read("B", "beat");
        beat.urgency = crate::budget::Urgency::Heartbeat;
        assert_eq!(swarm.acquire(beat), "#1");
        assert_eq!(swarm.budget(Resource::Github).next_at(), Some(until));
        swarm.wait(until.since(swarm.now) - TICK);
        swarm.enter("A");
        assert_eq!(swarm.grant_budgets(), 0);
        swarm.wait(TICK);
        assert_eq!(swarm.grant_budgets(), 1);
    }

    #[test]
    fn a_pause_is_never_shortened() {
        let mut swarm = Swarm::of(&["A", "B"]);
        let (one, two) = (swarm.acquire(read("A", "r")), swarm.acquire(read("B", "r")));
        let mut long = report("A", &one, Outcome::RateLimited);
        long.retry_after = Some(RETRY_AFTER);
        swarm.ok(long);
        let until = swarm.budget(Resource::Github).cooldown_until;
        let later = swarm.ok(report("B", &two, Outcome::RateLimited));
        let expected = BudgetReported::Ended {
            resource: Resource::Github,
            cooldown_until: None,
        };
        assert_eq!(later, expected);
        assert_eq!(swarm.budget(Resource::Github).cooldown_until, until);
    }

    #[test]
    fn a_report_on_a_grant_that_is_not_held_changes_nothing() {
        let mut swarm = Swarm::of(&["A", "B"]);
        let never = report("A", "github-1", Outcome::RateLimited);
        assert_eq!(swarm.ok(never), BudgetReported::Unknown);
        let grant = swarm.acquire(read("A", "r"));
        let before = swarm.budget(Resource::Github).clone();
        let foreign = report("B", &grant, Outcome::RateLimited);
        assert_eq!(swarm.ok(foreign), BudgetReported::Unknown);
        assert_eq!(*swarm.budget(Resource::Github), before);
        swarm.wait(limits::BUDGET_HOLD);
        let late = report("A", &grant, Outcome::RateLimited);
        assert_eq!(swarm.ok(late), BudgetReported::Unknown);
        swarm.enter("A");
        let grant = swarm.acquire(read("A", "r"));
        swarm.done("A", &grant);
        let twice = report("A", &grant, Outcome::Done);
        assert_eq!(swarm.ok(twice), BudgetReported::Unknown);
    }
}
