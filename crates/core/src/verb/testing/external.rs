//! External agents, as tests make them: invited, admitted, with tokens that a test makes up.

use super::Swarm;
use crate::audit::AuditEntry;
use crate::changes::Changes;
use crate::external::{AgentScope, Constraints, ExternalSession, Lifetimes, used_once};
use crate::limits;
use crate::pass::Pass;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::verb::{AdmitAgent, InviteAgent, RefreshSession, Verb};
use crate::want::Want;

pub(crate) fn invite_agent(hash: &str, agent: &str) -> InviteAgent {
    InviteAgent {
        id: format!("inv_{hash}"),
        hash: hash.to_owned(),
        agent: agent.into(),
        scopes: vec![AgentScope::TaskClaim, AgentScope::TaskRead],
        constraints: Constraints::default(),
        by: "ann".to_owned(),
        lasts_for: limits::NODE_INVITE_FOR_MIN,
    }
}

pub(crate) fn admit(invite: &str, agent: &str, nonce: &str, session: &str) -> AdmitAgent {
    AdmitAgent {
        invite: invite.to_owned(),
        agent: agent.into(),
        thumbprint: format!("key of {agent}"),
        nonce: nonce.to_owned(),
        session: session.to_owned(),
        refresh: refresh_hash(session, 0),
        lifetimes: Lifetimes::default(),
        entry: format!("exchange {session}"),
    }
}

fn refresh_hash(session: &str, turn: u32) -> String {
    format!("refresh {turn} of {session}")
}

/// By "far", with a proof and a nonce of this name.
pub(crate) fn refresh(session: &str, turn: u32, once: &str) -> RefreshSession {
    RefreshSession {
        session: session.to_owned(),
        turn,
        shown: refresh_hash(session, turn),
        thumbprint: "key of far".to_owned(),
        once: vec![
            used_once("key of far", once, Timestamp(i64::MAX)),
            used_once(session, once, Timestamp(i64::MAX)),
        ],
        next: refresh_hash(session, turn + 1),
        lifetimes: Lifetimes::default(),
        entry: format!("refresh {session} {once}"),
    }
}

pub(crate) fn session<'a>(swarm: &'a Swarm, id: &str) -> &'a ExternalSession {
    let row = swarm.records.get(&ExternalSession::at(id.to_owned()));
    row.and_then(ExternalSession::of)
        .expect("there is such a session")
}

pub(crate) fn audit(swarm: &Swarm) -> Vec<&AuditEntry> {
    swarm
        .records
        .values()
        .filter_map(AuditEntry::of_row)
        .collect()
}

impl AuditEntry {
    fn of_row(row: &Record) -> Option<&AuditEntry> {
        <AuditEntry as crate::record::Listed>::of(row)
    }
}

/// One use of "far"'s access token, with a proof and a nonce of this name.
pub(crate) fn pass(session: &str, expires_at: Timestamp, once: &str) -> Pass {
    Pass {
        session: session.to_owned(),
        agent: "far".into(),
        thumbprint: "key of far".to_owned(),
        granted: vec![AgentScope::TaskClaim],
        scope: Some(AgentScope::TaskClaim),
        operation: "claim".to_owned(),
        expires_at,
        once: vec![
            used_once("key of far", once, Timestamp(i64::MAX)),
            used_once(session, once, Timestamp(i64::MAX)),
        ],
        context: None,
        task: Some("T".into()),
        corr_id: None,
        entry: format!("use {session} {once}"),
    }
}

/// A call that does nothing but use its pass up.
#[derive(Clone, Debug)]
pub(crate) struct Passes(pub Pass);

impl Verb for Passes {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        self.0.asks(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<((), Changes), Refusal> {
        self.0.check(slice, now)?;
        let mut changes = Changes::default();
        self.0.use_up(&mut changes);
        self.0.tell(slice, &mut changes, now);
        Ok(((), changes))
    }
}
