//! Another node says which nodes there are: it vouches for their keys to those that never exchanged an invite.
//!
//! Each record has one writer. Of a node that is known first hand nobody else is believed, and of a key that is known no
//! other is taken: whoever vouches for another one is an incident.

use super::leave_node::gone;
use super::{KeepNode, Verb};
use crate::changes::Changes;
use crate::cursor::Neighbour;
use crate::id::NodeId;
use crate::incident::Alarm;
use crate::node::{Gateway, Node};
use crate::refusal::Refusal;
use crate::route::{gateway, is_joined};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// The node that says so.
    pub source: NodeId,
    pub node: Node,
}

impl Verb for Vouch {
    /// Whether it is news.
    type Reply = bool;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.private::<Node>(self.source.to_string());
        want.private::<Neighbour>(self.node.node_id.to_string());
        let node = self.node.clone();
        KeepNode { node }.asks(want, now);
        self.clash().asks(want);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(bool, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here: &Gateway = gateway(&mut want)?;
        if !is_joined(&mut want, &self.source) {
            return Err(Refusal::NodeNotFound {
                node: self.source.clone(),
            });
        }
        let mut changes = Changes::default();
        let id = &self.node.node_id;
        // What others say of this node is not for it to take.
        if *id == here.node_id {
            return Ok((false, changes));
        }
        let known = want.private::<Node>(id.to_string());
        if known.is_some_and(|known| known.public_key != self.node.public_key) {
            self.clash().raise(slice, &mut changes, now);
            return Ok((false, changes));
        }
        let is_itself = *id == self.source;
        match known {
            Some(known) if is_itself && self.node.is_joined() => {
                let moved = Node {
                    endpoint: self.node.endpoint.clone().or(known.endpoint.clone()),
                    tier: self.node.tier,
                    protocol_version: self.node.protocol_version.clone(),
                    ..known.clone()
                };
                match moved.endpoint != known.endpoint && known.vouched_by.is_none() {
                    // Who hears only from here where it is, hears that it is elsewhere now.
                    true => drop(moved.tell(&here.node_id, &mut changes, now)),
                    false if moved != *known => changes.put(moved),
                    false => {}
                }
            }
            None if self.node.is_joined() => self.keep(&mut want, &mut changes, now),
            Some(known) if known.vouched_by.as_ref() == Some(&self.source) => {
                if known.rev < self.node.rev {
                    match (known.is_joined(), self.node.is_joined()) {
                        (_, true) => self.keep(&mut want, &mut changes, now),
                        (true, false) => {
                            let node = Node {
                                rev: self.node.rev,
                                ..known.clone()
                            };
                            let by = format!("node {}", self.source);
                            gone(node, &by, slice, &mut changes, now);
                        }
                        (false, false) => {}
                    }
                }
            }
            Some(_) | None => {}
        }
        Ok((!changes.is_empty(), changes))
    }
}

impl Vouch {
    /// One of another version, or past the bound, is left out: the others go on.
    fn keep(&self, want: &mut Want<'_>, changes: &mut Changes, now: Timestamp) {
        let node = Node {
            invited_by: None,
            vouched_by: Some(self.voucher().clone()),
            left: None,
            ..self.node.clone()
        };
        let mut made = Changes::default();
        if node.join(want, &mut made, now).is_ok() {
            changes.puts.extend(made.puts);
            changes.events.extend(made.events);
        }
    }

    /// A node that is asked for what it knows passes on who vouches.
    fn voucher(&self) -> &NodeId {
        self.node.vouched_by.as_ref().unwrap_or(&self.source)
    }

