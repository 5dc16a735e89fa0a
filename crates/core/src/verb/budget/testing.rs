//! Short ways to say what agents do about budgets, for the tables and laws of these verbs.

use std::time::Duration;

use super::super::testing::{Swarm, register, without_machine};
use super::{AcquireBudget, BudgetReported, GrantBudgets, ReportBudget};
use crate::agent::Agent;
use crate::budget::{Budget, Kind, Limits, Outcome, Resource, Standing, Urgency};
use crate::record::Listed;

pub(super) const TICK: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The document's own numbers.
pub(super) const fn limits_of(resource: Resource) -> Limits {
    match resource {
        Resource::Github => Limits {
            concurrent_max: 2,
            apart_for: Duration::from_secs(2),
            cooldown_for: Duration::from_secs(60),
        },
        Resource::Model => Limits {
            concurrent_max: 1,
            apart_for: SECOND,
            cooldown_for: Duration::from_secs(10),
        },
    }
}

pub(super) fn ask(agent: &str, request: &str, kind: Kind, urgency: Urgency) -> AcquireBudget {
    let resource = match kind {
        Kind::Read | Kind::Write => Resource::Github,
        Kind::Request => Resource::Model,
    };
    AcquireBudget {
        agent: agent.into(),
        request: request.into(),
        resource,
        kind,
        urgency,
        limits: limits_of(resource),
    }
}

pub(super) fn read(agent: &str, request: &str) -> AcquireBudget {
    ask(agent, request, Kind::Read, Urgency::CurrentRead)
}

pub(super) fn write(agent: &str, request: &str) -> AcquireBudget {
    ask(agent, request, Kind::Write, Urgency::CurrentRead)
}

pub(super) fn prompt(agent: &str, request: &str) -> AcquireBudget {
    ask(agent, request, Kind::Request, Urgency::CurrentRead)
}

pub(super) fn report(agent: &str, grant: &str, outcome: Outcome) -> ReportBudget {
    ReportBudget {
        agent: agent.into(),
        grant: grant.into(),
        outcome,
        retry_after: None,
    }
}

impl Swarm {
    /// A swarm with these agents.
    pub(super) fn of(agents: &[&str]) -> Swarm {
        let mut swarm = Swarm::new();
        agents.iter().for_each(|agent| swarm.enter(agent));
        swarm
    }

    /// Joins unless it is there.
    pub(super) fn enter(&mut self, agent: &str) {
        let known = self.agents.get(&agent.into());
        if !known.is_some_and(Agent::is_live) {
            self.ok(without_machine(register(agent, &[])));
        }
    }

    pub(super) fn budget(&self, resource: Resource) -> &Budget {
        let found = self.records.get(&Budget::at(resource.as_str()));
        found.and_then(Budget::of).expect("somebody asked for it")
    }

    /// The id of the grant, or the place in the queue.
    pub(super) fn acquire(&mut self, ask: AcquireBudget) -> String {
        match self.ok(ask) {
            Standing::Granted(grant) => grant.id.to_string(),
            Standing::Queued { position } => format!("#{position}"),
        }
    }

    /// Reports on a grant that stands.
    pub(super) fn done(&mut self, agent: &str, grant: &str) {
        let reported = self.ok(report(agent, grant, Outcome::Done));
        assert!(
            matches!(reported, BudgetReported::Ended { .. }),
            "{grant} of {agent}: {reported:?}"
        );
    }

    /// Who holds what by which request.
    pub(super) fn granted(&self, resource: Resource) -> Vec<(&str, &str)> {
        let grants = self.budget(resource).grants.iter();
        grants
            .map(|grant| (grant.agent.as_str(), grant.request.as_str()))
            .collect()
    }

    /// The caretaker, at this instant.
    pub(super) fn grant_budgets(&mut self) -> usize {
        self.ok(GrantBudgets).granted
    }
}
