//! The whole swarm for operators: agents of every dialect, the queue, the release, the director.

use std::collections::HashMap;

use switchboard_core::query::{AgentFilter, HeldTask, Page, Readable};
use switchboard_core::{Agent, AgentId, Director, TaskStatus, Timestamp};
use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::Text;
use switchboard_wire::agentbus::message::{
    ProjectStateSnapshot, QUEUE_SHOWN_MAX, Queue, Release, WorkerEntry,
};
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::redact;

use super::frame::{Frame, Outbox};
use super::server::BusState;

/// Agents that a snapshot shows.
const AGENTS_MAX: usize = 20_000;
/// Tasks in their hands that it looks at.
const HELD_MAX: usize = 20_000;
const PAGE: usize = 1000;

/// To one operator.
pub(super) async fn send(bus: &BusState, outbox: &Outbox) {
    outbox.push_whole(frames(&make(bus).await));
}

/// To all of them.
pub(super) async fn broadcast(bus: &BusState) {
    let parts = make(bus).await;
    for operator in bus.registry.operator_outboxes() {
        operator.push_whole(frames(&parts));
    }
}

/// To those who could not take the last one and can now.
pub(super) async fn catch_up(bus: &BusState) {
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
pub(super) fn is_owed(bus: &BusState) -> bool {
    let operators = bus.registry.operator_outboxes();
    let mut lacks = operators.iter().map(|operator| operator.lacks_whole());
    lacks.any(|lacks| lacks.is_some())
}

fn frames(parts: &[ProjectStateSnapshot]) -> impl Iterator<Item = Frame> {
    parts
        .iter()
        .map(|part| Frame::Message(Box::new(part.clone().into())))
}

async fn make(bus: &BusState) -> Vec<ProjectStateSnapshot> {
    let read = match bus.hub.read(|ledger| Look::at(ledger)).await {
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(%error, "a snapshot for operators was skipped");
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
struct Look {
    agents: Vec<Shown>,
    queue: Queue,
    release: Option<Release>,
}

struct Shown {
    row: Agent,
    /// The task it works on, as far as it holds one.
    task: Option<(u64, u32, Option<Stage>)>,
    /// The numbers of all that it holds.
    holds: Vec<u64>,
}

impl Look {
    fn at<E>(ledger: &dyn Readable<Error = E>) -> Result<Look, E> {
        let head = ledger.head()?;
        let mut agents: Vec<Shown> = Vec::new();
        let mut after = None;
        while agents.len() < AGENTS_MAX {
            let page = Page { after, limit: PAGE };
            let found = ledger.agents(&AgentFilter::default(), &page)?;
            for row in found.rows {
                if !row.is_gone() {
                    agents.push(Shown {
                        row,
                        task: None,
                        holds: Vec::new(),
                    });
                }
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        let mut held: HashMap<AgentId, Vec<HeldTask>> = HashMap::new();
        for task in ledger.held_tasks(HELD_MAX)? {
            held.entry(task.agent.clone()).or_default().push(task);
        }
        let mut claimed: Vec<u64> = held.values().flatten().map(|task| task.number).collect();
        claimed.sort_unstable();
        claimed.truncate(QUEUE_SHOWN_MAX);
        for agent in &mut agents {
            let tasks = held.remove(&agent.row.id).unwrap_or_default();
            let current = agent.row.current.as_ref().map(|current| &current.task);
            let task = tasks.iter().find(|task| Some(&task.id) == current);
            agent.task = task.or(tasks.last()).map(|task| {
                let stage = Stage::of_task(task.status, task.phase);
                (task.number, task.retries + 1, stage)
            });
            agent.holds = tasks.iter().map(|task| task.number).collect();
        }
        let release = ledger
            .private::<Director>("")?
            .and_then(|told| told.release);
        let mut eligible = ledger.next_in_queue(QUEUE_SHOWN_MAX)?;
        // Between the two looks one may have come back.
        eligible.retain(|number| claimed.binary_search(number).is_err());
        Ok(Look {
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

/// What it last said on the bus, else what the ledger knows of it.
fn entry(bus: &BusState, agent: &Shown, now: Timestamp) -> WorkerEntry {
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
            let number = state.issue_number;
            let mut entry = WorkerEntry::heard(id, state);
            if foreign {
                entry = entry.foreign();
            } else if !agent.holds.contains(&number) {
                // What it last spoke of is over.
                (entry.issue_number, entry.attempt, entry.progress) = (0, 0, None);
            }
            entry
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
