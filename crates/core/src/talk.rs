//! What is kept of a conversation beside its messages: sessions, numbers, acknowledgements that are owed, what was refused.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::changes::Changes;
use crate::id::{AgentId, HUB, HUB_ROLE, MessageId, TELEGRAM, USER};
use crate::limits;
use crate::message::To;
use crate::record::{History, Private, RecordRange};
use crate::slice::Slice;
use crate::task::Priority;
use crate::time::Timestamp;
use crate::want::Want;

/// The session that runs: numbers of messages count within it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub number: u32,
    pub began_at: Timestamp,
}

impl Private for Session {
    const LASTS: bool = true;
}

/// Who holds a role beside the agent that has its name. Whether one still does, its skills say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    pub role: String,
    pub agents: Vec<AgentId>,
}

/// A skill that begins so makes its agent a holder of the role behind it.
pub const ROLE_SKILL: &str = "role:";

impl Private for Holders {
    fn key(&self) -> Cow<'static, str> {
        self.role.clone().into()
    }
}

/// What somebody said last, so that nothing is taken twice and a slip in its numbers is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spoken {
    pub speaker: String,
    pub session: u32,
    /// The last number of this session.
    pub last: Option<u32>,
    /// How many came without a number in this session.
    pub unnumbered: u32,
    /// When it said in this session that it is there.
    #[serde(default)]
    pub checked_in_at: Option<Timestamp>,
    /// How many acknowledgements said nothing, and nobody had asked for.
    #[serde(default)]
    pub empty_acks: u32,
    /// Oldest first.
    pub recent: Vec<Utterance>,
}

/// What kind of word something is, beside what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gist {
    /// Its speaker is there.
    CheckIn,
    /// Received, and nothing else.
    EmptyAck,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    pub message: MessageId,
    /// Of the run of numbers that goes on.
    pub number: Option<u32>,
    /// Of what was said, and to whom.
    pub sum: u64,
    pub priority: Priority,
    pub at: Timestamp,
}

/// A number that does not follow the one before. Numbers are typed by language models: nothing is lost for a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// One or more were left out.
    Gap {
        expected: u32,
    },
    /// It was used before, for something else.
    Repeat,
    Back {
        last: u32,
    },
}

impl Private for Spoken {
    const LASTS: bool = true;

    fn key(&self) -> Cow<'static, str> {
        self.speaker.clone().into()
    }
}

impl Spoken {
    /// As it is in this session, in which the numbers begin anew.
    #[must_use]
    pub fn in_session(mut self, session: u32) -> Spoken {
        if self.session != session {
            self.session = session;
            (self.last, self.unnumbered) = (None, 0);
            (self.checked_in_at, self.empty_acks) = (None, 0);
            self.forget_numbers();
        }
        self
    }

    /// The same said under another id a moment ago.
    pub fn just_said(&self, sum: u64, priority: Priority, now: Timestamp) -> Option<&MessageId> {
        let is_it = |one: &&Utterance| {
            one.sum == sum && one.priority == priority && one.at + limits::SAME_SIGNATURE_FOR > now
        };
        let found = self.recent.iter().rev().find(is_it)?;
        Some(&found.message)
    }

    /// The same said under this number, in the run that goes on.
    pub fn numbered(&self, number: u32, sum: u64) -> Option<&MessageId> {
        if self.begins_anew(number) {
            return None;
        }
        let is_it = |one: &&Utterance| one.number == Some(number) && one.sum == sum;
        let found = self.recent.iter().rev().find(is_it)?;
        Some(&found.message)
    }

    pub fn slip(&self, number: u32) -> Option<Slip> {
        let last = self.last.filter(|_| number != 1)?;
        match number {
            n if n == last.saturating_add(1) => None,
            n if n == last => Some(Slip::Repeat),
            n if n < last => Some(Slip::Back { last }),
            _ => Some(Slip::Gap {
                expected: last.saturating_add(1),
            }),
        }
    }

    pub fn note(&mut self, said: Utterance) {
        match said.number {
            Some(number) => {
                if self.begins_anew(number) {
                    self.forget_numbers();
                }
                self.last = Some(number);
            }
            None => self.unnumbered = self.unnumbered.saturating_add(1),
        }
        if self.recent.len() >= limits::UTTERANCES_KEPT {
            self.recent.remove(0);
        }
        self.recent.push(said);
    }

