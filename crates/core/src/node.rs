//! Nodes: hubs that are gateways of one swarm. This ledger's own gateway, the others it knows, and its invitations.
//!
//! A ledger is one node, however many coordinators serve it. Signatures are checked outside: here are the rules of who may
//! join, and what is remembered of those who did.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::changes::{Changes, Nonce};
use crate::cursor::Subscriber;
use crate::event::Event;
use crate::id::{CorrId, NodeId};
use crate::limits;
use crate::outbox::{Control, Dispatch, News};
use crate::query::Readable;
use crate::record::{History, Private, RecordRange};
use crate::refusal::{NotAdmitted, Refusal};
use crate::time::Timestamp;
use crate::want::Want;

/// What gateways speak with each other. Those of another major version do not join.
pub const PROTOCOL_VERSION: &str = "1.0";

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Tier {
        /// Always there, and reached by all.
        Backbone = "backbone",
        /// Comes and goes.
        Edge = "edge",
    }
}

words! {
    /// How the events of another node come here.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Reach {
        /// It has an address: its outbox is read there.
        Pull = "pull",
        /// It has none: it brings its outbox itself.
        Push = "push",
    }
}

/// This ledger's own node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    pub node_id: NodeId,
    /// Made with the ledger: another one means that the outbox began anew.
    pub route_epoch: String,
    pub created_at: Timestamp,
    /// Where the other nodes reach it, if they do.
    pub endpoint: Option<String>,
    pub tier: Tier,
    pub key: NodeKey,
    #[serde(default)]
    pub timings: Timings,
    /// Up to where its outbox went when it moved to its endpoint: who has read no further may look for it elsewhere.
    #[serde(default)]
    pub moved_after: Option<u64>,
}

impl Gateway {
    /// This node, as others have it.
    pub fn as_node(&self, public_key: &str) -> Node {
        Node {
            node_id: self.node_id.clone(),
            public_key: public_key.to_owned(),
            endpoint: self.endpoint.clone(),
            certificate: None,
            tier: self.tier,
            protocol_version: PROTOCOL_VERSION.to_owned(),
            joined_at: self.created_at,
            invited_by: None,
            vouched_by: None,
            rev: 0,
            left: None,
        }
    }

    /// Whether a node that has read so far knows where this one is now.
    pub fn is_found_by(&self, reader: Option<&Subscriber>) -> bool {
        let has_read = |after| reader.is_some_and(|reader| reader.last_seq > after);
        self.moved_after.is_none_or(has_read)
    }
}

/// How long a node waits for what others are to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// An event that was read and not answered is sent again after this.
    pub answered_within_seconds: u32,
    /// What was accepted and has no outcome so long after its ETA is late.
    pub grace_seconds: u32,
}

impl Default for Timings {
    fn default() -> Self {
        let seconds = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
        Timings {
            answered_within_seconds: seconds(limits::EVENT_ANSWERED_WITHIN),
            grace_seconds: seconds(limits::OUTCOME_GRACE),
        }
    }
}

impl Timings {
    pub fn answered_within(self) -> Duration {
        Duration::from_secs(self.answered_within_seconds.into())
    }

    pub fn grace(self) -> Duration {
        Duration::from_secs(self.grace_seconds.into())
    }
}

/// A node's private key, an Ed25519 seed in hexadecimal. It is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeKey(pub String);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey(…)")
    }
}

/// Another node, as it introduced itself or as somebody who is trusted did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node_id: NodeId,
    /// Ed25519, in hexadecimal.
    pub public_key: String,
    pub endpoint: Option<String>,
    /// SHA-256 of the public key of its certificate, in hexadecimal; who calls it accepts no other.
    pub certificate: Option<String>,
    pub tier: Tier,
    pub protocol_version: String,
    pub joined_at: Timestamp,
    /// The person whose invitation it brought.
    pub invited_by: Option<String>,
    /// The node that vouches for its key, if it is not known first hand.
    pub vouched_by: Option<NodeId>,
    /// Of the last record of it that counted: an older one does not.
    #[serde(default)]
    pub rev: u64,
    pub left: Option<Left>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub by: String,
    pub at: Timestamp,
}

/// An invitation: for one node, for a short while. Only the hash of its secret is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInvite {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    pub by: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub used: Option<Used>,
}

/// The exchange that used an invitation up: the same one again is answered the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub node_id: NodeId,
    pub public_key: String,
    pub nonce: String,
    pub session: String,
    pub at: Timestamp,
}

const JOINED: &str = "joined";
const LEFT: &str = "left";
const INVITED: &str = "invited";

impl Private for Gateway {
    const LASTS: bool = true;
}

impl Private for Node {
    const HISTORY: Option<History> = Some(History {
        owner: LEFT,
        kept_for: limits::LEFT_NODES_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.node_id.to_string().into()
    }

    fn owner(&self) -> &str {
        self.status()
    }

    fn position(&self) -> Option<i64> {
        Some(self.left.as_ref().map_or(self.joined_at, |left| left.at).0)
    }
}

impl Private for NodeInvite {
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

impl Node {
    /// Those that are joined, in the order in which they did.
    pub fn all() -> RecordRange {
        RecordRange::of::<Node>(JOINED, limits::NODES_MAX)
    }

