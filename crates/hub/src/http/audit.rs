//! The audit: what is written of refusals, and the story of all nodes in one.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::Mutex;
use switchboard_core::audit::AuditEntry;
use switchboard_core::external::AgentScope;
use switchboard_core::node::{Node, Reach};
use switchboard_core::query::TaskRef;
use switchboard_core::record::{Listed as _, Place};
use switchboard_core::verb::NoteRefusal;
use switchboard_core::{AgentId, CorrId, NodeId, TaskId, Timestamp, limits};
use switchboard_wire::Query as _;
use switchboard_wire::jetpack::from_wire::page_size;
use switchboard_wire::runtime::{
    self as wire, AuditQuery, AuditResponse, Unanswered, external_to_wire, from_wire,
};
use tokio::time::timeout;

use super::call::Call;
use super::error::Failure;
use super::external::place;
use super::reply::Reply;
use super::{App, AppState};
use crate::runtime::{Peer, Trouble, node_id};

/// A node that does not answer within this is named instead.
const ASKED_FOR: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

/// What somebody tried, as far as it was found out.
pub struct Step {
    pub operation: &'static str,
    pub actor: Option<AgentId>,
    pub session: Option<String>,
    pub scope: Option<AgentScope>,
    pub corr_id: Option<CorrId>,
    /// The task that it is about.
    pub task: Option<TaskId>,
    /// Whatever came of it stands in the ledger already.
    pub is_told: bool,
}

impl Step {
    pub fn of(operation: &'static str) -> Step {
        Step {
            operation,
            actor: None,
            session: None,
            scope: None,
            corr_id: None,
            task: None,
            is_told: false,
        }
    }
}

/// How many refusals were written down lately, and how many were only counted.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Tally>);

#[derive(Debug, Default)]
struct Tally {
    began: Option<Instant>,
    written: u32,
    counted: u64,
}

impl Refusals {
    /// Whether one more is written, and how many were not before it.
    fn next(&self, now: Instant) -> Option<u64> {
        let mut tally = self.0.lock();
        let is_over = |began: Instant| now.duration_since(began) >= MINUTE;
        if tally.began.is_none_or(is_over) {
            (tally.began, tally.written) = (Some(now), 0);
        }
        if tally.written >= limits::AUDITED_REFUSALS_PER_MINUTE {
            tally.counted += 1;
            return None;
        }
        tally.written += 1;
        Some(std::mem::take(&mut tally.counted))
    }
}

impl App {
    /// Writes down what was refused, so far as there is room, and passes the answer on.
    pub async fn tell_of(
        &self,
        step: Step,
        done: Result<Reply, Failure>,
    ) -> Result<Reply, Failure> {
        let Err(failure) = done else {
            return done;
        };
        let (body, _) = failure.answer();
        if step.is_told || body.status() >= 500 {
            return Err(failure);
        }
        if let Some(more) = self.refusals.next(Instant::now()) {
            let corr_id = match step.corr_id {
                Some(corr_id) => Some(corr_id),
                None => self.corr_id_of(step.task).await,
            };
            let entry = AuditEntry {
                actor: step.actor,
                session: step.session,
                scope: step.scope,
                corr_id,
                more,
                ..AuditEntry::of(self.ids.fresh("aud"), step.operation, Timestamp::ZERO)
            };
            let entry = entry.refused(body.error.as_str());
            if let Err(error) = self.hub.run(NoteRefusal { entry }).await {
                tracing::warn!("a refusal was not written to the audit: {error}");
            }
        }
        Err(failure)
    }
}

impl App {
    /// What a task belongs to, if it is there.
    async fn corr_id_of(&self, task: Option<TaskId>) -> Option<CorrId> {
        let which = TaskRef::Id(task?);
        let found = self.hub.read(move |reader| reader.task(&which)).await;
        found.ok().flatten().map(|task| task.corr_id)
    }
}

/// A part of a node's audit: up to where it was looked through, if there may be more.
struct Part {
    entries: Vec<wire::AuditEntry>,
    upto: Option<Place>,
}

