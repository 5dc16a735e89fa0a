//! Ready tasks that no agent present can take.

use std::collections::BTreeSet;

use switchboard_client::jetpack::{
    Agent, AgentQuery, AgentStatus, ListOrder, Task, TaskQuery, TaskStatus, WhyQuery, WhyReason,
};
use switchboard_client::{Client, Error};

use super::Check;
use crate::failure::Failure;

const NAME: &str = "tasks";
/// The oldest ready tasks that are looked at.
const TASKS_MAX: u32 = 100;
const AGENTS_MAX: u32 = 100;
/// Questions that the hub is asked.
const QUESTIONS_MAX: usize = 200;
/// So many tasks are named.
const NAMED_MAX: usize = 3;

pub async fn check(client: &Client) -> Check {
    match look(client).await {
        Ok(check) => check,
        Err(error) => Check::fail(NAME, Failure::from(error).to_string()),
    }
}

async fn look(client: &Client) -> Result<Check, Error> {
    let ready = TaskQuery {
        status: vec![TaskStatus::Ready],
        order: Some(ListOrder::Old),
        limit: Some(TASKS_MAX),
        ..TaskQuery::default()
    };
    let tasks = client.tasks().list(&ready).await?.tasks;
    if tasks.is_empty() {
        return Ok(Check::ok(NAME, "no task is ready to be claimed"));
    }
    let present = AgentQuery {
        status: vec![AgentStatus::Idle, AgentStatus::Busy],
        limit: Some(AGENTS_MAX),
        ..AgentQuery::default()
    };
    let agents = client.agents().list(&present).await?.agents;
    if agents.is_empty() {
        let text = "tasks are ready, but no agent is online to take them; start one";
        return Ok(Check::warn(NAME, text));
    }
    let stuck = stuck(client, tasks, &agents).await?;
    Ok(match stuck.as_slice() {
        [] => Check::ok(
            NAME,
            "every ready task has an agent online that can take it",
        ),
        [..] => Check::warn(NAME, told(&stuck)),
    })
}

/// A task, and what keeps an agent from it.
type Stuck = (Task, String);

/// The first task of each kind that nobody present can take.
async fn stuck(client: &Client, tasks: Vec<Task>, agents: &[Agent]) -> Result<Vec<Stuck>, Error> {
    let mut seen = BTreeSet::new();
    let mut asked = 0;
    let mut stuck = Vec::new();
    for task in tasks {
        // Tasks that ask the same of an agent get the same answer.
        let shape = (
            task.required_skills.clone(),
            task.audience.clone(),
            task.estimated_minutes,
            task.kind.to_string(),
            task.previous_agents.clone(),
        );
        if !seen.insert(shape) {
            continue;
        }
        let mut why = None;
        let mut can_be_taken = false;
        for agent in agents {
            if asked == QUESTIONS_MAX {
                return Ok(stuck);
            }
            asked += 1;
            let query = WhyQuery {
                agent_id: Some(agent.id.clone()),
            };
            let answer = client.tasks().why(&task.id, &query).await?;
            let lasting = || answer.reasons.iter().filter(|why| is_lasting(why.reason));
            if lasting().next().is_none() {
                can_be_taken = true;
                break;
            }
            let reasons = lasting().map(|why| match &why.detail {
                Some(detail) => format!("{} {detail}", why.reason),
                None => why.reason.to_string(),
            });
            let reasons: Vec<String> = reasons.collect();
            why.get_or_insert_with(|| format!("{}: {}", agent.id, reasons.join(", ")));
        }
        if !can_be_taken {
            stuck.push((task, why.unwrap_or_default()));
        }
    }
    Ok(stuck)
}

/// Whether waiting does not help, as long as the same agents are present.
fn is_lasting(reason: WhyReason) -> bool {
    match reason {
        WhyReason::MissingSkill
        | WhyReason::OverTimeLimit
        | WhyReason::NeedsBrowser
        | WhyReason::NeedsTests
        | WhyReason::NotInAudience
        | WhyReason::AgentNotRegistered
        | WhyReason::AgentOffline
        | WhyReason::AgentStopping => true,
        WhyReason::HeldBy
        | WhyReason::WaitsForDependency
        | WhyReason::RetryNotDue
        | WhyReason::NeedsPerson
        | WhyReason::Finished
        | WhyReason::FailedItBefore
        | WhyReason::Paused => false,
    }
}

fn told(stuck: &[Stuck]) -> String {
    let named = stuck.iter().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|(task, why)| format!("{} ({why})", task.id))
        .collect();
    let more = match stuck.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more like them"),
    };
    format!(
        "no online agent can take {}{more}; start one that can, or see 'switchboard task why'",
        named.join("; ")
    )
}
