//! A session goes on with a new refresh token. One that comes again was copied: the whole family ends.

use super::{Join, Verb};
use crate::audit::AuditEntry;
use crate::changes::{Changes, Nonce};
use crate::doors::Door;
use crate::external::{self, EndReason, Ending, ExternalSession, Lifetimes, SessionEnd};
use crate::id::AgentId;
use crate::incident::Alarm;
use crate::refusal::{Denied, Refusal};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshSession {
    pub session: String,
    /// Which token of the family was shown, and its SHA-256; that this hub made it was checked outside.
    pub turn: u32,
    pub shown: String,
    /// Of the key that signed the proof.
    pub thumbprint: String,
    /// What counts once: of the proof, and of the call.
    pub once: Vec<Nonce>,
    /// SHA-256 of the next token.
    pub next: String,
    pub lifetimes: Lifetimes,
    /// What the entry in the audit is called.
    pub entry: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refreshed {
    Goes(ExternalSession),
    /// The token had been used: whoever has a token of this session has none any more.
    Ended(ExternalSession),
}

/// What it is called in the audit.
pub const REFRESH: &str = "refresh";

impl RefreshSession {
    fn joins(&self, agent: &AgentId) -> Join {
        Join {
            silent_after: Some(self.lifetimes.access),
            ..Join::by(Door::Runtime, agent.clone())
        }
    }

    fn alarm(session: &ExternalSession) -> Alarm {
        let (id, agent) = (&session.id, &session.agent);
        Alarm {
            kind: "refresh_token_reused",
            subject: agent.to_string(),
            corr_id: None,
            message: format!(
                "a refresh token of session {id} of agent {agent} was used twice, so somebody else has it; the session has ended; find out who, then invite the agent again"
            ),
        }
    }
}

impl Verb for RefreshSession {
    type Reply = Refreshed;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for nonce in &self.once {
            want.nonce_was_seen(nonce);
        }
        if let Some(session) = want.private::<ExternalSession>(self.session.clone()) {
            ExternalSession::asks(&session.agent, want);
            RefreshSession::alarm(session).asks(want);
            self.joins(&session.agent).asks(want, now);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Refreshed, Changes), Refusal> {
        let mut want = Want::new(slice);
        let session = want.private::<ExternalSession>(self.session.clone());
        let session = session.filter(|session| session.is_live(now));
        let session = session.ok_or(Denied::RefreshToken)?;
        // The very same call, as a network may repeat it, is nobody's theft.
        external::check_unused(&self.once, &mut want)?;
        let entry = AuditEntry {
            actor: Some(session.agent.clone()),
            session: Some(session.id.clone()),
            ..AuditEntry::of(self.entry.clone(), REFRESH, now)
        };
        let once = self.once.iter().cloned().map(Into::into);
        if self.turn < session.turn {
            let mut changes = Changes::default();
            let end = SessionEnd {
                why: EndReason::Reused,
                by: None,
                at: now,
            };
            let mut ending = Ending::default();
            let ended = ending.end(session, end, &mut want, &mut changes);
            ending.finish(&mut changes);
            RefreshSession::alarm(session).raise(slice, &mut changes, now);
            changes.puts.extend(once);
            changes.put(entry.refused(EndReason::Reused.as_str()));
            return Ok((Refreshed::Ended(ended), changes));
        }
        if self.turn != session.turn || self.shown != session.refresh {
            return Err(Denied::RefreshToken.into());
        }
        if self.thumbprint != session.thumbprint {
            let why = "it was signed by another key than the session's";
            return Err(Denied::Proof(why).into());
        }
        let (_, mut changes) = self.joins(&session.agent).decide(slice, now)?;
        let session = ExternalSession {
            turn: session.turn + 1,
            refresh: self.next.clone(),
            access_until: now + self.lifetimes.access,
            refresh_until: now + self.lifetimes.refresh,
            ..session.clone()
        };
        changes.puts.extend(once);
        changes.put(entry);
        changes.put(session.clone());
        Ok((Refreshed::Goes(session), changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, admit, invite_agent, refresh, session, word};
    use super::*;
    use crate::limits;

    fn admitted() -> Swarm {
        let mut swarm = Swarm::new();
        swarm.ok(invite_agent("i", "far"));
        swarm.ok(admit("i", "far", "n", "s"));
        swarm
    }

    #[test]
    fn each_refresh_token_counts_once_and_one_that_comes_again_ends_its_family() {
        let mut swarm = admitted();
        for turn in 0..3 {
            swarm.wait(Duration::from_secs(60));
            let goes = swarm.ok(refresh("s", turn, &format!("p{turn}")));
            let Refreshed::Goes(session) = goes else {
                panic!("{goes:?}");
            };
            assert_eq!(session.turn, turn + 1);
            assert_eq!(session.refresh_until, swarm.now + limits::REFRESH_FOR_MIN);
        }
        // The very same call again, as a line may repeat it.
        assert_eq!(word(&swarm.run(refresh("s", 2, "p2"))), "replay_detected");
        assert!(session(&swarm, "s").ended.is_none());
        let ended = swarm.ok(refresh("s", 1, "p9"));
        assert!(matches!(ended, Refreshed::Ended(_)), "{ended:?}");
        assert_eq!(swarm.said(), ["session_ended", "incident_opened"]);
        for turn in 0..5 {
            let after = swarm.run(refresh("s", turn, "p"));
            assert_eq!(word(&after), "invalid_refresh_token", "{turn}");
        }
    }

    #[test]
    fn who_may_not_refresh_is_told_why_and_changes_nothing() {
        type Edit = fn(&mut RefreshSession);
        let cases: &[(Edit, &str)] = &[
            (|_| {}, "ok"),
            (
                |it| it.session = "another".to_owned(),
                "invalid_refresh_token",
            ),
            (|it| it.turn = 1, "invalid_refresh_token"),
            (
                |it| it.shown = "another".to_owned(),
                "invalid_refresh_token",
            ),
            (|it| it.thumbprint = "another".to_owned(), "invalid_proof"),
        ];
        for (edit, outcome) in cases {
            let mut swarm = admitted();
            let before = session(&swarm, "s").clone();
            let mut verb = refresh("s", 0, "p");
            edit(&mut verb);
            assert_eq!(word(&swarm.run(verb.clone())), *outcome, "{verb:?}");
            assert_eq!(*session(&swarm, "s") == before, *outcome != "ok");
        }
        let mut swarm = admitted();
        swarm.wait(limits::REFRESH_FOR_MIN);
        let late = swarm.run(refresh("s", 0, "p"));
        assert_eq!(word(&late), "invalid_refresh_token");
    }
}
