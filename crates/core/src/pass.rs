//! What lets one call of an external agent in: checked, used up and told in the commit of what it allows.

use crate::audit::AuditEntry;
use crate::changes::{Changes, Nonce};
use crate::external::{self, AgentScope, ExternalSession};
use crate::id::{AgentId, CorrId, TaskId};
use crate::message::Message;
use crate::refusal::{Denied, Refusal};
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

/// A token that was shown with the proof of its key, for one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    pub session: String,
    pub agent: AgentId,
    pub thumbprint: String,
    /// What the token allows, and what is asked for; a step without one asks for the session alone.
    pub granted: Vec<AgentScope>,
    pub scope: Option<AgentScope>,
    pub operation: String,
    pub expires_at: Timestamp,
    /// What counts once: of the proof, and of the call.
    pub once: Vec<Nonce>,
    /// A token for one context is for nothing else.
    pub context: Option<CorrId>,
    /// The task that the call names.
    pub task: Option<TaskId>,
    pub corr_id: Option<CorrId>,
    /// What the entry in the audit is called.
    pub entry: String,
}

impl Pass {
    pub fn asks(&self, want: &mut Want<'_>) {
        want.private::<ExternalSession>(self.session.clone());
        for nonce in &self.once {
            want.nonce_was_seen(nonce);
        }
        if let Some(task) = &self.task {
            want.task(task);
        }
    }

    /// Whether it holds now, and has not been used.
    pub fn check(&self, slice: &Slice, now: Timestamp) -> Result<(), Refusal> {
        let mut want = Want::new(slice);
        let session = want.private::<ExternalSession>(self.session.clone());
        let is_its = |session: &&ExternalSession| {
            session.agent == self.agent && session.thumbprint == self.thumbprint
        };
        let session = session.filter(is_its).ok_or(Denied::AccessToken)?;
        if session.ended.is_some() {
            return Err(Denied::AccessToken.into());
        }
        if self.expires_at <= now {
            return Err(Denied::ExpiredAccess(self.expires_at).into());
        }
        external::check_unused(&self.once, &mut want)?;
        if let Some(scope) = self.scope {
            external::allows(&self.granted, scope, &self.operation)?;
            external::allows(&session.scopes, scope, &self.operation)?;
        }
        self.check_context(slice)
    }

    fn check_context(&self, slice: &Slice) -> Result<(), Refusal> {
        let (Some(context), Some(id)) = (&self.context, &self.task) else {
            return Ok(());
        };
        let is_in = |task: &Task| task.corr_id == *context || task.id.as_str() == context.as_str();
        // One that does not exist is refused as such.
        match slice.task(id) {
            Some(task) if !is_in(task) => Err(Denied::Scope(format!(
                "task {id} is not of context {context}, and this token is for nothing else"
            ))
            .into()),
            Some(_) | None => Ok(()),
        }
    }

    /// It was used, whatever came of it.
    pub fn use_up(&self, changes: &mut Changes) {
        self.once
            .iter()
            .for_each(|nonce| changes.put(nonce.clone()));
    }

    /// Tells what it allowed, beside what came of it.
    pub fn tell(&self, slice: &Slice, changes: &mut Changes, now: Timestamp) {
        let named = self.task.as_ref().and_then(|id| slice.task(id));
        let task = named.or_else(|| changes.rows::<Task>().next());
        let of_task = task.map(|task| task.corr_id.clone());
        let of_message = || {
            changes
                .rows::<Message>()
                .next()
                .map(|row| row.corr_id.clone())
        };
        let corr_id = self.corr_id.clone().or(of_task).or_else(of_message);
        changes.put(AuditEntry {
            actor: Some(self.agent.clone()),
            scope: self.scope,
            corr_id: corr_id.or_else(|| self.context.clone()),
            session: Some(self.session.clone()),
            ..AuditEntry::of(self.entry.clone(), &self.operation, now)
        });
    }
}