    pub fn is_joined(&self) -> bool {
        self.left.is_none()
    }

    pub fn status(&self) -> &'static str {
        match self.left {
            None => JOINED,
            Some(_) => LEFT,
        }
    }

    pub fn reach(&self) -> Reach {
        match self.endpoint {
            Some(_) => Reach::Pull,
            None => Reach::Push,
        }
    }

    /// Asks for what [`Node::join`] looks at.
    pub(crate) fn asks(&self, want: &mut Want<'_>) {
        want.private::<Gateway>("");
        if want
            .private::<Node>(self.node_id.to_string())
            .is_none_or(|known| !known.is_joined())
        {
            want.privates::<Node>(&Node::all());
        }
    }

    /// Makes it one of those that are joined. An id belongs to the first key that came with it.
    pub(crate) fn join(
        self,
        want: &mut Want<'_>,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Result<Node, Refusal> {
        check_version(&self.protocol_version)?;
        let own = want.private::<Gateway>("");
        let known = want.private::<Node>(self.node_id.to_string());
        if own.is_some_and(|own| own.node_id == self.node_id)
            || known.is_some_and(|known| known.public_key != self.public_key)
        {
            return Err(NotAdmitted::Mismatch(self.node_id).into());
        }
        let before = known.filter(|known| known.is_joined());
        if before.is_none() && want.privates::<Node>(&Node::all()).len() >= limits::NODES_MAX {
            return Err(Refusal::TooMany {
                what: "nodes",
                limit: limits::NODES_MAX,
            });
        }
        let node = Node {
            joined_at: before.map_or(now, |before| before.joined_at),
            rev: self.rev.max(known.map_or(0, |known| known.rev)),
            ..self
        };
        if before.is_none() {
            changes.event(Event::NodeJoined {
                node: node.node_id.clone(),
                endpoint: node.endpoint.clone(),
            });
        }
        if before == Some(&node) {
            return Ok(node);
        }
        match (&node.vouched_by, own) {
            (None, Some(own)) => Ok(node.tell(&own.node_id, changes, now)),
            (None, None) | (Some(_), _) => {
                changes.put(node.clone());
                Ok(node)
            }
        }
    }

    /// Whoever knows a node first hand vouches for it to all others, and tells them when it has left.
    pub(crate) fn tell(self, here: &NodeId, changes: &mut Changes, now: Timestamp) -> Node {
        let node = Node {
            rev: next_rev(self.rev, now),
            ..self
        };
        changes.dispatches.push(node.signal(here, now));
        changes.put(node.clone());
        node
    }

    /// Its record, for all others.
    pub(crate) fn signal(&self, here: &NodeId, now: Timestamp) -> Dispatch {
        let salt = format!("{}|{}", self.node_id, self.rev);
        let corr_id = CorrId::new(format!("corr_{here}_{}", self.node_id));
        let news = News::Signal {
            rev: self.rev,
            record: Control::Node(Box::new(self.clone())),
        };
        Dispatch::own(here, &salt, corr_id, news, now)
    }
}

impl NodeInvite {
    pub fn all() -> RecordRange {
        RecordRange::of::<NodeInvite>(INVITED, limits::NODE_INVITES_MAX)
    }
}

impl<E> dyn Readable<Error = E> + '_ {
    /// This ledger's own node; there since the first hub served it.
    pub fn gateway(&self) -> Result<Option<Gateway>, E> {
        self.private("")
    }

    pub fn node(&self, id: &NodeId) -> Result<Option<Node>, E> {
        self.private(id.to_string())
    }

    /// The nodes that are joined.
    pub fn nodes(&self) -> Result<Vec<Node>, E> {
        self.privates(&Node::all())
    }
}

/// What is remembered of a node's nonce; no agent's id begins with a space.
pub fn nonce(node: &NodeId, value: &str, valid_until: Timestamp) -> Nonce {
    Nonce {
        agent: format!(" node {node}").into(),
        value: value.into(),
        valid_until,
    }
}

/// Refuses a nonce that was used before.
pub(crate) fn spend(
    nonce: &Nonce,
    want: &mut Want<'_>,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    if want.nonce_was_seen(nonce) {
        return Err(NotAdmitted::Replayed.into());
    }
    changes.put(nonce.clone());
    Ok(())
}

/// What follows a record of the control plane; also after a restore a later one is higher.
pub(crate) fn next_rev(rev: u64, now: Timestamp) -> u64 {
    (rev + 1).max(u64::try_from(now.0).unwrap_or(0))
}

fn check_version(given: &str) -> Result<(), Refusal> {
    let major = |version: &str| version.split('.').next().map(str::to_owned);
    if major(given) == major(PROTOCOL_VERSION) {
        return Ok(());
    }
    Err(NotAdmitted::OtherProtocol(given.to_owned()).into())
}
