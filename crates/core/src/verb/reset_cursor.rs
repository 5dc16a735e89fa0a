//! A cursor is set: by a person, after its source's outbox became another one, or because what follows is gone there.

use super::Verb;
use crate::changes::Changes;
use crate::cursor::{Cursor, CursorStatus};
use crate::id::NodeId;
use crate::incident::Alarm;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetCursor {
    pub source: NodeId,
    pub to: Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Go on behind this number, whatever outbox it is of.
    After(u64),
    /// The source has nothing before this number any more. Who has read nothing yet begins there.
    Expired { oldest: u64 },
    /// The source's outbox is another one than was read.
    Mismatch,
}

impl Verb for ResetCursor {
    type Reply = Cursor;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Node>(self.source.to_string());
        want.private::<Cursor>(self.source.to_string());
        if let Some(alarm) = self.alarm() {
            alarm.asks(want);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Cursor, Changes), Refusal> {
        let mut want = Want::new(slice);
        let known = want.private::<Cursor>(self.source.to_string()).cloned();
        let node = want.private::<Node>(self.source.to_string());
        if known.is_none() && node.is_none() {
            return Err(Refusal::NodeNotFound {
                node: self.source.clone(),
            });
        }
        let is_new = known.as_ref().is_none_or(|known| known.last_seq == 0);
        let mut changes = Changes::default();
        let fresh = Cursor::new(self.source.clone(), now);
        let cursor = match self.to {
            Reset::After(last_seq) => Cursor { last_seq, ..fresh },
            Reset::Expired { oldest } if is_new => Cursor {
                last_seq: oldest.saturating_sub(1),
                ..fresh
            },
            Reset::Expired { .. } => Cursor {
                status: CursorStatus::Expired,
                updated_at: now,
                ..known.clone().unwrap_or(fresh)
            },
            Reset::Mismatch => Cursor {
                status: CursorStatus::Halted,
                updated_at: now,
                ..known.clone().unwrap_or(fresh)
            },
        };
        let was = known.as_ref().map(|known| known.status);
        let is_stopped = matches!(cursor.status, CursorStatus::Expired | CursorStatus::Halted);
        if is_stopped
            && was != Some(cursor.status)
            && let Some(alarm) = self.alarm()
        {
            alarm.raise(slice, &mut changes, now);
        }
        if known.as_ref() != Some(&cursor) {
            changes.put(cursor.clone());
        }
        Ok((cursor, changes))
    }
}

impl ResetCursor {
    fn alarm(&self) -> Option<Alarm> {
        let source = &self.source;
        let (kind, what) = match self.to {
            Reset::After(_) => return None,
            Reset::Expired { oldest } => (
                "cursor_expired",
                format!("its outbox begins at {oldest}; what came before is lost to this node"),
            ),
            Reset::Mismatch => (
                "epoch_mismatch",
                "its outbox is another one than was read, as after a restore".to_owned(),
            ),
        };
        Some(Alarm {
            kind,
            subject: source.to_string(),
            corr_id: None,
            message: format!("node {source}: {what}; go on with 'switchboard node reset {source}'"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, joined, word};
    use super::*;

    fn reset(to: Reset) -> ResetCursor {
        ResetCursor {
            source: "far".into(),
            to,
        }
    }

    #[test]
    fn where_a_cursor_goes_on() {
        let mut swarm = Swarm::new();
        assert_eq!(word(&swarm.run(reset(Reset::After(3)))), "node_not_found");
        joined(&mut swarm, "far");
        let begun = swarm.ok(reset(Reset::Expired { oldest: 8 }));
        assert_eq!((begun.last_seq, begun.status), (7, CursorStatus::Active));
        assert!(swarm.said().is_empty(), "it had read nothing");
        let expired = swarm.ok(reset(Reset::Expired { oldest: 20 }));
        assert_eq!(
            (expired.last_seq, expired.status),
            (7, CursorStatus::Expired)
        );
        assert_eq!(swarm.said(), ["incident_opened"]);
        swarm.ok(reset(Reset::Expired { oldest: 21 }));
        assert!(swarm.said().is_empty(), "it is known");
        let again = swarm.ok(reset(Reset::After(30)));
        assert_eq!((again.last_seq, again.status), (30, CursorStatus::Active));
        let halted = swarm.ok(reset(Reset::Mismatch));
        assert_eq!((halted.last_seq, halted.status), (30, CursorStatus::Halted));
    }
}
