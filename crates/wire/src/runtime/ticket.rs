//! Tickets: who a node is, for a minute. Made from the master key, so every coordinator reads those of the others.

use switchboard_core::{NodeId, Timestamp};

use crate::signature::{AgentKey, from_hex, to_hex};

/// `sbn_`, what it says in hexadecimal, a dot, and the signature of the hub that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub node: NodeId,
    pub session: String,
    pub expires_at: Timestamp,
}

impl Ticket {
    /// What each begins with.
    pub const PREFIX: &str = "sbn_";

    pub fn seal(&self, key: &AgentKey) -> String {
        let Ticket {
            node,
            session,
            expires_at,
        } = self;
        let said = to_hex(format!("{}\n{session}\n{node}", expires_at.0).as_bytes());
        let prefix = Self::PREFIX;
        format!("{prefix}{said}.{}", key.sign(&said))
    }

    /// Reads one that this key sealed.
    pub fn open(key: &AgentKey, text: &str) -> Option<Ticket> {
        let (said, signature) = text.strip_prefix(Self::PREFIX)?.split_once('.')?;
        if !key.verify(said, signature) {
            return None;
        }
        let said = String::from_utf8(from_hex(said)?).ok()?;
        let mut parts = said.splitn(3, '\n');
        let (expires_at, session, node) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Ticket {
            node: node.into(),
            session: session.to_owned(),
            expires_at: Timestamp(expires_at.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::MasterKey;

    #[test]
    fn a_ticket_is_opened_by_the_key_that_sealed_it_and_by_no_other() {
        let key = |byte| MasterKey::new([byte; 32]).ticket_key();
        let ticket = Ticket {
            node: "node-ü".into(),
            session: "ses_1".to_owned(),
            expires_at: Timestamp(1_760_000_060_000),
        };
        let text = ticket.seal(&key(1));
        assert!(text.is_ascii());
        assert_eq!(Ticket::open(&key(1), &text), Some(ticket));
        assert_eq!(Ticket::open(&key(2), &text), None);
        let forged = text.replacen("31", "39", 1);
        for wrong in [
            "",
            "sbn_",
            "sbn_.",
            &text[1..],
            &forged,
            &text[..text.len() - 1],
        ] {
            assert_eq!(Ticket::open(&key(1), wrong), None, "{wrong}");
        }
    }
}
