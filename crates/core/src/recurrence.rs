//! Failures that were escalated: which are worth another try, and which come again and again.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, LearningId, MessageId};
use crate::limits;
use crate::memory::Learning;
use crate::record::{History, Listed as _, Private, Record, RecordRange};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// How often somebody has failed in the same way of late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurrence {
    pub role: String,
    pub pattern: String,
    /// Of the last day, oldest first; never more than it takes to recur.
    pub seen: Vec<Timestamp>,
    /// When it was last told that it recurs.
    pub told_at: Option<Timestamp>,
}

/// So often within a day is again and again.
pub const TIMES: usize = 3;
const WITHIN: Duration = Duration::from_secs(24 * 3600);
const RECURRENCES: &str = "recurrences";

impl Private for Recurrence {
    const HISTORY: Option<History> = Some(History {
        owner: RECURRENCES,
        kept_for: limits::RECURRENCES_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        key_of(&self.role, &self.pattern).into()
    }

    fn owner(&self) -> &str {
        RECURRENCES
    }

    fn position(&self) -> Option<i64> {
        self.seen.last().map(|at| at.0)
    }
}

fn key_of(role: &str, pattern: &str) -> String {
    format!("{role} {pattern}")
}

/// What is told of a failure, and by whom.
pub(crate) struct Failed<'a> {
    pub role: String,
    pub by: &'a AgentId,
    pub message: &'a MessageId,
    pub line: &'a str,
}

impl Failed<'_> {
    pub fn known(&self, want: &mut Want<'_>) -> (Recurrence, Vec<Recurrence>) {
        let (role, pattern) = (self.role.clone(), pattern(self.line));
        let known = want.private::<Recurrence>(key_of(&role, &pattern)).cloned();
        let all = RecordRange::of::<Recurrence>(RECURRENCES, limits::RECURRENCES_MAX);
        let all = want.privates::<Recurrence>(&all).into_iter().cloned();
        let new = || Recurrence {
            role,
            pattern,
            ..Recurrence::default()
        };
        (known.unwrap_or_else(new), all.collect())
    }

    /// Counts it. What recurs is told, and remembered once, so that nobody walks into it again.
    pub fn note(&self, slice: &Slice, changes: &mut Changes, now: Timestamp) {
        let (mut row, all) = self.known(&mut Want::new(slice));
        if row.seen.is_empty()
            && all.len() >= limits::RECURRENCES_MAX
            && let Some(oldest) = all.first()
        {
            changes.remove::<Record>(Recurrence::at(Private::key(oldest)));
        }
        let is_first = row.told_at.is_none();
        if row.again(now) {
            let line = limits::cut(self.line, limits::TITLE_BYTES_MAX);
            changes.event(Event::FailureRecurred {
                message: self.message.clone(),
                agent: self.by.clone(),
                line: line.to_owned(),
            });
            if is_first {
                let text = format!(
                    "negative knowledge: {} failed {TIMES} times within 24 hours with: {line}",
                    self.by
                );
                changes.event(Event::LearningStored {
                    text: text.clone(),
                    task: None,
                    agent: Some(self.by.clone()),
                });
                changes.put(Learning {
                    id: LearningId::from(format!("lrn_{}", self.message)),
                    text,
                    task: None,
                    agent: Some(self.by.clone()),
                    created_at: now,
                });
            }
        }
        changes.put(row);
    }
}

impl Recurrence {
    /// It happened once more. Whether that is to be told: it recurs, and was not told within a day.
    fn again(&mut self, now: Timestamp) -> bool {
        self.seen.retain(|at| now.since(*at) < WITHIN);
        self.seen.push(now);
        let over = self.seen.len().saturating_sub(TIMES);
        self.seen.drain(..over);
        let is_told = self.told_at.is_some_and(|at| now.since(at) < WITHIN);
        let tells = self.seen.len() == TIMES && !is_told;
        if tells {
            self.told_at = Some(now);
        }
        tells
    }
}

