//! An event of another node's outbox is taken in: its effects, the answer to it and the cursor in one commit.
//!
//! Events come in order, each once: what comes again changes nothing, what is missing is waited for. An event that no rule
//! allows is answered, recorded and passed; it never stops those behind it.

use std::time::Duration;

use super::Verb;
use crate::audit::AuditEntry;
use crate::changes::Changes;
use crate::cursor::{Cursor, CursorStatus, GapPolicy};
use crate::duty::Fence;
use crate::id::NodeId;
use crate::incident::Alarm;
use crate::limits;
use crate::node::{Gateway, Node};
use crate::outbox::{Dispatch, News};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

mod catalog;
mod effect;
mod orders;

#[derive(Clone, Debug, PartialEq)]
pub struct Consume {
    pub source: NodeId,
    /// Of the source's outbox.
    pub epoch: String,
    pub seq: u64,
    pub event: Dispatch,
    /// What the event says, as JSON: who asked for a task is handed it as it came.
    pub payload: Box<str>,
    /// What a completion says was installed: a skill's name and its version.
    pub installed: Option<(String, String)>,
    pub gap: Gap,
    /// Of whoever reads the source, if that is a duty.
    pub fence: Option<Fence>,
}

/// How long a missing event is waited for, and what then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub within: Duration,
    pub policy: GapPolicy,
}

impl Default for Gap {
    fn default() -> Self {
        Gap {
            within: limits::GAP_WITHIN,
            policy: GapPolicy::Halt,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumed {
    /// All up to here is durable.
    pub last_seq: u64,
    pub status: CursorStatus,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    /// It was taken before.
    Seen,
    /// One before it is missing.
    Missing,
    /// Nothing is taken from this source until a person has looked.
    Halted,
}

/// Where an event is, seen from the cursor.
enum Next {
    Follows,
    /// After events that are given up.
    Leaps(Alarm),
    Seen,
    Missing,
    Halts(Alarm),
    Halted,
}

impl Verb for Consume {
    type Reply = Consumed;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(fence) = &self.fence {
            fence.ask(want);
        }
        want.private::<Gateway>("");
        want.private::<Node>(self.source.to_string());
        let cursor = self.cursor(want, now);
        match self.next(&cursor, now) {
            // What is missing may be just before it in the same batch: all of a page is loaded at once.
            Next::Follows | Next::Missing => self.ask_effects(want, now),
            Next::Leaps(alarm) => {
                alarm.asks(want);
                self.ask_effects(want, now);
            }
            Next::Halts(alarm) => alarm.asks(want),
            Next::Seen | Next::Halted => {}
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Consumed, Changes), Refusal> {
        if let Some(fence) = &self.fence {
            fence.check(slice, now)?;
        }
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let node = want.private::<Node>(self.source.to_string());
        if !node.is_some_and(Node::is_joined) {
            return Err(Refusal::NodeNotFound {
                node: self.source.clone(),
            });
        }
        let mut changes = Changes::default();
        let mut cursor = self.cursor(&mut want, now);
        cursor.epoch.get_or_insert_with(|| self.epoch.clone());
        let outcome = match self.next(&cursor, now) {
            Next::Follows => Outcome::Taken,
            Next::Leaps(alarm) => {
                alarm.raise(slice, &mut changes, now);
                Outcome::Taken
            }
            Next::Seen => Outcome::Seen,
            Next::Missing => {
                if cursor.status != CursorStatus::Gap {
                    cursor.status = CursorStatus::Gap;
                    cursor.gap_since = Some(now);
                    changes.put(cursor.clone());
                }
                Outcome::Missing
            }
            Next::Halts(alarm) => {
                alarm.raise(slice, &mut changes, now);
                cursor.status = CursorStatus::Halted;
                cursor.updated_at = now;
                changes.put(cursor.clone());
                Outcome::Halted
            }
            Next::Halted => Outcome::Halted,
        };
        if outcome == Outcome::Taken {
            cursor.advance(self.seq, &self.event.id, now);
            self.take_effect(slice, here, &mut changes, &mut cursor, now);
            changes.put(cursor.clone());
            changes.puts.extend(self.told(now).map(Into::into));
        }
        let consumed = Consumed {
            last_seq: cursor.last_seq,
            status: cursor.status,
            outcome,
        };
        Ok((consumed, changes))
    }
}

impl Consume {
    /// For the audit; what nodes tell each other of themselves is nobody's deed.
    fn told(&self, now: Timestamp) -> Option<AuditEntry> {
        let kind = match &self.event.news {
            News::Ack(_) | News::Signal { .. } => return None,
            News::Other { .. } => "other",
            news => news.kind(),
        };
        let entry = format!("con_{}_{}", self.source, self.seq);
        Some(AuditEntry {
            actor: Some(self.event.from.clone()),
            corr_id: Some(self.event.corr_id.clone()),
            peer: Some(self.source.clone()),
            ..AuditEntry::of(entry, &format!("consume {kind}"), now)
        })
    }

    fn cursor(&self, want: &mut Want<'_>, now: Timestamp) -> Cursor {
        let known = want.private::<Cursor>(self.source.to_string()).cloned();
        known.unwrap_or_else(|| Cursor::new(self.source.clone(), now))
    }

    fn next(&self, cursor: &Cursor, now: Timestamp) -> Next {
        if matches!(cursor.status, CursorStatus::Halted | CursorStatus::Expired) {
            return Next::Halted;
        }
        if cursor
            .epoch
            .as_ref()
            .is_some_and(|epoch| *epoch != self.epoch)
        {
            let what = "its outbox began anew, as after a restore";
            return Next::Halts(self.alarm("epoch_mismatch", what));
        }
        let is_same = cursor.last_event.as_ref() == Some(&self.event.id);
        if self.seq == cursor.last_seq && cursor.last_event.is_some() && !is_same {
            let what = format!("its event {} is another one than was read", self.seq);
            return Next::Halts(self.alarm("epoch_mismatch", &what));
        }
        if self.seq <= cursor.last_seq {
            return Next::Seen;
        }
        if self.seq == cursor.last_seq + 1 {
            return Next::Follows;
        }
        let is_over = |since: Timestamp| now >= since + self.gap.within;
        if !cursor.gap_since.is_some_and(is_over) {
            return Next::Missing;
        }
        let (first, last) = (cursor.last_seq + 1, self.seq - 1);
        let missing = match first == last {
            true => format!("its event {first} is missing"),
            false => format!("its events {first} to {last} are missing"),
        };
        match self.gap.policy {
            GapPolicy::Halt => Next::Halts(self.alarm("outbox_gap", &missing)),
            GapPolicy::Skip => Next::Leaps(self.alarm("outbox_gap", &missing)),
            GapPolicy::Tombstone => Next::Leaps(Alarm {
                subject: format!("{} {first}-{last}", self.source),
                ..self.alarm("outbox_tombstone", &missing)
            }),
        }
    }

    /// What a person should know of the source.
    fn alarm(&self, kind: &'static str, what: &str) -> Alarm {
        Alarm {
            kind,
            subject: self.source.to_string(),
            corr_id: Some(self.event.corr_id.clone()),
            message: format!("node {}: {what}", self.source),
        }
    }
}

#[cfg(test)]
mod tests;
