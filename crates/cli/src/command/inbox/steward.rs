//! `switchboard inbox --steward`: all that waits for a person's decision, in one list.

use serde::Serialize;
use switchboard_client::jetpack::{IncidentQuery, TaskQuery, TaskStatus};
use switchboard_core::JobState;
use switchboard_wire::IsoTime;
use switchboard_wire::logist::http::JobQuery;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, brief, cell, toned};
use crate::show::{now, relative};

/// States in which a job waits for a person.
const WAITING: [JobState; 5] = [
    JobState::InterventionRequired,
    JobState::ApprovalRequired,
    JobState::HaltedCost,
    JobState::HaltedTime,
    JobState::HaltedIteration,
];

#[derive(Debug, Serialize)]
struct Item {
    kind: &'static str,
    id: String,
    since: IsoTime,
    what: String,
    /// The command that shows it.
    look: String,
}

#[derive(Debug, Serialize)]
struct Items {
    items: Vec<Item>,
}

/// Lists it, the oldest first. Overdue acknowledgements are incidents.
pub async fn run(limit: u32, context: &mut Context) -> Result<(), Failure> {
    let mut items = gathered(limit, context).await?;
    items.sort_by_key(|item| item.since.0);
    items.truncate(limit as usize);
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&Items { items })?);
    }
    let now = now();
    let mut table = Table::new(
        ["SINCE", "KIND", "ID", "WHAT", "LOOK"],
        "nothing waits for you",
    );
    for item in &items {
        table.row([
            cell(relative(item.since, now)),
            cell(item.kind),
            cell(&item.id),
            toned(brief(&item.what, 80), Tone::Warn),
            cell(&item.look),
        ]);
    }
    Ok(screen.table(&table)?)
}

async fn gathered(limit: u32, context: &Context) -> Result<Vec<Item>, Failure> {
    let client = context.client()?;
    let mut items = Vec::new();
    let query = JobQuery {
        status: WAITING.iter().map(ToString::to_string).collect(),
        limit: Some(limit),
        after: None,
    };
    for job in client.jobs().list(&query).await?.jobs {
        items.push(Item {
            kind: "job",
            since: job.updated_at,
            what: job.status,
            look: format!("switchboard job status {}", job.job_id),
            id: job.job_id,
        });
    }
    let query = TaskQuery {
        status: vec![TaskStatus::NeedsReview],
        limit: Some(limit),
        ..TaskQuery::default()
    };
    for task in client.tasks().list(&query).await?.tasks {
        items.push(Item {
            kind: "task",
            since: task.updated_at,
            what: format!("in review: {}", task.title),
            look: format!("switchboard task show {}", task.number),
            id: task.id,
        });
    }
    let query = IncidentQuery {
        limit: Some(limit),
        ..IncidentQuery::default()
    };
    for incident in client.incidents().list(&query).await?.incidents {
        items.push(Item {
            kind: "incident",
            since: incident.first_at,
            what: incident.message,
            look: "switchboard incident list".to_owned(),
            id: incident.id,
        });
    }
    Ok(items)
}
