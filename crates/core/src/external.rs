//! Agents that live elsewhere, behind no gateway of their own: their invitations, and the sessions that these became.
//!
//! Signatures and tokens are checked outside. Here is what a session may do, how long it lasts, and what ends it: a
//! session is one family of refresh tokens, of which only the newest counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::changes::{Changes, Nonce};
use crate::event::Event;
use crate::id::AgentId;
use crate::limits;
use crate::query::Readable;
use crate::record::{History, Listed as _, Private, Record, RecordRange};
use crate::refusal::{Denied, Refusal};
use crate::time::Timestamp;
use crate::want::Want;

words! {
    /// What an external agent may be let do. What is not named is denied.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum AgentScope {
        MessageRead = "ansible.message.read",
        MessageSend = "ansible.message.send",
        TaskRead = "ansible.task.read",
        TaskCreate = "ansible.task.create",
        TaskClaim = "ansible.task.claim",
        TaskUpdate = "ansible.task.update",
        TaskComplete = "ansible.task.complete",
        StatusRead = "ansible.status.read",
    }
}

/// What holds for every session of an invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// Sessions that the agent may have at a time.
    pub max_sessions: usize,
    /// Addresses and networks that it calls from; anywhere, if none is named.
    pub origins: Vec<String>,
}

impl Default for Constraints {
    fn default() -> Self {
        Constraints {
            max_sessions: limits::SESSIONS_PER_AGENT_MAX,
            origins: Vec::new(),
        }
    }
}

/// An invitation: for one agent, once, for a short while. Only the hash of its secret is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInvite {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    pub agent: AgentId,
    pub scopes: Vec<AgentScope>,
    pub constraints: Constraints,
    pub by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// The session that it became.
    pub session: Option<String>,
}

/// What an external agent has been given, until it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalSession {
    pub id: String,
    pub agent: AgentId,
    pub scopes: Vec<AgentScope>,
    pub constraints: Constraints,
    pub invited_by: String,
    /// Of the key that its tokens are bound to (RFC 7638).
    pub thumbprint: String,
    pub began_at: Timestamp,
    /// How often it was refreshed: of its family of refresh tokens, this one counts.
    pub turn: u32,
    /// SHA-256 of that token, in hexadecimal.
    pub refresh: String,
    /// The last access token ends then.
    pub access_until: Timestamp,
    pub refresh_until: Timestamp,
    pub ended: Option<SessionEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub why: EndReason,
    /// The person who ended it, if one did.
    pub by: Option<String>,
    pub at: Timestamp,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum EndReason {
        Expired = "expired",
        Revoked = "revoked",
        /// A refresh token came again that had been used.
        Reused = "refresh_token_reused",
    }
}

/// How long tokens last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    pub access: Duration,
    pub refresh: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes {
            access: limits::ACCESS_FOR_MAX,
            refresh: limits::REFRESH_FOR_MIN,
        }
    }
}

/// The sessions that an agent has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visitor {
    pub agent: AgentId,
    pub sessions: Vec<String>,
}

/// How many sessions there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCount {
    pub live: usize,
}

const INVITED: &str = "invited";
const LIVE: &str = "live";
const ENDED: &str = "ended";

impl Private for AgentInvite {
    const HISTORY: Option<History> = Some(History {
        owner: INVITED,
        kept_for: limits::NODE_INVITES_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.hash.clone().into()
    }

    fn owner(&self) -> &str {
        INVITED
    }

    fn position(&self) -> Option<i64> {
        Some(self.expires_at.0)
    }
}

impl Private for ExternalSession {
    const HISTORY: Option<History> = Some(History {
        owner: ENDED,
        kept_for: limits::AUDIT_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.id.clone().into()
    }

    fn owner(&self) -> &str {
        match self.ended {
            None => LIVE,
            Some(_) => ENDED,
        }
    }

    fn position(&self) -> Option<i64> {
        let at = self.ended.as_ref().map_or(self.began_at, |end| end.at);
        Some(at.0)
    }

    fn due_at(&self) -> Option<Timestamp> {
        match self.ended {
            None => Some(self.refresh_until),
            Some(_) => None,
        }
    }
}

impl Private for Visitor {
    fn key(&self) -> Cow<'static, str> {
        self.agent.to_string().into()
    }
}

impl Private for SessionCount {}

impl AgentInvite {
    pub fn all() -> RecordRange {
        RecordRange::of::<AgentInvite>(INVITED, limits::NODE_INVITES_MAX)
    }
}

impl ExternalSession {
    /// Those that are live, or that ended, the newest first.
    pub fn range(is_live: bool, limit: usize) -> RecordRange {
        RecordRange::newest::<ExternalSession>(if is_live { LIVE } else { ENDED }, limit)
    }

    pub fn is_live(&self, now: Timestamp) -> bool {
        self.ended.is_none() && now < self.refresh_until
    }

