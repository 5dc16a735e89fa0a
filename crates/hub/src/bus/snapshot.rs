//! The whole swarm for operators: agents of every dialect, the queue, the release, the director.

use std::collections::HashSet;

use switchboard_core::{Agent, Priority, Record, RecordKey, TaskStatus, Timestamp};
use switchboard_store::{AgentFilter, Page, Reader, TaskFilter};
use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::Text;
use switchboard_wire::agentbus::message::{
    ProjectStateSnapshot, QUEUE_SHOWN_MAX, Queue, Release, WorkerEntry,
};
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::redact;

use super::outbox::{Frame, Outbox};
use super::server::Shared;

/// Agents that a snapshot shows.
const AGENTS_MAX: usize = 20_000;
const PAGE: usize = 1000;

/// To one operator.
pub(super) async fn send(bus: &Shared, outbox: &Outbox) {
    outbox.push_whole(frames(&make(bus).await));
}

/// To all of them.
pub(super) async fn broadcast(bus: &Shared) {
    let parts = make(bus).await;
    for operator in bus.registry.operator_outboxes() {
        operator.push_whole(frames(&parts));
    }
}

/// To those who could not take the last one and can now.
pub(super) async fn catch_up(bus: &Shared) {
    let mut late = bus.registry.operator_outboxes();
    late.retain(|operator| operator.lacks_whole() == Some(true));
    if late.is_empty() {
        return;
    }
    let parts = make(bus).await;
    for operator in late {
        operator.push_whole(frames(&parts));
    }
}

/// Whether somebody could not take the last one.
pub(super) fn is_owed(bus: &Shared) -> bool {
    let operators = bus.registry.operator_outboxes();
    let mut lacks = operators.iter().map(|operator| operator.lacks_whole());
    lacks.any(|lacks| lacks.is_some())
}

fn frames(parts: &[ProjectStateSnapshot]) -> impl Iterator<Item = Frame> {
    parts
        .iter()
        .map(|part| Frame::Message(Box::new(part.clone().into())))
}

async fn make(bus: &Shared) -> Vec<ProjectStateSnapshot> {
    let read = match bus.hub.read(|reader| Ledger::read(reader)).await {
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(%error, "no snapshot for operators this time");
            return Vec::new();
        }
    };
    let now = bus.hub.time();
    let workers = read.agents.into_iter().map(|mut agent| {
        bus.hub.freshen(&mut agent.row);
        entry(bus, &agent, now)
    });
    let id = bus.ids.fresh("snap");
    let mut snapshot = ProjectStateSnapshot::new(id, workers.collect(), read.queue);
    snapshot.release = read.release;
    snapshot.director = Some(bus.director.status(bus));
    snapshot.cut(bus.room("project_state_snapshot.v1"))
}

/// What a snapshot takes from the ledger, at one look.
struct Ledger {
    agents: Vec<Shown>,
    queue: Queue,
    release: Option<Release>,
}

struct Shown {
    row: Agent,
    /// The task it works on, as far as it holds one.
    task: Option<(u64, u32, Option<Stage>)>,
}

