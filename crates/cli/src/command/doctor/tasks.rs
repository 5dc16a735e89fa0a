//! Ready tasks that no agent present can take.

use std::collections::BTreeSet;

use switchboard_client::jetpack::{
    AgentQuery, AgentStatus, ListOrder, Task, TaskQuery, TaskStatus, Why, WhyQuery, WhyReason,
};
use switchboard_client::{Client, Error};

use super::Check;
use crate::failure::Failure;

const NAME: &str = "tasks";
/// The oldest ready tasks that are looked at.
const TASKS_MAX: u32 = 100;
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
        limit: Some(1),
        ..AgentQuery::default()
    };
    if client.agents().list(&present).await?.agents.is_empty() {
        let text = "tasks are ready, but no agent is online to take them; start one";
        return Ok(Check::warn(NAME, text));
    }
    let stuck = stuck(client, tasks).await?;
    Ok(match stuck.as_slice() {
        [] => Check::ok(
            NAME,
            "every ready task has an agent online that can take it",
        ),
        [..] => Check::warn(NAME, told(&stuck)),
    })
}

/// A task, and what keeps agents from it.
type Stuck = (Task, String);

/// The first task of each kind that nobody present can take.
async fn stuck(client: &Client, tasks: Vec<Task>) -> Result<Vec<Stuck>, Error> {
    let mut seen = BTreeSet::new();
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
        let answer = client.tasks().why(&task.id, &WhyQuery::default()).await?;
        if answer.able.is_empty() {
            let of_agents = |why: &&Why| why.reason != WhyReason::Paused;
            let reason = answer.reasons.iter().find(of_agents);
            stuck.push((
                task,
                reason.map_or(String::new(), |why| why.message.clone()),
            ));
        }
    }
    Ok(stuck)
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