/// What a line has in common with the same failure at another time: no digits, no paths, no hex.
pub fn pattern(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        if !word.contains(['/', '\\']) && !is_hex(bare) {
            let rest = word.chars().filter(|letter| !letter.is_ascii_digit());
            words.push(rest.collect::<String>().to_lowercase());
        }
    }
    words.retain(|word| word.contains(char::is_alphanumeric));
    limits::cut(&words.join(" "), limits::NAME_BYTES_MAX).to_owned()
}

/// Hashes, addresses, ids.
fn is_hex(word: &str) -> bool {
    const SHORT: usize = 6;
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let fits = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let is_plain = digits.len() < word.len();
    digits.bytes().all(fits)
        && (is_plain || word.len() >= SHORT && word.contains(|c: char| c.is_ascii_digit()))
}

/// Words of a line that tells of an error.
#[rustfmt::skip]
const ERRORS: [&str; 13] = [
    "error", "fail", "fatal", "panic", "exception", "denied", "cannot", "can't", "unable", "refused",
    "timed out", "timeout", "not found",
];
/// What passes by itself, or may.
#[rustfmt::skip]
const PASSING: [&str; 17] = [
    "timed out", "timeout", "etimedout", "connection refused", "econnrefused", "connection reset",
    "econnreset", "connection closed", "connection aborted", "connection error", "broken pipe",
    "network is unreachable", "no route to host", "could not resolve host", "eai_again", "temporary failure",
    "temporarily unavailable",
];
/// `EX_TEMPFAIL` of `sysexits.h`, and what `timeout` ends with.
const TRY_AGAIN: [i32; 2] = [75, 124];

fn has_one(line: &str, words: &[&str]) -> bool {
    let line = line.to_lowercase();
    words.iter().any(|word| line.contains(word))
}

/// Whether a line of an output tells of an error.
pub fn is_error(line: &str) -> bool {
    has_one(line, &ERRORS)
}

/// Whether a failure is worth another try: by its exit code, or by what it said it is.
pub fn is_transient(code: Option<i32>, line: &str) -> bool {
    code.is_some_and(|code| TRY_AGAIN.contains(&code)) || has_one(line, &PASSING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_has_the_same_pattern() {
        for (line, expected) in [
            ("", ""),
            ("12:03:44", ""),
            (
                "error: cannot open /tmp/x-17/a.lock (attempt 3)",
                "error: cannot open (attempt",
            ),
            (
                "Error: cannot open C:\\x\\b (attempt 12)",
                "error: cannot open (attempt",
            ),
            ("panic at 0xdeadbeef in thread 7", "panic at in thread"),
            ("commit 3f9a1c2 not found", "commit not found"),
            (
                "task 550e8400-e29b-41d4-a716-446655440000 failed",
                "task failed",
            ),
            ("the facade decade", "the facade decade"),
        ] {
            assert_eq!(pattern(line), expected, "{line}");
        }
        assert!(pattern(&"x ".repeat(1000)).len() <= limits::NAME_BYTES_MAX);
    }

    #[test]
    fn what_passes_by_itself_is_tried_again() {
        for (code, line, is_passing) in [
            (Some(75), "", true),
            (Some(124), "", true),
            (Some(1), "curl: (7) Connection refused", true),
            (Some(1), "npm ERR! code ETIMEDOUT", true),
            (None, "request timed out", true),
            (Some(1), "error: mismatched types", false),
            (Some(127), "not found", false),
            (None, "", false),
        ] {
            assert_eq!(is_transient(code, line), is_passing, "{code:?} {line}");
        }
    }

    #[test]
    fn three_times_within_a_day_is_told_once_a_day() {
        const HOUR: i64 = 3600 * 1000;
        for (hours, told) in [
            (&[0, 1, 2, 3, 4][..], &[2][..]),
            (&[0, 12, 23], &[23]),
            (&[0, 12, 24], &[]),
            (&[0, 1], &[]),
            (&[0, 1, 2, 24, 25, 26, 27], &[2, 26]),
        ] {
            let mut row = Recurrence::default();
            let at = |hour: &&i64| row.again(Timestamp(**hour * HOUR));
            let found: Vec<i64> = hours.iter().filter(at).copied().collect();
            assert_eq!(found, told, "{hours:?}");
        }
    }
}