    fn clash(&self) -> Alarm {
        let (source, id) = (&self.source, &self.node.node_id);
        Alarm {
            kind: "node_id_clash",
            subject: id.to_string(),
            corr_id: None,
            message: format!(
                "node {source} vouches for node {id} with another key than is known here; find out which one it is"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Swarm, node, open_gateway, word};
    use super::super::{AdmitNode, LeaveNode};
    use super::*;
    use crate::outbox::{Control, News};
    use crate::record::Record;

    /// The node "home", with "a" joined first hand.
    fn home() -> Swarm {
        let mut swarm = Swarm::new();
        swarm.ok(open_gateway("home"));
        swarm.ok(KeepNode { node: node("a") });
        swarm
    }

    fn says(source: &str, id: &str, rev: u64) -> Vouch {
        Vouch {
            source: source.into(),
            node: Node { rev, ..node(id) },
        }
    }

    fn leaves(mut vouch: Vouch) -> Vouch {
        vouch.node.left = Some(crate::node::Left {
            by: String::new(),
            at: Timestamp::ZERO,
        });
        vouch
    }

    fn known(swarm: &Swarm, id: &str) -> Option<Node> {
        swarm.records.values().find_map(|record| match record {
            Record::Node(node) if node.node_id.as_str() == id => Some(node.clone()),
            _ => None,
        })
    }

    /// Which nodes are vouched for in the outbox, and whether they are joined.
    fn told(swarm: &Swarm) -> Vec<(String, bool)> {
        let mut rows: Vec<_> = swarm
            .records
            .values()
            .filter_map(|record| match record {
                Record::Outgoing(row) => match &row.event.news {
                    News::Signal {
                        record: Control::Node(node),
                        ..
                    } => Some((row.seq, node.node_id.to_string(), node.is_joined())),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        rows.sort();
        rows.into_iter()
            .map(|(_, id, joined)| (id, joined))
            .collect()
    }

    #[test]
    fn a_node_that_is_vouched_for_is_joined_and_leaves_as_its_voucher_says() {
        let mut swarm = home();
        assert!(swarm.ok(says("a", "b", 5)));
        assert_eq!(swarm.said(), ["node_joined"]);
        let kept = known(&swarm, "b").expect("it is kept");
        assert_eq!(kept.vouched_by.as_ref().map(NodeId::as_str), Some("a"));
        assert_eq!(
            told(&swarm),
            [("a".to_owned(), true)],
            "it is not ours to tell"
        );
        assert!(!swarm.ok(says("a", "b", 5)), "it is known");
        assert!(!swarm.ok(leaves(says("a", "b", 4))), "that was before");
        assert!(swarm.ok(leaves(says("a", "b", 6))));
        assert_eq!(swarm.said(), ["node_left"]);
        assert!(!swarm.ok(says("a", "b", 5)), "that was before");
        assert!(swarm.ok(says("a", "b", 7)), "it came back");
        assert!(known(&swarm, "b").is_some_and(|node| node.is_joined()));
        assert_eq!(word(&swarm.run(says("x", "c", 1))), "node_not_found");
        let mut passed_on = says("b", "c", 1);
        passed_on.node.vouched_by = Some("a".into());
        swarm.ok(passed_on);
        assert!(!swarm.ok(leaves(says("b", "c", 2))), "it only passed it on");
        assert!(swarm.ok(leaves(says("a", "c", 2))));
    }

    #[test]
    fn nobody_is_believed_about_who_is_known_first_hand_or_by_another() {
        let mut swarm = home();
        swarm.ok(KeepNode { node: node("c") });
        assert!(!swarm.ok(leaves(says("a", "c", 9))));
        assert!(!swarm.ok(leaves(says("a", "home", 9))));
        swarm.ok(says("a", "b", 5));
        assert!(!swarm.ok(leaves(says("c", "b", 9))));
        assert!(known(&swarm, "b").is_some_and(|node| node.is_joined()));
        let mut forged = says("c", "b", 9);
        forged.node.public_key = "another".to_owned();
        swarm.ok(forged);
        assert_eq!(swarm.said(), ["incident_opened"]);
        assert_eq!(
            known(&swarm, "b").map(|node| node.public_key),
            Some("key of b".to_owned())
        );
        // Sent away by a person, it stays away.
        swarm.ok(LeaveNode {
            node: "c".into(),
            by: "ann".to_owned(),
        });
        assert!(!swarm.ok(says("a", "c", 99)));
        let mut foreign = says("a", "d", 1);
        foreign.node.protocol_version = "2.0".to_owned();
        assert!(!swarm.ok(foreign));
        assert!(known(&swarm, "d").is_none());
    }

    #[test]
    fn a_node_says_itself_where_it_is() {
        let mut swarm = home();
        let mut moved = says("a", "a", 1);
        moved.node.endpoint = Some("https://a.example".to_owned());
        assert!(swarm.ok(moved.clone()));
        let kept = known(&swarm, "a").expect("it is kept");
        let expected = (moved.node.endpoint.clone(), None);
        assert_eq!((kept.endpoint, kept.vouched_by), expected);
        let joined = ("a".to_owned(), true);
        assert_eq!(told(&swarm), [joined.clone(), joined], "it is passed on");
        assert!(!swarm.ok(moved), "once");
        assert!(
            !swarm.ok(leaves(says("a", "a", 2))),
            "who leaves says so by its ticket"
        );
    }

    #[test]
    fn who_is_admitted_or_leaves_is_told_to_all_by_whoever_knows_it_first_hand() {
        let mut swarm = home();
        swarm.ok(super::super::InviteNode {
            id: "i".to_owned(),
            hash: "i".to_owned(),
            by: "ann".to_owned(),
            lasts_for: Duration::from_secs(300),
        });
        swarm.ok(AdmitNode {
            invite: "i".to_owned(),
            node: node("b"),
            nonce: "n".to_owned(),
            session: "s".to_owned(),
        });
        swarm.ok(LeaveNode {
            node: "b".into(),
            by: "ann".to_owned(),
        });
        let expected = [("a", true), ("b", true), ("b", false)];
        assert_eq!(
            told(&swarm),
            expected.map(|(id, joined)| (id.to_owned(), joined))
        );
        // Who has just joined hears of those that were here before.
        swarm.ok(says("a", "c", 1));
        assert_eq!(swarm.ok(super::super::TellNodes), 1, "c is told by a");
        assert_eq!(told(&swarm)[3..], [("a".to_owned(), true)]);
    }
}
