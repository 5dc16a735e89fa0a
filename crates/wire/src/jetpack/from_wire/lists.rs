//! Lists: what is asked for becomes a filter and a page.

use switchboard_core::query::{
    AgentFilter, LeaseFilter, MessageFilter, Page, SnapshotFilter, TaskFilter,
};
use switchboard_core::record::RecordRange;
use switchboard_core::{self as core, limits};

use super::check::{agent_id, maybe, page_size, task_id};
use super::lease_path;
use crate::Malformed;
use crate::jetpack::{
    AgentQuery, IncidentQuery, IncidentState, LeaseQuery, ListOrder, MessageQuery, SnapshotQuery,
    TaskQuery,
};

/// The page that a query asks for.
pub fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Malformed> {
    let limit = page_size(limit)?;
    Ok(Page { after, limit })
}

/// `None` if only statuses were asked for that no task ever has.
pub fn tasks(query: TaskQuery) -> Result<Option<(TaskFilter, Page)>, Malformed> {
    if query.skill.len() > 1 {
        return Err(Malformed::field("skill", "accepts only one skill"));
    }
    let statuses = query.status.iter().filter_map(|status| status.to_core());
    let filter = TaskFilter {
        statuses: statuses.collect(),
        priorities: query.priority.into_iter().map(Into::into).collect(),
        kinds: query.kind.into_iter().map(Into::into).collect(),
        holder: maybe("assignedAgent", query.assigned_agent, agent_id)?,
        skill: query.skill.into_iter().next(),
        branch: query.branch,
        newest_first: query.order == Some(ListOrder::New),
    };
    if filter.statuses.is_empty() && !query.status.is_empty() {
        return Ok(None);
    }
    Ok(Some((filter, page(query.limit, query.after)?)))
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
    let after = after
        .transpose()
        .map_err(|_| Malformed::field("after", "must be the 'next' of the previous page"))?;
    Ok(RecordRange {
        after,
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

/// Everyone's messages.
pub fn messages(query: MessageQuery) -> Result<(MessageFilter, Page), Malformed> {
    if query.types.len() > limits::MESSAGE_TYPES_MAX {
        let message = format!("has more than {} items", limits::MESSAGE_TYPES_MAX);
        return Err(Malformed::field("types", message));
    }
    let filter = MessageFilter {
        from: maybe("from", query.from, agent_id)?,
        to: maybe("to", query.to, agent_id)?,
        kinds: query.types,
    };
    Ok((filter, page(query.limit, query.after)?))
}

pub fn snapshots(query: SnapshotQuery) -> Result<(SnapshotFilter, Page), Malformed> {
    let task = maybe("taskId", query.task_id, task_id)?;
    Ok((SnapshotFilter { task }, page(query.limit, query.after)?))
}
