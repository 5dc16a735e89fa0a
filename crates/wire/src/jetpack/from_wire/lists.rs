//! Lists: what is asked for becomes a filter and a page.

use switchboard_core::query::{
    AgentFilter, LeaseFilter, MessageFilter, Page, SnapshotFilter, TaskFilter,
};
use switchboard_core::record::RecordRange;
use switchboard_core::{self as core, limits};

use super::check::{agent_id, maybe, message_id, page_size, skill, task_id, wait_for};
use super::lease_path;
use crate::Malformed;
use crate::jetpack::{
    AgentQuery, IncidentQuery, IncidentState, LeaseQuery, ListOrder, MessageQuery, SnapshotQuery,
    TaskQuery,
};

/// Digits of a place in a numbered list.
pub(crate) const PLACE_DIGITS_MAX: usize = 18;

/// The page that a query asks for.
pub fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Malformed> {
    let limit = page_size(limit)?;
    Ok(Page { after, limit })
}

/// The same of a list whose places are numbers.
fn numbered(limit: Option<u32>, after: Option<String>) -> Result<Page, Malformed> {
    let is_number = |text: &String| {
        (1..=PLACE_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if after.as_ref().is_some_and(|after| !is_number(after)) {
        return Err(bad_place());
    }
    page(limit, after)
}

pub(crate) fn bad_place() -> Malformed {
    Malformed::field("after", "must be the 'next' of the previous page")
}

/// `None` if only statuses were asked for that no task ever has.
pub fn tasks(query: TaskQuery) -> Result<Option<(TaskFilter, Page)>, Malformed> {
    let statuses = query.status.iter().filter_map(|status| status.to_core());
    let filter = TaskFilter {
        statuses: statuses.collect(),
        priorities: query.priority.into_iter().map(Into::into).collect(),
        kinds: query.kind.into_iter().map(Into::into).collect(),
        holder: maybe("assignedAgent", query.assigned_agent, agent_id)?,
        skill: maybe("skill", query.skill, skill)?,
        branch: query.branch,
        newest_first: query.order == Some(ListOrder::New),
    };
    if filter.statuses.is_empty() && !query.status.is_empty() {
        return Ok(None);
    }
    Ok(Some((filter, numbered(query.limit, query.after)?)))
}

pub fn agents(query: AgentQuery) -> Result<(AgentFilter, Page), Malformed> {
    let statuses = query.status.iter();
    let filter = AgentFilter {
        statuses: statuses.map(|status| status.as_str().to_owned()).collect(),
        with_gone: false,
    };
    Ok((filter, page(query.limit, query.after)?))
}

pub fn incidents(query: IncidentQuery) -> Result<RecordRange, Malformed> {
    let is_resolved = query.state == Some(IncidentState::Resolved);
    let after = query.after.map(|after| after.parse());
    Ok(RecordRange {
        after: after.transpose().map_err(|_| bad_place())?,
        ..core::Incident::range(is_resolved, page_size(query.limit)?)
    })
}

/// `root` is the project's absolute directory, which lease paths are relative to.
pub fn leases(query: LeaseQuery, root: &str) -> Result<(LeaseFilter, Page), Malformed> {
    let filter = LeaseFilter {
        agent: maybe("agentId", query.agent_id, agent_id)?,
        task: maybe("taskId", query.task_id, task_id)?,
        near: maybe("under", query.under, |field, path| {
            lease_path(field, path, root)
        })?,
    };
    Ok((filter, page(query.limit, query.after)?))
}

/// Everyone's messages. What only an agent's own take is checked all the same.
pub fn messages(query: MessageQuery) -> Result<(MessageFilter, Page), Malformed> {
    if query.types.len() > limits::MESSAGE_TYPES_MAX {
        let message = format!("has more than {} items", limits::MESSAGE_TYPES_MAX);
        return Err(Malformed::field("types", message));
    }
    maybe("agentId", query.agent_id, agent_id)?;
    maybe("since", query.since, message_id)?;
    wait_for(query.wait)?;
    let filter = MessageFilter {
        from: maybe("from", query.from, agent_id)?,
        to: maybe("to", query.to, agent_id)?,
        kinds: query.types,
    };
    // As many as an agent asks for of its own: fewer is fine.
    let limit = query.limit.map(|limit| limit.min(limits::PAGE_MAX as u32));
    Ok((filter, numbered(limit, query.after)?))
}

pub fn snapshots(query: SnapshotQuery) -> Result<(SnapshotFilter, Page), Malformed> {
    let task = maybe("taskId", query.task_id, task_id)?;
    Ok((SnapshotFilter { task }, numbered(query.limit, query.after)?))
}
