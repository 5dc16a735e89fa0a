//! Caretaker: events that every node has read that reads at all, and old ones, leave the outbox.

use std::time::Duration;

use super::{Sweep, Verb};
use crate::changes::{Changes, Prune};
use crate::cursor::{Subscriber, Watermark};
use crate::limits;
use crate::outbox::{self, Outgoing};
use crate::record::Listed as _;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactOutbox {
    /// Nothing older is kept, whoever has not read it.
    pub keep: Duration,
}

impl Verb for CompactOutbox {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let Some(watermark) = began(want) else {
            return;
        };
        self.oldest(want, &watermark, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let mut changes = Changes::default();
        let dropped = match began(&mut want) {
            Some(watermark) => self.oldest(&mut want, &watermark, now),
            None => Vec::new(),
        };
        let done = dropped.len();
        if let Some(last) = dropped.last() {
            changes.put(Watermark {
                seq: last.seq,
                event: Some(last.event.id.clone()),
            });
            changes.prunes.push(Prune::Records {
                kind: Outgoing::KIND,
                owner: outbox::OWNER,
                before: Timestamp(i64::try_from(last.seq + 1).unwrap_or(i64::MAX)),
                limit: done,
            });
        }
        let more = done == limits::CARETAKER_STEP;
        Ok((Sweep { done, more }, changes))
    }
}

/// Where the outbox begins; `None` if it has nothing.
fn began(want: &mut Want<'_>) -> Option<Watermark> {
    let watermark = want.private::<Watermark>("").cloned().unwrap_or_default();
    (want.slice().head.outbox > watermark.seq).then_some(watermark)
}

impl CompactOutbox {
    /// The oldest events that nobody needs.
    fn oldest<'a>(
        &self,
        want: &mut Want<'a>,
        watermark: &Watermark,
        now: Timestamp,
    ) -> Vec<&'a Outgoing> {
        let readers = want.privates::<Subscriber>(&Subscriber::all());
        let active = readers.iter().filter(|reader| reader.is_active(now));
        // While nobody reads, only age counts.
        let read_upto = active.map(|reader| reader.last_seq).min().unwrap_or(0);
        let range = Outgoing::after(watermark.seq, limits::CARETAKER_STEP);
        let oldest = want.privates::<Outgoing>(&range).into_iter();
        let is_over =
            |one: &&Outgoing| one.seq <= read_upto || now.since(one.event.created_at) > self.keep;
        oldest.take_while(is_over).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::NoteReader;
    use super::super::testing::{Swarm, joined, published};
    use super::*;
    use crate::record::RecordKey;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn kept(swarm: &Swarm) -> Vec<u64> {
        let range = Outgoing::after(0, 1000);
        let of = |key: &RecordKey| key.kind == range.kind;
        let mut kept: Vec<u64> = swarm
            .records
            .keys()
            .filter(|key| of(key))
            .filter_map(|key| key.key.parse().ok())
            .collect();
        kept.sort_unstable();
        kept
    }

    #[test]
    fn what_every_active_reader_has_goes_and_what_is_old_goes_anyway() {
        let mut swarm = Swarm::new();
        joined(&mut swarm, "far");
        joined(&mut swarm, "other");
        swarm.join("A", &[]);
        swarm.join("B", &[]);
        for n in 0..3 {
            published(&mut swarm, &format!("evt_{n}"), "A", &["B"]);
        }
        let compact = CompactOutbox { keep: 7 * DAY };
        assert_eq!(swarm.ok(compact).done, 0, "nobody reads");
        let read = |node: &str, after| NoteReader {
            node: node.into(),
            after,
            lease_for: limits::CURSOR_LEASE_FOR,
        };
        swarm.ok(read("far", 4));
        swarm.ok(read("other", 1));
        assert_eq!(swarm.ok(compact).done, 1);
        assert_eq!(kept(&swarm), [2, 3, 4, 5, 6]);
        swarm.now = swarm.now + limits::CURSOR_LEASE_FOR;
        swarm.ok(read("far", 4));
        assert_eq!(swarm.ok(compact).done, 3, "the other is away");
        assert_eq!(kept(&swarm), [5, 6]);
        swarm.now = swarm.now + 8 * DAY;
        assert_eq!(swarm.ok(compact).done, 2, "too old");
        assert!(kept(&swarm).is_empty());
        assert_eq!(swarm.ok(compact).done, 0);
        assert_eq!(swarm.head.outbox, 6, "numbers go on");
    }
}
