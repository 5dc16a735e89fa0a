//! What follows from what an agent says of a task, again and again, while it is at it.
//!
//! Each door has words of its own for where an agent stands; they come down to these.

use crate::task::Phase;

/// Where it says that it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    At(Phase),
    /// Before its next try; it keeps the task.
    Waits,
    Done,
    /// It cannot go on without a person.
    Blocked,
}

/// The task of which it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    None,
    /// One that it holds.
    Own,
    /// One that it does not hold.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It lives, and is so far.
    Pulse,
    Complete,
    AskPerson,
    /// It may become a task of its own, where that is wanted.
    Adopt,
    /// What it accepted may be forgotten.
    Idle,
}

impl Said {
    pub const fn phase(self) -> Option<Phase> {
        match self {
            Said::At(phase) => Some(phase),
            Said::Waits | Said::Done | Said::Blocked => None,
        }
    }

    pub const fn follows(self, named: Named) -> Follows {
        match (named, self) {
            (Named::None, _) => Follows::Idle,
            (Named::Foreign, _) => Follows::Adopt,
            (Named::Own, Said::At(_) | Said::Waits) => Follows::Pulse,
            (Named::Own, Said::Done) => Follows::Complete,
            (Named::Own, Said::Blocked) => Follows::AskPerson,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_by_table() {
        // agentbus.heartbeat.stage_enum
        let at = Said::At(Phase::Testing);
        for (said, own) in [
            (at, Follows::Pulse),
            (Said::Waits, Follows::Pulse),
            (Said::Done, Follows::Complete),
            (Said::Blocked, Follows::AskPerson),
        ] {
            assert_eq!(said.follows(Named::Own), own, "{said:?}");
            assert_eq!(said.follows(Named::Foreign), Follows::Adopt, "{said:?}");
            assert_eq!(said.follows(Named::None), Follows::Idle, "{said:?}");
            let phase = (said == at).then_some(Phase::Testing);
            assert_eq!(said.phase(), phase, "{said:?}");
        }
    }
}
