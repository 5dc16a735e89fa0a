//! A person invites a node: whoever brings the secret within a few minutes may join, once.

use std::time::Duration;

use super::Verb;
use crate::changes::Changes;
use crate::event::Event;
use crate::limits;
use crate::node::NodeInvite;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InviteNode {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    pub by: String,
    pub lasts_for: Duration,
}

impl Verb for InviteNode {
    type Reply = NodeInvite;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.privates::<NodeInvite>(&NodeInvite::all());
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(NodeInvite, Changes), Refusal> {
        let (least, most) = (
            limits::NODE_INVITE_FOR_MIN.as_secs(),
            limits::NODE_INVITE_FOR_MAX.as_secs(),
        );
        if !(least..=most).contains(&self.lasts_for.as_secs()) {
            return Err(Refusal::Invalid {
                field: "ttl_seconds",
                message: format!("an invite lasts for {least} to {most} seconds"),
            });
        }
        let mut want = Want::new(slice);
        let known = want.privates::<NodeInvite>(&NodeInvite::all());
        let mut changes = Changes::default();
        if known.len() >= limits::NODE_INVITES_MAX {
            // They are listed by their ends: the first has ended if any has.
            match known.first().filter(|first| first.expires_at <= now) {
                Some(ended) => changes.remove::<crate::Record>(
                    <NodeInvite as crate::record::Listed>::at(ended.hash.clone()),
                ),
                None => {
                    return Err(Refusal::TooMany {
                        what: "open invites",
                        limit: limits::NODE_INVITES_MAX,
                    });
                }
            }
        }
        let invite = NodeInvite {
            id: self.id.clone(),
            hash: self.hash.clone(),
            by: self.by.clone(),
            created_at: now,
            expires_at: now + self.lasts_for,
            used: None,
        };
        changes.event(Event::NodeInvited {
            by: self.by.clone(),
            until: invite.expires_at,
        });
        changes.put(invite.clone());
        Ok((invite, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    fn invite(hash: &str, seconds: u64) -> InviteNode {
        InviteNode {
            id: format!("inv_{hash}"),
            hash: hash.to_owned(),
            by: "ann".to_owned(),
            lasts_for: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn an_invite_lasts_between_five_and_fifteen_minutes() {
        for (seconds, outcome) in [
            (0, "invalid"),
            (299, "invalid"),
            (300, "ok"),
            (900, "ok"),
            (901, "invalid"),
        ] {
            let mut swarm = Swarm::new();
            assert_eq!(word(&swarm.run(invite("h", seconds))), outcome, "{seconds}");
            if outcome == "ok" {
                assert_eq!(swarm.said(), ["node_invited"]);
            }
        }
    }

    #[test]
    fn so_many_are_open_and_one_that_has_ended_makes_room() {
        let mut swarm = Swarm::new();
        for number in 0..limits::NODE_INVITES_MAX {
            swarm.ok(invite(&format!("h{number:04}"), 300));
        }
        assert_eq!(word(&swarm.run(invite("more", 300))), "too_many");
        swarm.wait(Duration::from_secs(300));
        swarm.ok(invite("more", 300));
        assert_eq!(swarm.records.len(), limits::NODE_INVITES_MAX);
    }
}
