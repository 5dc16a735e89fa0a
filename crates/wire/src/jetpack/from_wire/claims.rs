//! Claims: which are asked for, and what somebody says of one.

use switchboard_core::assertion::{Assertion, AssertionKind, AssertionStatus};
use switchboard_core::record::RecordRange;
use switchboard_core::{AgentId, verb};

use super::check::{agent_id, maybe, page_size};
use super::lists::bad_place;
use super::tasks::reason;
use crate::Malformed;
use crate::jetpack::{ClaimQuery, ClaimStatusRequest};

/// Empty lists and `None` filter nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFilter {
    statuses: Vec<AssertionStatus>,
    kinds: Vec<AssertionKind>,
    by: Option<AgentId>,
    unresolved: Option<bool>,
    pub limit: usize,
}

impl ClaimFilter {
    pub fn takes(&self, claim: &Assertion) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&claim.status))
            && (self.kinds.is_empty() || self.kinds.contains(&claim.kind))
            && self.by.as_ref().is_none_or(|by| *by == claim.by)
            && self.unresolved.is_none_or(|is| is == claim.is_unresolved())
    }
}

/// `GET /claims`.
pub fn claims(query: ClaimQuery) -> Result<(ClaimFilter, RecordRange), Malformed> {
    let filter = ClaimFilter {
        statuses: query.status.into_iter().map(Into::into).collect(),
        kinds: query.claim_type.into_iter().map(Into::into).collect(),
        by: maybe("by", query.by, agent_id)?,
        unresolved: query.unresolved,
        limit: page_size(query.limit)?,
    };
    let after = query.after.map(|after| after.parse()).transpose();
    let range = RecordRange {
        after: after.map_err(|_| bad_place())?,
        ..Assertion::newest_first()
    };
    Ok((filter, range))
}

/// `POST /claims/:id/status`.
pub fn judge(id: &str, request: ClaimStatusRequest) -> Result<verb::Judge, Malformed> {
    let number = id.strip_prefix('#').unwrap_or(id).parse();
    Ok(verb::Judge {
        claim: number.map_err(|_| Malformed::field("id", "must be the number of a claim"))?,
        status: request.status.into(),
        by: agent_id("agentId", &request.agent_id)?,
        why: reason(request.reason, "")?,
    })
}