    /// Asks for what [`ExternalSession::begin`] looks at.
    pub(crate) fn asks(agent: &AgentId, want: &mut Want<'_>) {
        want.private::<SessionCount>("");
        want.private::<Visitor>(agent.to_string());
    }

    /// One more session, if there is room for it.
    pub(crate) fn begin(self, want: &mut Want<'_>, changes: &mut Changes) -> Result<(), Refusal> {
        let too_many = |what, limit| Err(Refusal::TooMany { what, limit });
        let count = want.private::<SessionCount>("").map_or(0, |row| row.live);
        if count >= limits::EXTERNAL_SESSIONS_MAX {
            return too_many("sessions", limits::EXTERNAL_SESSIONS_MAX);
        }
        let known = want.private::<Visitor>(self.agent.to_string());
        let mut sessions = known.map_or_else(Vec::new, |row| row.sessions.clone());
        let most = self.constraints.max_sessions;
        if sessions.len() >= most {
            return too_many("sessions of this agent", most);
        }
        sessions.push(self.id.clone());
        changes.put(Visitor {
            agent: self.agent.clone(),
            sessions,
        });
        changes.put(SessionCount { live: count + 1 });
        changes.event(Event::SessionBegan {
            session: self.id.clone(),
            agent: self.agent.clone(),
        });
        changes.put(self);
        Ok(())
    }
}

/// Sessions that end together.
#[derive(Default)]
pub(crate) struct Ending {
    count: Option<SessionCount>,
    visitors: BTreeMap<AgentId, Visitor>,
}

impl Ending {
    /// Ends one of an agent that was asked for as [`ExternalSession::asks`] does.
    pub fn end(
        &mut self,
        session: &ExternalSession,
        end: SessionEnd,
        want: &mut Want<'_>,
        changes: &mut Changes,
    ) -> ExternalSession {
        let count = self.count.get_or_insert_with(|| {
            let known = want.private::<SessionCount>("").cloned();
            known.unwrap_or_default()
        });
        count.live = count.live.saturating_sub(1);
        let agent = &session.agent;
        let visitor = self.visitors.entry(agent.clone()).or_insert_with(|| {
            let known = want.private::<Visitor>(agent.to_string()).cloned();
            known.unwrap_or_else(|| Visitor {
                agent: agent.clone(),
                sessions: Vec::new(),
            })
        });
        visitor.sessions.retain(|id| *id != session.id);
        changes.event(Event::SessionEnded {
            session: session.id.clone(),
            agent: agent.clone(),
            why: end.why.to_string(),
        });
        let ended = ExternalSession {
            ended: Some(end),
            ..session.clone()
        };
        changes.put(ended.clone());
        ended
    }

    /// Writes what is left; tells which agents have no session any more.
    pub fn finish(self, changes: &mut Changes) -> Vec<AgentId> {
        if let Some(count) = self.count {
            changes.put(count);
        }
        let mut gone = Vec::new();
        for (agent, visitor) in self.visitors {
            if visitor.sessions.is_empty() {
                changes.remove::<Record>(Visitor::at(agent.to_string()));
                gone.push(agent);
            } else {
                changes.put(visitor);
            }
        }
        gone
    }
}

/// Whether a token opens an operation that takes this scope.
pub fn allows(granted: &[AgentScope], scope: AgentScope, operation: &str) -> Result<(), Denied> {
    match granted.contains(&scope) {
        true => Ok(()),
        false => Err(Denied::Scope(format!(
            "{operation} requires scope {scope}, which this token does not have"
        ))),
    }
}

/// Refuses what was used before.
pub(crate) fn check_unused(nonces: &[Nonce], want: &mut Want<'_>) -> Result<(), Refusal> {
    match nonces.iter().any(|nonce| want.nonce_was_seen(nonce)) {
        true => Err(Denied::Replayed.into()),
        false => Ok(()),
    }
}

/// No agent's id begins with a space, so nothing of these is ever an agent's.
pub fn used_once(of: &str, value: &str, valid_until: Timestamp) -> Nonce {
    Nonce {
        agent: format!(" external {of}").into(),
        value: value.into(),
        valid_until,
    }
}

impl<E> dyn Readable<Error = E> + '_ {
    pub fn external_session(&self, id: &str) -> Result<Option<ExternalSession>, E> {
        self.private(id.to_owned())
    }

    /// The live sessions of an agent.
    pub fn sessions_of(&self, agent: &AgentId) -> Result<Vec<ExternalSession>, E> {
        let visitor = self.private::<Visitor>(agent.to_string())?;
        let ids = visitor.map_or_else(Vec::new, |visitor| visitor.sessions);
        let rows = ids.iter().map(|id| self.external_session(id));
        rows.filter_map(Result::transpose).collect()
    }
}