    /// The first number, after others: whoever speaks was started anew.
    fn begins_anew(&self, number: u32) -> bool {
        number == 1 && self.last.is_some_and(|last| last > 1)
    }

    fn forget_numbers(&mut self) {
        self.recent.iter_mut().for_each(|one| one.number = None);
    }
}

/// The number that the hub gave to a message, among those of its sender in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    pub session: u32,
    pub number: u32,
}

/// How many messages of somebody who gives no numbers the hub has numbered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub speaker: String,
    pub session: u32,
    /// The last one of this session.
    pub number: u32,
    pub at: Timestamp,
}

const COUNTED: &str = "counted";

impl Private for Counted {
    const HISTORY: Option<History> = Some(History {
        owner: COUNTED,
        kept_for: limits::COUNTED_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.speaker.clone().into()
    }

    fn owner(&self) -> &str {
        COUNTED
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

impl Counted {
    /// With one more: its number follows all of the session's, also those that the speaker gave itself.
    pub(crate) fn next(from: &AgentId, want: &mut Want<'_>, now: Timestamp) -> Counted {
        let speaker = match from.as_str() {
            HUB => HUB_ROLE,
            from => from,
        }
        .to_owned();
        let session = want.private::<Session>("").map_or(0, |row| row.number);
        let counted = want.private::<Counted>(speaker.clone());
        let counted = counted.filter(|row| row.session == session);
        let is_role = !from.is_no_agent() && want.agent(from).is_some_and(Agent::reads_numbers);
        let spoken = match is_role {
            true => want.private::<Spoken>(speaker.clone()),
            false => None,
        };
        let spoken = spoken.filter(|row| row.session == session);
        let last = counted.map(|row| row.number);
        let last = last.max(spoken.and_then(|row| row.last));
        Counted {
            speaker,
            session,
            number: last.unwrap_or(0).saturating_add(1),
            at: now,
        }
    }

    /// Gives the next number to a message.
    pub(crate) fn count(
        from: &AgentId,
        slice: &Slice,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Given {
        let counted = Counted::next(from, &mut Want::new(slice), now);
        let Counted {
            session, number, ..
        } = counted;
        changes.put(counted);
        Given { session, number }
    }
}

/// What tells one saying from another of the same speaker.
pub fn sum(to: &To, said: &str) -> u64 {
    let names = to.named().iter().flat_map(|id| [id.as_str(), "\n"]);
    fnv(names.chain([said]).flat_map(str::bytes))
}

/// The hash that tells texts of one speaker apart; whoever wants two that agree can make them.
pub(crate) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An acknowledgement that a message asks for and that was not given yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    pub message: MessageId,
    pub by: AgentId,
    pub to: AgentId,
    /// Of the message, if its sender numbers them.
    pub number: Option<u32>,
    pub since: Timestamp,
    /// How often its debtor was reminded.
    pub reminded: u8,
}

/// When a debtor is reminded, from the message on; after the last one it is an incident.
pub const REMINDERS: [Duration; 3] = [
    Duration::from_secs(2 * 60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
];
/// How long after the last reminder.
const OVERDUE_AFTER: Duration = Duration::from_secs(60);

impl Private for Owed {
    fn key(&self) -> Cow<'static, str> {
        Owed::key_of(&self.message, &self.by).into()
    }

    fn owner(&self) -> &str {
        self.by.as_str()
    }

    fn position(&self) -> Option<i64> {
        Some(self.since.0)
    }

    fn due_at(&self) -> Option<Timestamp> {
        let reminded = usize::from(self.reminded);
        match REMINDERS.get(reminded) {
            Some(after) => Some(self.since + *after),
            // Told as an incident, it is only shown from there on.
            None if reminded == REMINDERS.len() => {
                Some(self.since + REMINDERS[REMINDERS.len() - 1] + OVERDUE_AFTER)
            }
            None => None,
        }
    }
}

impl Owed {
    pub fn key_of(message: &MessageId, by: &AgentId) -> String {
        format!("{message}/{by}")
    }

    /// What an agent owes, oldest first.
    pub fn owed_by(by: &AgentId) -> RecordRange {
        RecordRange::of::<Owed>(by.to_string(), limits::OWED_PER_LOOK)
    }

    pub fn is_overdue(&self) -> bool {
        usize::from(self.reminded) >= REMINDERS.len()
    }
}

/// The person's chat elsewhere, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    pub read_upto: i64,
    pub read_at: Timestamp,
    /// When the person was last heard there.
    pub heard_at: Option<Timestamp>,
}

impl Private for Chat {
    const LASTS: bool = true;
}

impl Chat {
    /// The mailbox of the chat, if what is said to these goes there, too: the person was heard there a moment ago.
    pub fn copy_of(to: &To, want: &mut Want<'_>, now: Timestamp) -> Option<AgentId> {
        if !to.named().iter().any(|id| id.as_str() == USER) {
            return None;
        }
        let heard = want.private::<Chat>("").and_then(|chat| chat.heard_at);
        let is_open = heard.is_some_and(|at| now < at + limits::CHAT_OPEN_FOR);
        let mailbox = AgentId::from(TELEGRAM);
        let row = want.agent(&mailbox);
        let has_room = row.is_some_and(|row| row.inbox < limits::INBOX_MAX);
        (is_open && has_room).then_some(mailbox)
    }
}

/// A message that was refused: it is delivered to nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub message: MessageId,
    pub from: AgentId,
    /// As it was written: it may be nobody.
    pub to: String,
    pub payload: String,
    pub reason: String,
    pub at: Timestamp,
}

const REFUSED: &str = "refused";

impl Private for Refused {
    const HISTORY: Option<History> = Some(History {
        owner: REFUSED,
        kept_for: limits::REFUSED_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.message.to_string().into()
    }

    fn owner(&self) -> &str {
        REFUSED
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(spoken: &mut Spoken, number: Option<u32>, sum: u64) {
        spoken.note(Utterance {
            message: format!("m{}", spoken.recent.len()).into(),
            number,
            sum,
            priority: Priority::Medium,
            at: Timestamp(1000),
        });
    }

    #[test]
    fn numbers_that_do_not_follow() {
        let table: [(&[u32], u32, Option<Slip>); 9] = [
            (&[], 7, None),
            (&[1], 2, None),
            (&[1, 2], 1, None),
            (&[1, 2, 1], 2, None),
            (&[4], 4, Some(Slip::Repeat)),
            (&[4], 3, Some(Slip::Back { last: 4 })),
            (&[4], 6, Some(Slip::Gap { expected: 5 })),
            (&[u32::MAX], u32::MAX, None),
            (&[2], 0, Some(Slip::Back { last: 2 })),
        ];
        for (before, number, expected) in table {
            let mut spoken = Spoken::default();
            for number in before {
                said(&mut spoken, Some(*number), 0);
            }
            assert_eq!(spoken.slip(number), expected, "{before:?} then {number}");
        }
    }

    #[test]
    fn the_first_number_after_others_begins_a_run_in_which_nothing_was_said_yet() {
        let mut spoken = Spoken::default();
        said(&mut spoken, Some(1), 9);
        assert!(spoken.numbered(1, 9).is_some(), "said once more");
        assert!(spoken.numbered(1, 8).is_none(), "something else");
        said(&mut spoken, Some(2), 8);
        assert!(spoken.numbered(1, 9).is_none(), "a new run");
        said(&mut spoken, Some(1), 9);
        assert!(spoken.numbered(2, 8).is_none(), "of the run before");
        let mut other = spoken.in_session(3);
        assert!(other.numbered(1, 9).is_none(), "of the session before");
        assert_eq!(other.slip(5), None, "the first number is the base");
        said(&mut other, Some(5), 1);
        assert_eq!(other.slip(7), Some(Slip::Gap { expected: 6 }));
    }

    #[test]
    fn the_same_is_the_same_for_a_moment_whatever_its_id() {
        let mut spoken = Spoken::default();
        said(&mut spoken, None, 9);
        let later = Timestamp(1000) + limits::SAME_SIGNATURE_FOR;
        let just = |at, sum, priority| spoken.just_said(sum, priority, at).is_some();
        assert!(just(Timestamp(1001), 9, Priority::Medium));
        assert!(!just(later, 9, Priority::Medium));
        assert!(!just(Timestamp(1001), 8, Priority::Medium));
        assert!(!just(Timestamp(1001), 9, Priority::Critical));
        assert_eq!(spoken.unnumbered, 1);
    }

    #[test]
    fn no_more_is_remembered_than_is_useful() {
        let mut spoken = Spoken::default();
        for number in 0..200 {
            said(&mut spoken, Some(number), u64::from(number));
        }
        assert_eq!(spoken.recent.len(), limits::UTTERANCES_KEPT);
        assert!(spoken.numbered(199, 199).is_some());
    }
}
