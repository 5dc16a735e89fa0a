//! The whole swarm for operators: agents of every dialect, the queue, the release, the director.

use std::collections::HashMap;
use std::time::Duration;

use switchboard_core::query::{AgentFilter, HeldTask, Page, Readable};
use switchboard_core::{Agent, AgentId, Director, TaskStatus, Timestamp};
use switchboard_wire::agentbus::message::{
    ProjectStateSnapshot, QUEUE_SHOWN_MAX, Queue, Release, WorkerEntry,
};
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::to_wire::{self, Heard};

use super::frame::{Frame, Outbox};
use super::server::BusState;

/// Agents that a snapshot shows.
const AGENTS_MAX: usize = 20_000;
/// Tasks in their hands that it looks at.
const HELD_MAX: usize = 20_000;
const PAGE: usize = 1000;
/// Agents that are not live are shown for so many heartbeat timeouts.
const SHOWN_FOR_TTLS: u32 = 10;

/// To one operator; false if it has to wait, because it had the last one a moment ago.
pub(super) async fn send(bus: &BusState, outbox: &Outbox) -> bool {
    let is_sent = outbox.begin_whole() && push(outbox, &make(bus).await);
    if !is_sent {
        bus.board.ask();
    }
    is_sent
}

/// To all of them, as soon as each may have one.
pub(super) fn broadcast(bus: &BusState) {
    owe_all(bus);
    bus.board.ask();
}

/// What operators have is out of date.
pub(super) fn owe_all(bus: &BusState) {
    for operator in bus.registry.operator_outboxes() {
        operator.owe_whole();
    }
}

/// To those who are owed one and can take it now.
pub(super) async fn send_owed(bus: &BusState) {
    let mut owed = bus.registry.operator_outboxes();
    owed.retain(|operator| operator.lacks_whole() && operator.begin_whole());
    if owed.is_empty() {
        return;
    }
    let parts = make(bus).await;
    for operator in owed {
        push(&operator, &parts);
    }
}

/// Whether somebody is owed one.
pub(super) fn is_owed(bus: &BusState) -> bool {
    let operators = bus.registry.operator_outboxes();
    operators.iter().any(|operator| operator.lacks_whole())
}

/// False if it is not taken, or if there is none.
fn push(outbox: &Outbox, parts: &[ProjectStateSnapshot]) -> bool {
    if parts.is_empty() {
        outbox.owe_whole();
        return false;
    }
    let frame = |part: &ProjectStateSnapshot| Frame::Message(Box::new(part.clone().into()));
    outbox.push_whole(parts.iter().map(frame))
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
    let shown_for = bus.config.heartbeat_ttl * SHOWN_FOR_TTLS;
    let workers = read.agents.into_iter().filter_map(|mut agent| {
        bus.hub.freshen(&mut agent.row);
        entry(bus, &agent, shown_for, now)
    });
    let id = bus.ids.fresh("snap");
    let mut snapshot = ProjectStateSnapshot::new(id, workers.collect(), read.queue);
    snapshot.release = read.release;
    snapshot.director = Some(bus.director.status(bus));
    snapshot.cut(bus.room("project_state_snapshot.v1"))
}

/// Nothing of who has been away for long.
fn entry(
    bus: &BusState,
    agent: &Shown,
    shown_for: Duration,
    now: Timestamp,
) -> Option<WorkerEntry> {
    if !agent.row.is_live() && now.since(agent.row.seen_at) > shown_for {
        return None;
    }
    let heard = bus.board.look(&agent.row.id, |seen| Heard {
        connected: seen.connected,
        at: seen.heard_at,
        state: seen.state.clone(),
        foreign: seen.foreign,
    });
    let heard = heard.unwrap_or_default();
    Some(to_wire::worker_entry(&agent.row, heard, &agent.holds, now))
}

/// What a snapshot takes from the ledger, at one look.
struct Look {
    agents: Vec<Shown>,
    queue: Queue,
    release: Option<Release>,
}

struct Shown {
    row: Agent,
    holds: Vec<HeldTask>,
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
                    let holds = Vec::new();
                    agents.push(Shown { row, holds });
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
            agent.holds = held.remove(&agent.row.id).unwrap_or_default();
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
