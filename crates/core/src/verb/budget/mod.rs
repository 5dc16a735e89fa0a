//! Budgets of requests that agents share: asking, reporting, and what the caretaker does about them.

mod acquire;
mod grant;
#[cfg(test)]
mod laws;
mod report;
#[cfg(test)]
mod testing;

pub use acquire::AcquireBudget;
pub use grant::{BudgetsSwept, GrantBudgets};
pub use report::{BudgetReported, ReportBudget};

use crate::agent::Agent;
use crate::budget::{Budget, Resource};
use crate::id::AgentId;
use crate::slice::Slice;
use crate::want::Want;

/// Asks for the budget, or finds it.
fn budget_of<'a>(want: &mut Want<'a>, resource: Resource) -> Option<&'a Budget> {
    want.private(resource.as_str())
}

/// Asks for everyone who waits.
fn want_those_who_wait(want: &mut Want<'_>, budget: &Budget) {
    for request in &budget.queue {
        want.agent(&request.agent);
    }
}

fn is_there(slice: &Slice, agent: &AgentId) -> bool {
    slice.agent(agent).is_some_and(Agent::is_live)
}