pub async fn read(app: AppState, call: Call) -> Result<Reply, Failure> {
    let caller = app.reader(&call).await?;
    let query: AuditQuery = call.query()?;
    let limit = page_size(query.limit)?;
    let named = [
        ("corrId", &query.corr_id),
        ("sessionId", &query.session_id),
        ("agentId", &query.agent_id),
    ];
    for (field, given) in named {
        if let Some(given) = given {
            from_wire::context_id(field, given)?;
        }
    }
    let own = node_id(&app.hub).await?;
    let mut parts = vec![app.own_part(&query, &own, limit).await?];
    let (mut unanswered, mut unasked) = (Vec::new(), Vec::new());
    // A node that asks, asks every other one itself.
    if caller.node().is_none() && query.own != Some(true) {
        let nodes = app.hub.read(|reader| reader.nodes()).await?;
        let (nodes, pushing): (Vec<_>, Vec<_>) = nodes
            .into_iter()
            .partition(|node| node.reach() == Reach::Pull);
        unasked.extend(pushing.iter().map(|node| node.node_id.to_string()));
        let asked = nodes.iter().map(|node| app.ask(node, &query, limit));
        for (node, part) in nodes.iter().zip(join_all(asked).await) {
            match part {
                Ok(part) => parts.push(part),
                Err(reason) => unanswered.push(Unanswered {
                    node_id: node.node_id.to_string(),
                    reason,
                }),
            }
        }
    }
    let (entries, next) = merged(parts, limit);
    Ok(Reply::ok(&AuditResponse {
        entries,
        next: next.map(|place| place.to_string()),
        unanswered,
        unasked,
    }))
}

/// One story, as far as every part of it is known.
fn merged(parts: Vec<Part>, limit: usize) -> (Vec<wire::AuditEntry>, Option<Place>) {
    let mut upto = parts.iter().filter_map(|part| part.upto.clone()).min();
    let mut entries: Vec<_> = parts.into_iter().flat_map(|part| part.entries).collect();
    entries.sort_by_cached_key(place_of);
    if let Some(upto) = &upto {
        entries.retain(|entry| place_of(entry) <= *upto);
    }
    if entries.len() > limit {
        entries.truncate(limit);
        upto = entries.last().map(place_of);
    }
    (entries, upto)
}

fn place_of(entry: &wire::AuditEntry) -> Place {
    Place {
        position: entry.at.0,
        key: entry.id.clone().into(),
    }
}

impl App {
    async fn own_part(
        &self,
        query: &AuditQuery,
        own: &NodeId,
        limit: usize,
    ) -> Result<Part, Failure> {
        let (wanted, mut after) = (query.clone(), place(query.after.clone())?);
        let read = move |reader: &dyn switchboard_core::query::Readable<Error = _>| {
            let (mut found, mut looked) = (Vec::new(), 0);
            loop {
                let rows = reader.records(&AuditEntry::after(after.clone(), limits::PAGE_MAX))?;
                let is_last = rows.len() < limits::PAGE_MAX;
                looked += rows.len();
                for row in rows {
                    let at = row.place();
                    let row = AuditEntry::out_of(row);
                    #[cfg(debug_assertions)]
                    let row = row.map(crate::runtime::broken::written);
                    found.extend(row.filter(|row| is_wanted(row, &wanted)));
                    after = at.or(after);
                    if found.len() == limit {
                        return Ok((found, after));
                    }
                }
                if is_last {
                    return Ok((found, None));
                }
                if looked >= limits::AUDIT_SCAN_MAX {
                    return Ok((found, after));
                }
            }
        };
        let (found, upto) = self.hub.read(read).await?;
        let entries = found.iter().map(|row| external_to_wire::entry(row, own));
        Ok(Part {
            entries: entries.collect(),
            upto,
        })
    }

    /// What another node knows, or why it does not say.
    async fn ask(&self, node: &Node, query: &AuditQuery, limit: usize) -> Result<Part, String> {
        let query = AuditQuery {
            own: Some(true),
            limit: u32::try_from(limit).ok(),
            ..query.clone()
        };
        let path = format!("/runtime/v1/audit?{}", query.to_query());
        let asked = async {
            let peer = Peer::new(&self.hub, node)?;
            let answer = peer.get(&path).await?;
            let read = serde_json::from_slice::<AuditResponse>(&answer);
            read.map_err(|error| Trouble::Unreadable(error.to_string()))
        };
        let answer = match timeout(ASKED_FOR, asked).await {
            Ok(answer) => answer.map_err(|why| why.to_string())?,
            Err(_) => return Err("it did not answer in time".to_owned()),
        };
        let upto = place(answer.next).map_err(|why| why.to_string())?;
        Ok(Part {
            entries: answer.entries,
            upto,
        })
    }
}

fn is_wanted(row: &AuditEntry, query: &AuditQuery) -> bool {
    fn fits<T: ToString>(wanted: &Option<String>, has: &Option<T>) -> bool {
        let is_it = |wanted: &String| has.as_ref().is_some_and(|has| has.to_string() == *wanted);
        wanted.as_ref().is_none_or(is_it)
    }
    fits(&query.corr_id, &row.corr_id)
        && fits(&query.session_id, &row.session)
        && fits(&query.agent_id, &row.actor)
}
