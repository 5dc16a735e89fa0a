//! A person ends a session, or all that an agent has. Without any, the agent has left by that door.

use super::{CloseDoor, Verb};
use crate::audit::AuditEntry;
use crate::changes::Changes;
use crate::doors::Door;
use crate::external::{EndReason, Ending, ExternalSession, SessionEnd, Visitor};
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeSessions {
    pub which: Sessions,
    pub by: String,
    /// What the entry in the audit is called.
    pub entry: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sessions {
    One(String),
    Of(AgentId),
}

/// What it is called in the audit.
pub const REVOKE: &str = "revoke";

impl RevokeSessions {
    fn agent(&self, want: &mut Want<'_>) -> Option<AgentId> {
        match &self.which {
            Sessions::Of(agent) => Some(agent.clone()),
            Sessions::One(id) => {
                let session = want.private::<ExternalSession>(id.clone());
                session.map(|session| session.agent.clone())
            }
        }
    }

    /// Those that are live.
    fn found<'a>(&self, want: &mut Want<'a>) -> Vec<&'a ExternalSession> {
        let ids = match &self.which {
            Sessions::One(id) => vec![id.clone()],
            Sessions::Of(agent) => {
                let visitor = want.private::<Visitor>(agent.to_string());
                visitor.map_or_else(Vec::new, |visitor| visitor.sessions.clone())
            }
        };
        let ids = ids.into_iter();
        let rows: Vec<_> = ids
            .filter_map(|id| want.private::<ExternalSession>(id))
            .collect();
        let rows = rows.into_iter();
        rows.filter(|session| session.ended.is_none()).collect()
    }

    fn closes(agent: &AgentId) -> CloseDoor {
        CloseDoor {
            agent: agent.clone(),
            door: Door::Runtime,
        }
    }
}

impl Verb for RevokeSessions {
    /// Those that ended.
    type Reply = Vec<ExternalSession>;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        self.found(want);
        if let Some(agent) = self.agent(want) {
            ExternalSession::asks(&agent, want);
            RevokeSessions::closes(&agent).asks(want, now);
        }
    }

    fn decide(
        &self,
        slice: &Slice,
        now: Timestamp,
    ) -> Result<(Vec<ExternalSession>, Changes), Refusal> {
        let mut want = Want::new(slice);
        let found = self.found(&mut want);
        let (mut changes, mut ending) = (Changes::default(), Ending::default());
        let mut ended = Vec::new();
        for session in found {
            let end = SessionEnd {
                why: EndReason::Revoked,
                by: Some(self.by.clone()),
                at: now,
            };
            ended.push(ending.end(session, end, &mut want, &mut changes));
        }
        for agent in ending.finish(&mut changes) {
            let is_there = |agent: &&crate::Agent| agent.doors.contains(&Door::Runtime);
            if slice
                .agent(&agent)
                .filter(is_there)
                .is_some_and(|agent| !agent.is_gone())
            {
                let (_, left) = RevokeSessions::closes(&agent).decide(slice, now)?;
                changes.absorb(left);
            }
        }
        for (at, session) in ended.iter().enumerate() {
            changes.put(AuditEntry {
                actor: Some(self.by.as_str().into()),
                session: Some(session.id.clone()),
                ..AuditEntry::of(format!("{}.{at}", self.entry), REVOKE, now)
            });
        }
        Ok((ended, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, admit, invite_agent, session};
    use super::*;
    use crate::task::TaskStatus;

    fn revoke(which: Sessions) -> RevokeSessions {
        RevokeSessions {
            which,
            by: "ann".to_owned(),
            entry: "a".to_owned(),
        }
    }

    #[test]
    fn who_has_no_session_any_more_leaves_and_what_it_held_goes_back() {
        let mut swarm = Swarm::new();
        for number in 0..3 {
            swarm.ok(invite_agent(&format!("i{number}"), "far"));
            let (nonce, id) = (format!("n{number}"), format!("s{number}"));
            swarm.ok(admit(&format!("i{number}"), "far", &nonce, &id));
        }
        swarm.add("T");
        swarm.hold("far", "T");
        let one = swarm.ok(revoke(Sessions::One("s1".to_owned())));
        assert_eq!(one.len(), 1);
        assert_eq!(swarm.said(), ["session_ended"]);
        assert!(swarm.ok(revoke(Sessions::One("s1".to_owned()))).is_empty());
        assert!(
            swarm
                .ok(revoke(Sessions::One("none".to_owned())))
                .is_empty()
        );
        assert_eq!(swarm.task("T").status(), TaskStatus::Claimed);
        let rest = swarm.ok(revoke(Sessions::Of("far".into())));
        assert_eq!(rest.len(), 2);
        assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
        assert!(swarm.agent("far").is_gone());
        assert_eq!(
            session(&swarm, "s2").ended.as_ref().unwrap().by.as_deref(),
            Some("ann")
        );
        assert!(swarm.ok(revoke(Sessions::Of("far".into()))).is_empty());
        assert!(swarm.ok(revoke(Sessions::Of("nobody".into()))).is_empty());
    }

    #[test]
    fn an_agent_that_is_here_by_another_door_stays() {
        let mut swarm = Swarm::new();
        swarm.join("far", &[]);
        swarm.ok(invite_agent("i", "far"));
        swarm.ok(admit("i", "far", "n", "s"));
        swarm.ok(revoke(Sessions::Of("far".into())));
        assert_eq!(swarm.agent("far").doors, [Door::Jetpack]);
        assert!(swarm.agent("far").is_live());
    }
}
