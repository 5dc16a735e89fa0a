//! A person invites an external agent: whoever brings the secret within a few minutes may speak for it, once.

use std::time::Duration;

use super::{Verb, check_unreserved};
use crate::changes::Changes;
use crate::event::Event;
use crate::external::{AgentInvite, AgentScope, Constraints};
use crate::id::AgentId;
use crate::limits;
use crate::record::{Listed as _, Record};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InviteAgent {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    pub agent: AgentId,
    pub scopes: Vec<AgentScope>,
    pub constraints: Constraints,
    pub by: String,
    pub lasts_for: Duration,
}

impl Verb for InviteAgent {
    type Reply = AgentInvite;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.privates::<AgentInvite>(&AgentInvite::all());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(AgentInvite, Changes), Refusal> {
        check_unreserved(&self.agent)?;
        self.check()?;
        let known = Want::new(slice).privates::<AgentInvite>(&AgentInvite::all());
        let mut changes = Changes::default();
        if known.len() >= limits::NODE_INVITES_MAX {
            // They are listed by their ends: the first has ended if any has.
            match known.first().filter(|first| first.expires_at <= now) {
                Some(ended) => changes.remove::<Record>(AgentInvite::at(ended.hash.clone())),
                None => {
                    return Err(Refusal::TooMany {
                        what: "open invites",
                        limit: limits::NODE_INVITES_MAX,
                    });
                }
            }
        }
        let mut scopes = self.scopes.clone();
        scopes.sort_unstable();
        scopes.dedup();
        let invite = AgentInvite {
            id: self.id.clone(),
            hash: self.hash.clone(),
            agent: self.agent.clone(),
            scopes,
            constraints: self.constraints.clone(),
            by: self.by.clone(),
            created_at: now,
            expires_at: now + self.lasts_for,
            session: None,
        };
        changes.event(Event::AgentInvited {
            agent: self.agent.clone(),
            by: self.by.clone(),
            until: invite.expires_at,
        });
        changes.put(invite.clone());
        Ok((invite, changes))
    }
}

impl InviteAgent {
    fn check(&self) -> Result<(), Refusal> {
        let wrong = |field, message| Err(Refusal::Invalid { field, message });
        let (least, most) = (
            limits::NODE_INVITE_FOR_MIN.as_secs(),
            limits::NODE_INVITE_FOR_MAX.as_secs(),
        );
        if !(least..=most).contains(&self.lasts_for.as_secs()) {
            let message = format!("an invite lasts for {least} to {most} seconds");
            return wrong("ttl_seconds", message);
        }
        if self.scopes.is_empty() {
            return wrong("scopes", "must name at least one scope".to_owned());
        }
        let most = limits::SESSIONS_PER_AGENT_MAX;
        if !(1..=most).contains(&self.constraints.max_sessions) {
            let message = format!("an agent may have 1 to {most} sessions");
            return wrong("constraints.max_sessions", message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    fn invite(hash: &str) -> InviteAgent {
        InviteAgent {
            id: format!("inv_{hash}"),
            hash: hash.to_owned(),
            agent: "far".into(),
            scopes: vec![AgentScope::TaskRead],
            constraints: Constraints::default(),
            by: "ann".to_owned(),
            lasts_for: limits::NODE_INVITE_FOR_MIN,
        }
    }

    #[test]
    fn what_an_invite_may_say() {
        type Edit = fn(&mut InviteAgent);
        let cases: &[(Edit, &str)] = &[
            (|_| {}, "ok"),
            (|it| it.lasts_for = Duration::from_secs(299), "invalid"),
            (|it| it.lasts_for = Duration::from_secs(900), "ok"),
            (|it| it.lasts_for = Duration::from_secs(901), "invalid"),
            (|it| it.scopes.clear(), "invalid"),
            (|it| it.agent = "Steward".into(), "invalid"),
            (|it| it.constraints.max_sessions = 0, "invalid"),
            (|it| it.constraints.max_sessions = 1, "ok"),
            (|it| it.constraints.max_sessions = 64, "ok"),
            (|it| it.constraints.max_sessions = 65, "invalid"),
        ];
        for (edit, outcome) in cases {
            let (mut swarm, mut verb) = (Swarm::new(), invite("h"));
            edit(&mut verb);
            assert_eq!(word(&swarm.run(verb.clone())), *outcome, "{verb:?}");
            assert_eq!(!swarm.records.is_empty(), *outcome == "ok", "{verb:?}");
        }
    }

    #[test]
    fn so_many_are_open_and_one_that_has_ended_makes_room() {
        let mut swarm = Swarm::new();
        for number in 0..limits::NODE_INVITES_MAX {
            swarm.ok(invite(&format!("h{number:04}")));
        }
        assert_eq!(word(&swarm.run(invite("more"))), "too_many");
        swarm.wait(limits::NODE_INVITE_FOR_MIN);
        swarm.ok(invite("more"));
        assert_eq!(swarm.said(), ["agent_invited"]);
        assert_eq!(swarm.records.len(), limits::NODE_INVITES_MAX);
    }
}
