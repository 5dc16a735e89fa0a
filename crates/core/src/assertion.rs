//! Assertions, which people call claims: what somebody said was decided, is to be done, was found or is in the way, and
//! whether it holds.
//!
//! They are made with the message that says them, and are so few that a list of all of them is short.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::id::{AgentId, MessageId};
use crate::limits;
use crate::query::Readable;
use crate::record::{History, Listed as _, Private, Record, RecordRange};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum AssertionKind {
        Decision = "decision",
        Task = "task",
        Finding = "finding",
        Blocker = "blocker",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum AssertionStatus {
        /// Said, and nobody has judged it yet.
        Proposed = "proposed",
        Confirmed = "confirmed",
        Contested = "contested",
        /// Somebody is to prove it.
        PendingProof = "pending_proof",
        /// It no longer holds, or is no longer in the way.
        Deprecated = "deprecated",
    }
}

impl AssertionStatus {
    /// Whether somebody has yet to look after a claim of this kind.
    pub const fn is_unresolved(self, kind: AssertionKind) -> bool {
        match (self, kind) {
            (AssertionStatus::Contested | AssertionStatus::PendingProof, _)
            | (AssertionStatus::Proposed, AssertionKind::Task | AssertionKind::Blocker)
            | (AssertionStatus::Confirmed, AssertionKind::Blocker) => true,
            (
                AssertionStatus::Proposed
                | AssertionStatus::Confirmed
                | AssertionStatus::Deprecated,
                _,
            ) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertion {
    /// One higher than that of the claim before.
    pub number: u64,
    /// Not `kind`, which says what kind of private row it is.
    #[serde(rename = "type")]
    pub kind: AssertionKind,
    pub text: String,
    pub status: AssertionStatus,
    pub by: AgentId,
    pub message: MessageId,
    /// Its place among the claims of the message.
    pub line: u32,
    pub at: Timestamp,
    pub judged: Option<Judged>,
}

/// Who said the last word on a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    pub by: AgentId,
    pub why: String,
    pub at: Timestamp,
}

/// What is claimed, as it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asserted {
    pub kind: AssertionKind,
    pub text: String,
}

const ASSERTIONS: &str = "assertions";

impl Private for Assertion {
    const HISTORY: Option<History> = Some(History {
        owner: ASSERTIONS,
        kept_for: limits::ASSERTIONS_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        Assertion::key_of(self.number).into()
    }

    fn owner(&self) -> &str {
        ASSERTIONS
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

impl Assertion {
    /// Keys of one instant are in the order of the numbers.
    pub fn key_of(number: u64) -> String {
        format!("{number:020}")
    }

    pub fn is_unresolved(&self) -> bool {
        self.status.is_unresolved(self.kind)
    }

    /// All of them, newest first.
    pub fn newest_first() -> RecordRange {
        RecordRange::newest::<Assertion>(ASSERTIONS, limits::ASSERTIONS_MAX)
    }

    /// Whether each of the words begins a word of it.
    fn has(&self, words: &str) -> bool {
        let (by, text) = (&self.by, &self.text);
        let own = format!("{} {} {by} {text}", self.kind, self.status).to_lowercase();
        let words = words.to_lowercase();
        let mut wanted = parts(&words);
        wanted.all(|word| parts(&own).any(|own| own.starts_with(word)))
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|letter: char| !letter.is_alphanumeric());
    parts.filter(|part| !part.is_empty())
}

/// How far claims are numbered. What is forgotten keeps its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asserting {
    pub last: u64,
}

impl Private for Asserting {
    const LASTS: bool = true;
}

/// What must be known to make claims: the number of the last one, and those that may have to go.
pub(crate) fn ask(want: &mut Want<'_>) -> (u64, Vec<Assertion>) {
    // Older builds kept no count.
    let newest = RecordRange::newest::<Assertion>(ASSERTIONS, 1);
    let last = match want.private::<Asserting>("") {
        Some(count) => count.last,
        None => want
            .privates::<Assertion>(&newest)
            .first()
            .map_or(0, |one| one.number),
    };
    let oldest = RecordRange::of::<Assertion>(ASSERTIONS, limits::ASSERTIONS_PER_MESSAGE_MAX);
    let oldest = want.privates::<Assertion>(&oldest);
    (last, oldest.into_iter().cloned().collect())
}

/// The claims of a message. Past the bound the oldest ones make room.
pub(crate) fn make(
    slice: &Slice,
    changes: &mut Changes,
    said: &[Asserted],
    (by, message, now): (&AgentId, &MessageId, Timestamp),
) {
    if said.is_empty() {
        return;
    }
    let (mut number, oldest) = ask(&mut Want::new(slice));
    for (line, asserted) in (0..).zip(said.iter().take(limits::ASSERTIONS_PER_MESSAGE_MAX)) {
        number += 1;
        changes.put(Assertion {
            number,
            kind: asserted.kind,
            text: limits::cut(&asserted.text, limits::ASSERTION_BYTES_MAX).to_owned(),
            status: AssertionStatus::Proposed,
            by: by.clone(),
            message: message.clone(),
            line,
            at: now,
            judged: None,
        });
    }
    changes.put(Asserting { last: number });
    let room_from = (number + 1).saturating_sub(limits::ASSERTIONS_MAX as u64);
    for old in oldest.iter().filter(|old| old.number < room_from) {
        changes.remove::<Record>(Assertion::at(Assertion::key_of(old.number)));
    }
}

impl<E> dyn Readable<Error = E> + '_ {
    /// Claims that have all the words, newest first.
    pub fn assertions_with(&self, words: &str, limit: usize) -> Result<Vec<Assertion>, E> {
        let mut found = self.privates::<Assertion>(&Assertion::newest_first())?;
        found.retain(|one| one.has(words));
        found.truncate(limit);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unresolved_follows_from_kind_and_status() {
        use AssertionKind::{Blocker, Decision, Finding, Task};
        for (status, unresolved) in [
            (AssertionStatus::Proposed, &[Task, Blocker][..]),
            (AssertionStatus::Confirmed, &[Blocker]),
            (
                AssertionStatus::Contested,
                &[Decision, Task, Finding, Blocker],
            ),
            (
                AssertionStatus::PendingProof,
                &[Decision, Task, Finding, Blocker],
            ),
            (AssertionStatus::Deprecated, &[]),
        ] {
            let all = AssertionKind::ALL.iter().copied();
            let found: Vec<AssertionKind> =
                all.filter(|kind| status.is_unresolved(*kind)).collect();
            assert_eq!(found, unresolved, "{status}");
        }
    }

    #[test]
    fn words_are_found_by_their_beginnings() {
        let one = Assertion {
            number: 1,
            kind: AssertionKind::Finding,
            text: "The cache is cold: src/cache.rs".to_owned(),
            status: AssertionStatus::PendingProof,
            by: "oracle".into(),
            message: "m".into(),
            line: 0,
            at: Timestamp(1),
            judged: None,
        };
        for (words, is_found) in [
            ("cache", true),
            ("COLD cac", true),
            ("finding oracle", true),
            ("cache.rs", true),
            ("--", true),
            ("warm", false),
            ("ache", false),
        ] {
            assert_eq!(one.has(words), is_found, "{words}");
        }
    }
}
