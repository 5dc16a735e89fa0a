//! The director's states and what leads from one to the next. Pure; the task around it is in `director`.

use switchboard_wire::agentbus::DirectorState;

/// What moves the director.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The work of the present state is done.
    Done,
    /// The interval between two rounds is over.
    Interval,
    /// A release was published.
    Release,
    /// The ledger cannot be written, or somebody ordered a pause.
    Cool(Why),
    /// Nothing holds it back any more.
    Warm,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Outage,
    Paused,
    Cooldown,
}

impl Why {
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Outage => "the ledger is not writable",
            Why::Paused => "paused by an operator",
            Why::Cooldown => "cooling down",
        }
    }
}

/// The next state; `None` if this causes nothing here.
pub(super) fn next(state: DirectorState, cause: Cause) -> Option<DirectorState> {
    use DirectorState as S;
    match (state, cause) {
        (S::Shutdown, _) => None,
        (_, Cause::Stop) => Some(S::Shutdown),
        (S::Cooldown, Cause::Warm) => Some(S::Discover),
        (S::Cooldown, _) => None,
        (_, Cause::Cool(_)) => Some(S::Cooldown),
        (S::Boot, Cause::Done) => Some(S::ReleasePlan),
        (S::ReleasePlan, Cause::Done) => Some(S::Discover),
        (S::Discover, Cause::Done) => Some(S::Dispatch),
        (S::Dispatch, Cause::Done) => Some(S::Broadcast),
        (S::Broadcast, Cause::Done) => Some(S::Monitor),
        (S::Monitor, Cause::Interval) => Some(S::SelfReview),
        (S::SelfReview, Cause::Done) => Some(S::Discover),
        (S::Monitor, Cause::Release) => Some(S::ReleaseFinalize),
        (S::ReleaseFinalize, Cause::Done) => Some(S::ReleasePlan),
        (
            S::Boot
            | S::ReleasePlan
            | S::Discover
            | S::Dispatch
            | S::Monitor
            | S::ReleaseFinalize
            | S::Broadcast
            | S::SelfReview,
            Cause::Done | Cause::Interval | Cause::Release | Cause::Warm,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DirectorState as S;

    #[test]
    fn a_round_goes_through_its_states_and_comes_back() {
        let mut state = S::Boot;
        let mut seen = vec![state];
        while state != S::Monitor {
            state = next(state, Cause::Done).expect("a state's work leads on");
            seen.push(state);
        }
        assert_eq!(
            seen,
            [
                S::Boot,
                S::ReleasePlan,
                S::Discover,
                S::Dispatch,
                S::Broadcast,
                S::Monitor
            ]
        );
        assert_eq!(next(S::Monitor, Cause::Interval), Some(S::SelfReview));
        assert_eq!(next(S::SelfReview, Cause::Done), Some(S::Discover));
        assert_eq!(next(S::Monitor, Cause::Release), Some(S::ReleaseFinalize));
        assert_eq!(next(S::ReleaseFinalize, Cause::Done), Some(S::ReleasePlan));
    }

    #[test]
    fn from_anywhere_it_cools_down_or_ends_and_only_warmth_leads_out() {
        for state in S::ALL.iter().copied() {
            let cools = next(state, Cause::Cool(Why::Outage));
            let ends = next(state, Cause::Stop);
            match state {
                S::Shutdown => assert_eq!((cools, ends), (None, None)),
                S::Cooldown => assert_eq!((cools, ends), (None, Some(S::Shutdown))),
                _ => assert_eq!((cools, ends), (Some(S::Cooldown), Some(S::Shutdown))),
            }
        }
        for cause in [Cause::Done, Cause::Interval, Cause::Release] {
            assert_eq!(next(S::Cooldown, cause), None);
        }
        assert_eq!(next(S::Cooldown, Cause::Warm), Some(S::Discover));
    }
}
