//! The doors by which agents take part, and what each asks of them.
//!
//! The one folder of the rules that names protocols: a new door is a word, which ledgers keep, and its policy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Door {
        Jetpack = "jetpack",
        Bus = "bus",
        Squidrun = "squidrun",
        Telegram = "telegram",
        Runtime = "runtime",
    }
}

/// Background agents: programs that belong to a role. They have a mailbox, and are no agents of their own.
pub const SLOTS: [&str; 3] = ["builder-bg-1", "builder-bg-2", "builder-bg-3"];

/// How a door lets agents in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub silence: Silence,
    pub proof: Proof,
    pub skills: SkillsSaid,
    /// Agents stand on a connection: tasks are pushed to them, and watched.
    pub streams: bool,
    /// A newer connection takes the place of the one before; else an agent may have any number.
    pub one_stream: bool,
    /// Who leaves by it, and is there by no other one, stays known and keeps what it holds.
    pub keeps: bool,
    /// Whoever reads by it knows messages by their numbers.
    pub numbers: bool,
}

/// How long an agent may be silent before it is taken for dead. The longest limit of its open doors counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    After(Duration),
    /// Whoever signs on brings the limit along, or none.
    Told,
    /// Nobody promises a sign of life.
    Never,
}

/// What shows that whoever signs on is the agent that has the id. By another door it may always be there as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The same process, or the wish to resume. Another process waits until the agent is silent, and takes the id over.
    /// Each sign-on is a registration.
    Process,
    /// The door has asked who it is: whoever comes in is that agent, and goes on as what it is.
    Door,
}

/// What becomes of skills that were said at other doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillsSaid {
    Replace,
    Add,
}

impl Door {
    /// Whoever writes the public tables is there by this one.
    pub const BY_HAND: Door = Door::Jetpack;

    #[rustfmt::skip]
    pub const fn policy(self) -> Policy {
        use Silence::{After, Never, Told};
        match self {
            Self::Jetpack => Policy { silence: After(limits::SILENT_AFTER), proof: Proof::Process, skills: SkillsSaid::Replace, streams: false, one_stream: false, keeps: false, numbers: false },
            Self::Bus => Policy { silence: Told, proof: Proof::Door, skills: SkillsSaid::Add, streams: true, one_stream: true, keeps: false, numbers: false },
            Self::Squidrun => Policy { silence: Never, proof: Proof::Door, skills: SkillsSaid::Add, streams: false, one_stream: false, keeps: true, numbers: true },
            // By tokens, and no longer than they last.
            Self::Runtime => Policy { silence: Told, proof: Proof::Door, skills: SkillsSaid::Add, streams: false, one_stream: false, keeps: false, numbers: false },
            // Nobody signs on by it: it passes on what is in a mailbox.
            Self::Telegram => Policy { silence: Never, proof: Proof::Door, skills: SkillsSaid::Add, streams: false, one_stream: false, keeps: true, numbers: true },
        }
    }

    pub(crate) fn has_one_stream(self) -> bool {
        self.policy().one_stream
    }
}

impl Silence {
    /// The limit for an agent that brings one along; none is no limit.
    pub const fn limit(self, told: Option<Duration>) -> Option<Duration> {
        match self {
            Silence::After(limit) => Some(limit),
            Silence::Told => told,
            Silence::Never => None,
        }
    }
}

/// Of two limits; none is the longest.
pub fn longest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    Some(one?.max(other?))
}
