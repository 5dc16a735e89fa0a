//! An external agent brings its invitation and its key: the invitation is used up, a session begins.

use super::{Join, Verb};
use crate::audit::AuditEntry;
use crate::changes::{Changes, Nonce};
use crate::doors::Door;
use crate::external::{self, AgentInvite, ExternalSession, Lifetimes};
use crate::id::AgentId;
use crate::refusal::{Denied, Refusal};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmitAgent {
    /// SHA-256 of the secret that it brought, in hexadecimal.
    pub invite: String,
    pub agent: AgentId,
    /// Of its key; whether it has the key was checked outside.
    pub thumbprint: String,
    pub nonce: String,
    pub session: String,
    /// SHA-256 of its first refresh token, in hexadecimal.
    pub refresh: String,
    pub lifetimes: Lifetimes,
    /// What the entry in the audit is called.
    pub entry: String,
}

/// What an exchange is called in the audit.
pub const EXCHANGE: &str = "exchange";

impl AdmitAgent {
    fn nonce(&self, until: Timestamp) -> Nonce {
        external::used_once(self.agent.as_str(), &self.nonce, until)
    }

    fn joins(&self) -> Join {
        Join {
            silent_after: Some(self.lifetimes.access),
            ..Join::by(Door::Runtime, self.agent.clone())
        }
    }
}

