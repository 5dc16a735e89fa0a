//! What must reach the director: kept until it surely did, and sent again after a cut.
//!
//! The director takes each of these once, however often it comes: an error by its id, an answer by its epoch, a message
//! by its id. So sending once too often is harmless, and once too few is not. A result is answered; it is kept until then.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_wire::agentbus::message::Inbound;

/// Messages that are kept; when all of them wait to be sent, no more are taken.
pub(super) const OUTBOX_MAX: usize = 256;
/// What was written on a connection that still stands after this time has arrived.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Outbox {
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    message: Inbound<'static>,
    sent_at: Option<u64>,
}

impl Outbox {
    /// Takes a message; one that waits unsent already is not taken twice.
    pub fn push(&mut self, message: Inbound<'static>) {
        let same = |entry: &Entry| entry.sent_at.is_none() && entry.message == message;
        if self.entries.iter().any(same) {
            return;
        }
        if self.entries.len() >= OUTBOX_MAX {
            let sent = self
                .entries
                .iter()
                .position(|entry| entry.sent_at.is_some());
            if let Some(place) = sent {
                self.entries.remove(place);
            }
        }
        self.entries.push_back(Entry {
            message,
            sent_at: None,
        });
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= OUTBOX_MAX && self.entries.iter().all(|entry| entry.sent_at.is_none())
    }

    pub fn has_unsent(&self) -> bool {
        self.entries.iter().any(|entry| entry.sent_at.is_none())
    }

    /// Whether a result waits for its answer.
    pub fn has_unanswered(&self) -> bool {
        let is_result = |entry: &Entry| matches!(entry.message, Inbound::TaskResult(_));
        self.entries.iter().any(is_result)
    }

    /// What is to be sent now, in the order it was given.
    pub fn unsent(&mut self, now: u64) -> Vec<Inbound<'static>> {
        self.settle(now);
        self.entries
            .iter_mut()
            .filter(|entry| entry.sent_at.is_none())
            .map(|entry| {
                entry.sent_at = Some(now);
                entry.message.clone()
            })
            .collect()
    }

    /// The connection ended: what is not settled is to be sent again.
    pub fn cut(&mut self, now: u64) {
        self.settle(now);
        for entry in &mut self.entries {
            entry.sent_at = None;
        }
    }

    /// Drops what the director has shown to have, or does not want any more.
    pub fn drop_if(&mut self, done: impl Fn(&Inbound<'static>) -> bool) {
        self.entries.retain(|entry| !done(&entry.message));
    }

    fn settle(&mut self, now: u64) {
        let after = SETTLED_AFTER.as_millis();
        self.entries.retain(|entry| {
            matches!(entry.message, Inbound::TaskResult(_))
                || entry
                    .sent_at
                    .is_none_or(|at| u128::from(now.saturating_sub(at)) < after)
        });
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::message::{Accomplished, TaskAccepted, TaskResult};

    use super::*;

    fn accepted(issue_number: u64) -> Inbound<'static> {
        let accepted = TaskAccepted {
            issue_number,
            epoch: 1,
            corr_id: None,
        };
        accepted.into()
    }

    #[test]
    fn what_was_sent_shortly_before_a_cut_is_sent_again_in_order() {
        let settled = SETTLED_AFTER.as_millis() as u64;
        let mut outbox = Outbox::default();
        outbox.push(accepted(1));
        assert_eq!(outbox.unsent(0), [accepted(1)]);
        outbox.push(accepted(2));
        outbox.push(accepted(3));
        assert_eq!(outbox.unsent(10), [accepted(2), accepted(3)]);
        assert!(outbox.unsent(11).is_empty());
        outbox.cut(settled);
        assert_eq!(outbox.unsent(settled), [accepted(2), accepted(3)]);
        outbox.cut(settled * 2 - 1);
        assert!(outbox.has_unsent());
        outbox.unsent(settled * 2);
        outbox.cut(settled * 3);
        assert!(!outbox.has_unsent());
    }

    #[test]
    fn a_result_is_kept_until_it_is_answered() {
        let result: Inbound<'static> = TaskResult {
            issue_number: 7,
            epoch: 1,
            result: Accomplished::default(),
            quality: None,
            corr_id: None,
        }
        .into();
        let long = SETTLED_AFTER.as_millis() as u64 * 3;
        let mut outbox = Outbox::default();
        outbox.push(result.clone());
        assert_eq!(outbox.unsent(0), std::slice::from_ref(&result));
        outbox.cut(long);
        assert_eq!(outbox.unsent(long), [result]);
        assert!(outbox.has_unanswered());
        outbox.drop_if(|waiting| matches!(waiting, Inbound::TaskResult(_)));
        assert!(!outbox.has_unanswered());
    }

    #[test]
    fn it_is_bounded_and_only_what_was_sent_makes_room() {
        let mut outbox = Outbox::default();
        for issue in 0..OUTBOX_MAX as u64 {
            assert!(!outbox.is_full(), "{issue}");
            outbox.push(accepted(issue));
        }
        assert!(outbox.is_full());
        outbox.unsent(0);
        assert!(!outbox.is_full());
        outbox.push(accepted(1000));
        assert_eq!(outbox.entries.len(), OUTBOX_MAX);
        assert_eq!(outbox.entries.front().unwrap().message, accepted(1));
    }

    #[test]
    fn the_same_message_waits_once() {
        let mut outbox = Outbox::default();
        outbox.push(accepted(1));
        outbox.push(accepted(1));
        assert_eq!(outbox.unsent(0).len(), 1);
    }
}
