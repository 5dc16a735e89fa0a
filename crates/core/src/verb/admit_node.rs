//! A node that was invited joins: its invitation is used up, its key is kept.

use super::Verb;
use crate::changes::{Changes, Nonce};
use crate::node::{self, Node, NodeInvite, Used};
use crate::refusal::{NotAdmitted, Refusal};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmitNode {
    /// SHA-256 of the secret that it brought, in hexadecimal.
    pub invite: String,
    /// As it introduced itself; whether it has the key was checked outside.
    pub node: Node,
    pub nonce: String,
    /// What the session is called if this exchange is the first.
    pub session: String,
}

/// The answer to an exchange. The same one again is answered the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub node: Node,
    pub session: String,
    pub at: Timestamp,
}

impl AdmitNode {
    /// What is kept of the exchange for as long as its invitation could be valid.
    fn nonce(&self, until: Timestamp) -> Nonce {
        node::nonce(&self.node.node_id, &self.nonce, until)
    }

    fn is(&self, used: &Used) -> bool {
        used.node_id == self.node.node_id
            && used.public_key == self.node.public_key
            && used.nonce == self.nonce
    }
}

impl Verb for AdmitNode {
    type Reply = Admitted;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<NodeInvite>(self.invite.clone());
        want.nonce_was_seen(&self.nonce(Timestamp::ZERO));
        self.node.asks(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Admitted, Changes), Refusal> {
        let mut want = Want::new(slice);
        let invite = want.private::<NodeInvite>(self.invite.clone());
        let invite = invite.ok_or(NotAdmitted::UnknownInvite)?;
        if invite.expires_at <= now {
            return Err(NotAdmitted::ExpiredInvite(invite.expires_at).into());
        }
        let mut changes = Changes::default();
        if let Some(used) = &invite.used {
            let known = want.private::<Node>(self.node.node_id.to_string());
            let known = known.filter(|known| known.is_joined() && self.is(used));
            let node = known.ok_or_else(|| NotAdmitted::UsedInvite(used.node_id.clone()))?;
            let again = Admitted {
                node: node.clone(),
                session: used.session.clone(),
                at: used.at,
            };
            return Ok((again, changes));
        }
        let introduced = Node {
            invited_by: Some(invite.by.clone()),
            ..self.node.clone()
        };
        let node = introduced.join(&mut want, &mut changes, now)?;
        node::spend(&self.nonce(invite.expires_at), &mut want, &mut changes)?;
        changes.put(NodeInvite {
            used: Some(Used {
                node_id: node.node_id.clone(),
                public_key: node.public_key.clone(),
                nonce: self.nonce.clone(),
                session: self.session.clone(),
                at: now,
            }),
            ..invite.clone()
        });
        let admitted = Admitted {
            node,
            session: self.session.clone(),
            at: now,
        };
        Ok((admitted, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, node, open_gateway, word};
    use super::super::{InviteNode, LeaveNode};
    use super::*;
    use crate::limits;

    fn invited(secrets: &[&str]) -> Swarm {
        let mut swarm = Swarm::new();
        swarm.ok(open_gateway("home"));
        for hash in secrets {
            swarm.ok(InviteNode {
                id: format!("inv_{hash}"),
                hash: (*hash).to_owned(),
                by: "ann".to_owned(),
                lasts_for: Duration::from_secs(300),
            });
        }
        swarm
    }

    fn admit(invite: &str, id: &str, nonce: &str) -> AdmitNode {
        AdmitNode {
            invite: invite.to_owned(),
            node: node(id),
            nonce: nonce.to_owned(),
            session: format!("session of {nonce}"),
        }
    }

    #[test]
    fn an_invite_admits_one_node_once_and_the_same_exchange_is_answered_the_same() {
        let mut swarm = invited(&["i"]);
        let first = swarm.ok(admit("i", "a", "n1"));
        assert_eq!(swarm.said(), ["node_joined"]);
        assert_eq!(first.node.invited_by.as_deref(), Some("ann"));
        swarm.wait(Duration::from_secs(299));
        let again = AdmitNode {
            session: "another".to_owned(),
            ..admit("i", "a", "n1")
        };
        assert_eq!(swarm.ok(again), first);
        assert_eq!(swarm.said(), [""; 0]);
        for (id, nonce) in [("a", "n2"), ("b", "n1"), ("b", "n2")] {
            let other = swarm.run(admit("i", id, nonce));
            assert_eq!(word(&other), "invite_used", "{id} {nonce}");
        }
        swarm.wait(Duration::from_secs(1));
        assert_eq!(word(&swarm.run(admit("i", "a", "n1"))), "expired_invite");
    }

    #[test]
    fn who_may_not_join_is_told_why_and_leaves_the_invite_unused() {
        let with = |edit: fn(&mut Node)| {
            let mut admit = admit("i", "a", "n");
            edit(&mut admit.node);
            admit
        };
        for (admit, outcome) in [
            (admit("unknown", "a", "n"), "invalid_invite"),
            (
                with(|node| node.protocol_version = "2.0".to_owned()),
                "other_protocol",
            ),
            (
                with(|node| node.protocol_version = String::new()),
                "other_protocol",
            ),
            (with(|node| node.node_id = "home".into()), "node_mismatch"),
            (with(|node| node.node_id = "known".into()), "node_mismatch"),
            (with(|node| node.protocol_version = "1.7".to_owned()), "ok"),
        ] {
            let mut swarm = invited(&["i", "k"]);
            let mut known = self::admit("k", "known", "n");
            known.node.public_key = "another key".to_owned();
            swarm.ok(known);
            assert_eq!(word(&swarm.run(admit.clone())), outcome, "{admit:?}");
            let used = outcome == "ok";
            let after = word(&swarm.run(self::admit("i", "z", "z")));
            assert_eq!(after, if used { "invite_used" } else { "ok" });
        }
    }

    #[test]
    fn a_nonce_counts_once_for_a_node() {
        let mut swarm = invited(&["i", "j"]);
        swarm.ok(admit("i", "a", "n"));
        assert_eq!(word(&swarm.run(admit("j", "a", "n"))), "replay_detected");
        assert_eq!(word(&swarm.run(admit("j", "b", "n"))), "ok");
    }

    #[test]
    fn a_node_that_left_joins_again_by_a_new_invite_and_by_no_old_one() {
        let mut swarm = invited(&["i", "j"]);
        swarm.ok(admit("i", "a", "n1"));
        swarm.ok(LeaveNode {
            node: "a".into(),
            by: "ann".to_owned(),
        });
        assert_eq!(word(&swarm.run(admit("i", "a", "n1"))), "invite_used");
        let again = swarm.ok(admit("j", "a", "n2"));
        assert!(again.node.is_joined());
        assert_eq!(swarm.said(), ["node_joined"]);
    }

    #[test]
    fn so_many_nodes_are_joined() {
        let mut swarm = invited(&["i"]);
        for number in 0..limits::NODES_MAX {
            swarm.ok(super::super::KeepNode {
                node: node(&format!("n{number}")),
            });
        }
        assert_eq!(word(&swarm.run(admit("i", "more", "n"))), "too_many");
        assert_eq!(word(&swarm.run(admit("i", "n7", "n"))), "ok", "it is one");
    }
}