impl Ledger {
    fn read(reader: &dyn Reader) -> Result<Ledger, switchboard_store::Error> {
        let head = reader.head()?;
        let mut agents: Vec<Shown> = Vec::new();
        let mut after = None;
        while agents.len() < AGENTS_MAX {
            let page = Page { after, limit: PAGE };
            let found = reader.agents(&AgentFilter::default(), &page)?;
            for row in found.rows {
                if !row.is_gone() {
                    agents.push(Shown { row, task: None });
                }
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        for agent in agents
            .iter_mut()
            .filter(|agent| !agent.row.holds.is_empty())
        {
            let current = agent.row.current.as_ref().map(|current| &current.task);
            let Some(id) = current.or(agent.row.holds.last()) else {
                continue;
            };
            let which = switchboard_store::TaskRef::Id(id.clone());
            if let Some(task) = reader.task(&which)? {
                let phase = task.progress.as_ref().map(|progress| progress.phase);
                let stage = Stage::of_task(task.status(), phase);
                agent.task = Some((task.number, task.retries + 1, stage));
            }
        }
        let release = match reader.record(&RecordKey::Director)? {
            Some(Record::Director(director)) => director.release,
            Some(_) | None => None,
        };
        let claimed = claimed(reader)?;
        let mut eligible = eligible(reader)?;
        // Between the two looks one may have come back.
        let held: HashSet<u64> = claimed.iter().copied().collect();
        eligible.retain(|number| !held.contains(number));
        Ok(Ledger {
            agents,
            queue: Queue {
                eligible_issue_numbers: eligible,
                claimed_issue_numbers: claimed,
                eligible_total: head.count(TaskStatus::Ready),
                claimed_total: head.count(TaskStatus::Claimed) + head.count(TaskStatus::InProgress),
            },
            release: release.map(|release| Release {
                release_id: release.id,
                release_branch: release.branch,
                release_pr_number: release.pr_number,
            }),
        })
    }
}

/// The next in the order of claiming: by priority, then by age.
fn eligible(reader: &dyn Reader) -> Result<Vec<u64>, switchboard_store::Error> {
    let mut numbers = Vec::new();
    for priority in Priority::ALL {
        let filter = TaskFilter {
            statuses: vec![TaskStatus::Ready],
            priorities: vec![*priority],
            ..TaskFilter::default()
        };
        numbers.extend(first(reader, &filter, QUEUE_SHOWN_MAX - numbers.len())?);
        if numbers.len() >= QUEUE_SHOWN_MAX {
            break;
        }
    }
    Ok(numbers)
}

fn claimed(reader: &dyn Reader) -> Result<Vec<u64>, switchboard_store::Error> {
    let filter = TaskFilter {
        statuses: vec![TaskStatus::Claimed, TaskStatus::InProgress],
        ..TaskFilter::default()
    };
    first(reader, &filter, QUEUE_SHOWN_MAX)
}

fn first(
    reader: &dyn Reader,
    filter: &TaskFilter,
    limit: usize,
) -> Result<Vec<u64>, switchboard_store::Error> {
    let page = Page { after: None, limit };
    let found = reader.tasks(filter, &page)?;
    Ok(found.rows.iter().map(|task| task.number).collect())
}

/// What it last said on the bus, else what the ledger knows of it.
fn entry(bus: &Shared, agent: &Shown, now: Timestamp) -> WorkerEntry {
    let row = &agent.row;
    let id = row.id.to_string();
    let heard = bus.board.look(&row.id, |seen| {
        let state = seen.state.clone();
        (seen.connected, seen.heard_at, seen.foreign, state)
    });
    let (connected, heard_at, foreign, state) = heard.unwrap_or_default();
    let mut entry = match state {
        Some(mut state) => {
            if let Some(progress) = &mut state.progress {
                progress.step = Text::from(redact::text(&progress.step).into_owned());
            }
            let entry = WorkerEntry::heard(id, state);
            if foreign { entry.foreign() } else { entry }
        }
        None => WorkerEntry::unheard(id),
    };
    if entry.issue_number == 0
        && let Some((number, attempt, stage)) = agent.task
    {
        (entry.issue_number, entry.attempt, entry.stage) = (number, attempt, stage);
        if entry.progress.is_none()
            && let Some(percent) = row.current.as_ref().and_then(|current| current.percent)
        {
            entry.progress = Some(switchboard_wire::agentbus::message::StepProgress {
                step: Text::from(row.status()),
                percent: f64::from(percent),
            });
        }
    }
    entry.connected = connected;
    let seen_at = heard_at.unwrap_or(row.seen_at).max(row.seen_at);
    entry.last_heartbeat_age_seconds = Some(now.since(seen_at).as_secs_f64());
    entry.doors = row.doors.iter().map(ToString::to_string).collect();
    entry
}