impl Verb for AdmitAgent {
    type Reply = ExternalSession;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.private::<AgentInvite>(self.invite.clone());
        want.nonce_was_seen(&self.nonce(Timestamp::ZERO));
        ExternalSession::asks(&self.agent, want);
        self.joins().asks(want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(ExternalSession, Changes), Refusal> {
        let mut want = Want::new(slice);
        let invite = want.private::<AgentInvite>(self.invite.clone());
        let invite = invite.filter(|invite| invite.agent == self.agent);
        let invite = invite.ok_or(Denied::UnknownInvite)?;
        if invite.session.is_some() {
            return Err(Denied::UsedInvite.into());
        }
        if invite.expires_at <= now {
            return Err(Denied::ExpiredInvite(invite.expires_at).into());
        }
        let nonce = [self.nonce(invite.expires_at)];
        external::check_unused(&nonce, &mut want)?;
        let (_, mut changes) = self.joins().decide(slice, now)?;
        let session = ExternalSession {
            id: self.session.clone(),
            agent: self.agent.clone(),
            scopes: invite.scopes.clone(),
            constraints: invite.constraints.clone(),
            invited_by: invite.by.clone(),
            thumbprint: self.thumbprint.clone(),
            began_at: now,
            turn: 0,
            refresh: self.refresh.clone(),
            access_until: now + self.lifetimes.access,
            refresh_until: now + self.lifetimes.refresh,
            ended: None,
        };
        session.clone().begin(&mut want, &mut changes)?;
        changes.puts.extend(nonce.map(Into::into));
        changes.put(AgentInvite {
            session: Some(session.id.clone()),
            ..invite.clone()
        });
        changes.put(AuditEntry {
            actor: Some(self.agent.clone()),
            session: Some(session.id.clone()),
            ..AuditEntry::of(self.entry.clone(), EXCHANGE, now)
        });
        Ok((session, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, admit, audit, invite_agent, session, word};
    use super::super::{EndSessions, MarkSilent, RevokeSessions, Sessions};
    use super::*;
    use crate::audit::Outcome;
    use crate::external::SessionCount;
    use crate::limits;
    use crate::record::{Listed as _, Record};

    fn invited(hashes: &[&str]) -> Swarm {
        let mut swarm = Swarm::new();
        for hash in hashes {
            swarm.ok(invite_agent(hash, "far"));
        }
        swarm
    }

    fn live(swarm: &Swarm) -> usize {
        let row = swarm.records.get(&SessionCount::at(""));
        row.and_then(SessionCount::of).map_or(0, |row| row.live)
    }

    #[test]
    fn an_invite_becomes_one_session_of_an_agent_that_is_there_from_then_on() {
        let mut swarm = invited(&["i"]);
        let made = swarm.ok(admit("i", "far", "n1", "s1"));
        assert_eq!(swarm.said(), ["agent_registered", "session_began"]);
        let agent = swarm.agent("far");
        assert!(agent.is_live() && agent.doors == [Door::Runtime]);
        assert_eq!(agent.silent_after, Some(limits::ACCESS_FOR_MAX));
        assert_eq!(made.access_until, swarm.now + limits::ACCESS_FOR_MAX);
        assert_eq!(live(&swarm), 1);
        let told = audit(&swarm);
        assert_eq!(
            (&*told[0].operation, told[0].outcome),
            (EXCHANGE, Outcome::Allowed)
        );
        for (agent, nonce) in [("far", "n1"), ("far", "n2")] {
            let again = swarm.run(admit("i", agent, nonce, "s2"));
            assert_eq!(word(&again), "invite_used", "{nonce}");
        }
    }

    #[test]
    fn who_may_not_come_in_is_told_why_and_leaves_the_invite_unused() {
        for (admit, outcome) in [
            (admit("unknown", "far", "n", "s"), "invalid_invite"),
            (admit("i", "another", "n", "s"), "invalid_invite"),
            (admit("i", "far", "used", "s"), "replay_detected"),
        ] {
            let mut swarm = invited(&["i", "before"]);
            swarm.ok(self::admit("before", "far", "used", "s0"));
            assert_eq!(word(&swarm.run(admit)), outcome);
            assert_eq!(live(&swarm), 1);
            swarm.ok(self::admit("i", "far", "fine", "s1"));
        }
        let mut swarm = invited(&["i"]);
        swarm.wait(limits::NODE_INVITE_FOR_MIN - Duration::from_millis(1));
        let mut late = invited(&["i"]);
        late.wait(limits::NODE_INVITE_FOR_MIN);
        assert_eq!(word(&swarm.run(admit("i", "far", "n", "s"))), "ok");
        assert_eq!(
            word(&late.run(admit("i", "far", "n", "s"))),
            "expired_invite"
        );
    }

    #[test]
    fn so_many_sessions_are_there_of_one_agent_and_of_all() {
        let mut swarm = Swarm::new();
        for number in 0..3 {
            let mut invite = invite_agent(&format!("i{number}"), "far");
            invite.constraints.max_sessions = 2;
            swarm.ok(invite);
        }
        swarm.ok(admit("i0", "far", "n0", "s0"));
        swarm.ok(admit("i1", "far", "n1", "s1"));
        assert_eq!(word(&swarm.run(admit("i2", "far", "n2", "s2"))), "too_many");
        swarm.ok(RevokeSessions {
            which: Sessions::One("s0".to_owned()),
            by: "ann".to_owned(),
            entry: "a".to_owned(),
        });
        swarm.ok(admit("i2", "far", "n2", "s2"));
        let full = Record::from(SessionCount {
            live: limits::EXTERNAL_SESSIONS_MAX - 1,
        });
        swarm.records.insert(full.key(), full);
        swarm.ok(invite_agent("last", "else"));
        swarm.ok(invite_agent("more", "more"));
        swarm.ok(admit("last", "else", "n", "s3"));
        assert_eq!(
            word(&swarm.run(admit("more", "more", "n", "s4"))),
            "too_many"
        );
    }

    #[test]
    fn a_session_that_nobody_refreshes_ends_and_its_agent_falls_silent_before() {
        let mut swarm = invited(&["i"]);
        swarm.ok(admit("i", "far", "n", "s"));
        swarm.wait(limits::ACCESS_FOR_MAX + Duration::from_millis(1));
        swarm.ok(MarkSilent);
        assert_eq!(swarm.agent("far").status(), "offline");
        swarm.wait(limits::REFRESH_FOR_MIN - limits::ACCESS_FOR_MAX - Duration::from_millis(2));
        assert_eq!(swarm.ok(EndSessions).done, 0);
        swarm.wait(Duration::from_millis(1));
        assert_eq!(swarm.ok(EndSessions).done, 1);
        assert_eq!(swarm.said(), ["session_ended"]);
        assert_eq!(live(&swarm), 0);
        assert!(session(&swarm, "s").ended.is_some());
    }
}
